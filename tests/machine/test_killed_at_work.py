"""A task that is killed while the job makes steps: how long its peers are waited for."""

from __future__ import annotations

from typing import Any

import pytest

from clusterkit.words import events as ev
from tests.histories import SIGKILL, History, job, task


@pytest.mark.parametrize(("ago", "at"), [(0.0, 0.05), (0.9, 0.05), (1.0, 1.0)])
def test_survivors_of_a_kill_between_two_steps_are_killed_at_once(ago: float, at: float) -> None:
    """A gang that makes steps is not about to finish, and its survivors' errors explain no SIGKILL."""
    run = History(job(workers=3)).begin()
    run.progresses("worker:0", 7)
    run.after(ago)
    run.exits("worker:1", signal=SIGKILL)
    run.after(at - 0.01)
    assert run.signals() == []
    run.after(0.02)
    assert [(name, signal) for _, name, signal in run.signals()] == [("worker:0", SIGKILL), ("worker:2", SIGKILL)]
    run.after(1)
    assert run.attempts == {"worker:0": 2, "worker:1": 2, "worker:2": 2}


@pytest.mark.parametrize("how", [{"code": 1}, {"signal": 11}, {"signal": 15}], ids=str)
def test_survivors_of_another_end_between_two_steps_are_waited_for(how: dict[str, Any]) -> None:
    """It may be due to an error of a survivor, which takes longer to exit."""
    run = History(job(workers=2)).begin()
    run.progresses("worker:0", 7)
    run.exits("worker:1", **how)
    run.after(0.9)
    assert run.signals() == []


def test_workers_that_are_killed_together_are_one_failure() -> None:
    """A signal to each of them is sent in a few milliseconds."""
    run = History(job(workers=3)).begin()
    run.progresses("worker:0", 7)
    run.exits("worker:1", signal=SIGKILL)
    run.after(0.02)
    run.exits("worker:2", signal=SIGKILL)
    run.after(1)
    assert [str(failure.task) for failure in run.failures] == ["worker:1", "worker:2"]
    assert [planned.charged for planned in run.decided(ev.RestartPlanned)] == [1]


GONE = "UnavailableError: Connection reset by peer"
BUG = "ValueError: shapes (2,) and (3,)"


@pytest.mark.parametrize(
    ("first", "second", "causes"),
    [(GONE, BUG, ["worker:1", "worker:0"]), (GONE, GONE, ["worker:1"]), (BUG, GONE, ["worker:1"])],
    ids=["another cause", "alike", "its result"],
)
def test_a_survivor_whose_output_ends_after_the_decision_changes_it_only_as_another_cause(
    first: str, second: str, causes: list[str]
) -> None:
    """The survivor had exited before the decision, so the machine could not end it, and its output closed later."""
    run = History(job(workers=2)).begin()
    run.progresses("worker:0", 7)
    run.unswept.add("worker:0")
    run.exits("worker:0", exception=second)
    run.exits("worker:1", exception=first)
    run.after(1.5)
    run.send(ev.Swept(task("worker:0"), 1))
    run.after(5)
    assert [str(planned.cause.task) for planned in run.decided(ev.RestartPlanned) if planned.cause] == causes
    assert run.attempts == {"worker:0": 2, "worker:1": 2}
    assert {str(one.task) for one in run.failures} == {"worker:0", "worker:1"}
