"""Stand-ins for hosts: what they can be, and that they end."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.engines.local import engine as local
from clusterkit.engines.local.engine import LocalAgents
from clusterkit.words.job import HostRequest
from tests.histories import job

pytestmark = pytest.mark.process


def test_agents_that_do_not_end_have_their_time_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And are killed then, not one after the other."""
    monkeypatch.setattr(local, "END_WITHIN", 1.0)
    engine = LocalAgents(30, tmp_path / "log")
    engine.agents = [subprocess.Popen(["sleep", "600"]) for _ in range(30)]
    begun = time.monotonic()
    engine.stop()
    assert [agent.returncode for agent in engine.agents] == [-signal.SIGKILL] * 30
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        (HostRequest(count=1024, spare=1), "1025 hosts are requested. This machine stands in for at most 1024."),
        (HostRequest(count=2, interface="lo"), None),
        (HostRequest(count=2, interface="nope"), "--interface: The interface nope has no address here, or does not"),
    ],
)
def test_what_this_machine_can_not_be_in_place_of_hosts(hosts: HostRequest, told: str | None) -> None:
    """Too many, or without that interface."""
    found = local.ENGINE.problems(replace(job(workers=2), hosts=hosts))
    assert [problem[: len(told or "")] for problem in found] == ([] if told is None else [told])
