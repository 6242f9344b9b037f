"""Faults at the phases of tasks: which report fires them, into which task, and what is said if none comes."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import HurrySteps
from clusterkit.words.faults import Phase
from clusterkit.words.outcome import RunState
from tests.histories import SIGKILL, History, task
from tests.machine.faulty import injected, with_faults


def reaches(run: History, name: str, phase: Phase, number: int = 1) -> None:
    """A task's present attempt reports a phase."""
    run.send(ev.PhaseReached(task(name), run.attempts[name], phase, number))


def test_a_kill_at_a_phase() -> None:
    """When this task has reached this phase, and once only."""
    run = with_faults("kill worker:1 @ phase=saving").begin()
    assert run.asked(HurrySteps) == [HurrySteps()]
    reaches(run, "worker:0", Phase.SAVING)
    reaches(run, "worker:1", Phase.SAVING_OPEN)
    assert injected(run) == []
    reaches(run, "worker:1", Phase.SAVING)
    assert injected(run) == [(0.0, "kill", ["worker:1"])]
    assert (0.0, "worker:1", SIGKILL) in run.signals()
    run.after(5)
    assert run.attempts["worker:1"] == 2
    reaches(run, "worker:1", Phase.SAVING)
    assert len(injected(run)) == 1


def test_the_times_that_a_task_reaches_a_phase_add_up_over_its_attempts() -> None:
    """Of the run, not of an attempt; what an older attempt has reported too late does not count."""
    run = with_faults("kill worker:1 @ phase=saved:3", "term worker:1 @ 1s").begin()
    reaches(run, "worker:1", Phase.SAVED)
    run.after(5)
    assert run.attempts["worker:1"] == 2
    run.send(ev.PhaseReached(task("worker:1"), 1, Phase.SAVED, 2))
    reaches(run, "worker:1", Phase.SAVED)
    reaches(run, "worker:0", Phase.SAVED)
    assert [action for _, action, _ in injected(run)] == ["term"]
    reaches(run, "worker:1", Phase.SAVED, 2)
    assert [action for _, action, _ in injected(run)] == ["term", "kill"]


@pytest.mark.parametrize(
    ("fault", "hit"),
    [
        ("kill any @ phase=restoring", [(0.0, "kill", ["worker:1"])]),
        ("kill worker @ phase=restoring", [(0.0, "kill", ["worker:1"])]),
        ("kill worker:* @ phase=restoring", [(0.0, "kill", ["worker:0", "worker:1"])]),
        ("kill ps @ phase=restoring", [(0.0, "kill", ["ps:0"])]),
        ("kill any @ phase=restoring:2", [(0.0, "kill", ["ps:0"])]),
        ("disk-full for=1s @ phase=restoring", [(0.0, "disk-full", [])]),
        ("partition worker | ps @ phase=restoring", [(0.0, "partition", ["worker:1"])]),
        ("kill any @ phase=restoring after=2s", [(2.0, "kill", ["worker:1"])]),
        ("kill worker:0 @ phase=restoring", []),
    ],
)
def test_the_first_target_that_reaches_it_is_hit(fault: str, hit: list[tuple[float, str, list[str]]]) -> None:
    """It is the one that waits there; a fault on storage has no target, and comes with any task."""
    run = with_faults(fault).begin()
    reaches(run, "worker:1", Phase.RESTORING)
    reaches(run, "ps:0", Phase.RESTORING)
    reaches(run, "ps:0", Phase.RESTORING)
    run.after(3)
    assert injected(run) == hit


def test_a_task_that_is_not_told_of_yet_is_hit_when_it_is_up() -> None:
    """A fork reports its first phase at once, maybe before its start is known."""
    run = with_faults("kill worker:1 @ phase=importing")
    run.warming = True
    run.begin()
    run.send(ev.PhaseReached(task("worker:1"), 1, Phase.IMPORTING, 1))
    assert (injected(run), run.signals()) == ([(0.0, "kill", ["worker:1"])], [])
    run.warms()
    assert (0.0, "worker:1", SIGKILL) in run.signals()


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("kill worker:1 @ phase=restoring", "worker:1 never reached the phase restoring"),
        ("kill worker:1 @ phase=saved:3", "worker:1 reached the phase saved only 2 of 3 times"),
        ("kill worker @ phase=ending", "none of worker:0 and worker:1 reached the phase ending"),
        ("kill any @ phase=saved:4", "none of chief:0, worker:0, worker:1 and ps:0 reached the phase saved more than "
         "2 of 4 times"),
    ],
)  # fmt: skip
def test_a_phase_that_was_never_reached(fault: str, why: str) -> None:
    """The job succeeded, and proved nothing: exit code 3."""
    run = with_faults(fault).begin()
    reaches(run, "worker:1", Phase.SAVED)
    reaches(run, "worker:1", Phase.SAVED, 2)
    run.exits("chief:0", code=0)
    run.after(60)
    assert (run.result.state, run.result.exit_code) == (RunState.SUCCEEDED, 3)
    assert [one.why for one in run.result.not_injected] == [why]
