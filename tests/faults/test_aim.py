"""Faults at phases: which tasks report them, whom they hit, and which jobs can't have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterkit.faults.aim import choose_targets, live_problems_of, phases_of, problems_of
from clusterkit.words.grammar import parse_fault
from clusterkit.words.job import Servers
from tests.histories import job, task


@pytest.mark.parametrize(
    ("text", "spec", "why"),
    [
        ("kill worker:1", {"servers": Servers.BUILTIN}, "worker:1 is clusterkit's own server"),
        ("kill any", {"servers": Servers.BUILTIN}, "worker:0, worker:1 and ps:0 are clusterkit's own servers"),
        ("kill chief", {"servers": Servers.BUILTIN}, None),
        ("kill any", {}, None),
    ],
)
def test_who_has_no_phases(text: str, spec: dict[str, Any], why: str | None) -> None:
    """A server of clusterkit's own, in place of the program."""
    found = list(problems_of(parse_fault(f"{text} @ phase=saving"), replace(job(workers=2, ps=1), **spec)))
    assert found == [] if why is None else [why in one for one in found] == [True]
    assert list(problems_of(parse_fault(text), replace(job(workers=2, ps=1), **spec))) == []


def test_a_live_run_reports_no_further_phases() -> None:
    """Its tasks have learned from their environment which to report."""
    (problem,) = live_problems_of(parse_fault("kill worker:1 @ phase=saving"), job(workers=2))
    assert "Start the run with --fault 'kill worker:1 @ phase=saving'" in problem


@pytest.mark.parametrize(
    ("texts", "name", "phases"),
    [
        (["kill worker:1 @ phase=saving"], "worker:0", ""),
        (["kill worker:1 @ phase=saving", "kill worker @ step=3"], "worker:1", "saving:1:1"),
        (["kill worker @ phase=saving:2", "stop any @ phase=saving:3 after=1s"], "worker:1", "saving:3:2"),
        (["disk-full @ phase=saving-write", "kill all @ phase=ending"], "ps:0", "saving-write:1:1 ending:1:1"),
    ],
)
def test_what_a_task_reports_and_waits_for(texts: list[str], name: str, phases: str) -> None:
    """Up to the highest number of each phase; it does not wait for what comes later."""
    spec = replace(job(workers=2, ps=1), faults=tuple(map(parse_fault, texts)))
    assert phases_of(spec, task(name)) == phases


def test_the_task_that_reached_a_phase_is_hit_first() -> None:
    """Where the target leaves the choice; others are drawn."""
    tasks = job(workers=3, ps=1).tasks
    for text, near in (
        ("kill worker", ["worker:2"]),
        ("kill any", ["worker:2"]),
        ("kill random(2)", ["worker:0", "worker:2"]),
        ("kill worker:*", ["worker:0", "worker:1", "worker:2"]),
        ("kill worker:2,worker", ["worker:0", "worker:2"]),
    ):
        chosen, _ = choose_targets(parse_fault(text), tasks, lambda nth: 0.3 if nth == 0 else 1 / 0, task("worker:2"))
        assert chosen == tuple(map(task, near)), text
