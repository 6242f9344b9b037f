"""Tasks in the debugger: nothing that counts time counts that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Finish, Inspect
from clusterkit.words.job import JobSpec, Limits
from clusterkit.words.outcome import RunState
from tests.histories import History, job, task


def enters(run: History, name: str) -> None:
    """A task is held at a breakpoint."""
    run.send(ev.InDebugger(task(name), run.attempts[name], "train.py", 31, "step"))


def leaves(run: History, name: str) -> None:
    """It is released."""
    run.send(ev.LeftDebugger(task(name), run.attempts[name]))


def training(limits: Limits, spec: JobSpec | None = None) -> History:
    """A gang of two that has made a step."""
    run = History(replace(spec or job(workers=2), limits=limits)).begin()
    for name in ("worker:0", "worker:1"):
        run.progresses(name, 1)
    return run


def test_there_is_no_stall_while_a_task_is_held_and_the_full_time_afterwards() -> None:
    """Neither a warning nor the end of a task, however long it takes."""
    run = training(Limits(stall=30))
    enters(run, "worker:1")
    run.after(10_000)
    assert run.warnings == []
    leaves(run, "worker:1")
    run.after(29)
    assert run.signals() == []
    run.after(2)
    assert run.signals()[0][1] == "worker:0"
    assert run.warnings[0].endswith("worker:0 is killed. What was seen of every task is in stall-1.txt.")


def test_the_last_of_several_counts() -> None:
    """As long as one is held, the others wait for it."""
    run = training(Limits(stall=30))
    for name in ("worker:0", "worker:1", "worker:0"):
        enters(run, name)
    run.after(100)
    leaves(run, "worker:0")
    leaves(run, "worker:0")
    run.after(100)
    assert run.signals() == []
    leaves(run, "worker:1")
    run.after(31)
    assert run.signals() != []


def test_the_time_of_the_job_stands_still() -> None:
    """What was held is added, in one piece or several."""
    run = training(Limits(job=100, stall_warning=0))
    for _ in range(2):
        run.after(30)
        enters(run, "worker:0")
        run.after(1000)
        leaves(run, "worker:0")
    run.after(39.9)
    assert run.asked(Finish) == []
    run.after(0.2)
    assert run.asked(Finish)[0].result.state is RunState.TIMED_OUT


def test_peers_that_wait_for_a_held_task_are_not_late() -> None:
    """The time to be connected stands still, for those that start meanwhile too."""
    run = History(job(workers=2, limits=Limits(startup=60)), listening=False).begin()
    run.after(50)
    enters(run, "worker:0")
    run.after(500)
    assert run.asked(Inspect) == []
    leaves(run, "worker:0")
    run.after(9)
    assert run.asked(Finish) == []
    run.after(2)
    assert "within 60 s" in run.asked(Finish)[0].result.reason


def test_a_held_task_that_ends_holds_nobody() -> None:
    """Killed, or restarted with its gang."""
    run = training(Limits(stall=30))
    enters(run, "worker:1")
    run.after(100)
    run.exits("worker:1", signal=9)
    run.after(5)
    for name in ("worker:0", "worker:1"):
        run.progresses(name, 2)
    run.after(31)
    assert "No task has reported progress" in run.warnings[-1]


@pytest.mark.parametrize("name", ["worker:0", "evaluator:0"])
def test_after_the_jobs_success_a_held_task_gets_its_time(name: str) -> None:
    """An evaluator, say, of which somebody looks at the evaluation."""
    run = training(Limits(evaluator=30, finish=10, stall_warning=0), job(workers=2, chief=1, evaluator=1))
    run.progresses("chief:0", 1)
    run.stubborn.update({"worker:0", "evaluator:0"})
    enters(run, name)
    run.exits("chief:0", code=0)
    run.after(300)
    assert not [one for one in run.signals() if one[1] == name]
    leaves(run, name)
    run.after(40)
    assert [one for one in run.signals() if one[1] == name]


def test_reports_of_older_attempts_and_of_ended_tasks_hold_nobody() -> None:
    """A pipe outlives the attempts that write into it."""
    run = training(Limits(stall=30))
    run.send(ev.InDebugger(task("worker:1"), 7, "train.py", 1, "step"))
    run.after(31)
    assert run.signals() != []


def test_the_slowness_of_those_that_wait_for_a_held_task_does_not_count() -> None:
    """No look at the paces is asked for."""
    run = training(Limits(stall_warning=0))
    enters(run, "worker:1")
    before = len(run.asked(Inspect))
    for step in range(2, 20):
        run.progresses("worker:0", step)
        run.after(3)
    assert len(run.asked(Inspect)) == before
