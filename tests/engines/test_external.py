"""Agents that somebody else starts: what a signal means to a run that has such ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.engines.agents.engine import ENGINE, MOVED_WITHIN
from clusterkit.store.directory import RunDirectory
from clusterkit.words.events import AllocationEnding
from clusterkit.words.job import HostRequest, JobSpec, Limits
from tests.histories import job


def spec(grace: float) -> JobSpec:
    """A job whose tasks have so many seconds to end."""
    return replace(job(workers=2, limits=Limits(grace=grace)), hosts=HostRequest("agents", count=2))


@pytest.mark.parametrize(("grace", "expected"), [(10.0, MOVED_WITHIN), (120.0, 120.0)])
def test_a_supervisor_that_is_moved_gives_tasks_their_grace_period(
    tmp_path: Path, grace: float, expected: float
) -> None:
    """The pods of manifests have as much time, and some more."""
    engine = ENGINE.allocation(spec(grace), RunDirectory(tmp_path), continues=True)
    assert engine.ending(15) == AllocationEnding("the supervisor is told to end (SIGTERM)", expected)
    assert engine.ending(2) is None


def test_what_an_agent_is_told_is_for_that_agent(tmp_path: Path) -> None:
    """And a run that nobody continues is not suspended."""
    assert ENGINE.allocation(spec(10.0), RunDirectory(tmp_path), True).ending(15, elsewhere=True) is None
    assert ENGINE.allocation(spec(10.0), RunDirectory(tmp_path), False).ending(15) is None
