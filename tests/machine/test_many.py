"""What the machine does for an event does not grow with the number of tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from clusterkit.words import events as ev
from clusterkit.words.job import RestartRules
from tests.histories import SIGINT, History, job

FEW, MANY = 16, 160


def up_and_down(run: History) -> None:
    """Every task connects; Ctrl-C ends them all."""
    for one in run.job.tasks:
        run.send(ev.Ready(one, 1))
    run.send(ev.Interrupted(SIGINT))


def reports(run: History) -> None:
    """Every task reports steps, as each does once a second."""
    for step in range(10):
        for one in run.job.tasks:
            run.progresses(str(one), step)
        run.after(1)
    run.send(ev.Interrupted(SIGINT))


def grace_that_passes(run: History) -> None:
    """No task heeds SIGTERM, so that each has a deadline of its own."""
    run.stubborn |= run.live
    run.send(ev.Interrupted(SIGINT))
    run.after(20)


def a_gang_that_fails(run: History) -> None:
    """Every task fails of the same thing, and all start again."""
    for one in run.job.tasks:
        run.exits(str(one), code=1)
    run.after(30)
    run.send(ev.Interrupted(SIGINT))


def calls(story: Callable[[History], None], tasks: int) -> int:
    """How many Python functions and generators a history calls, counted from the beginning of its run."""
    run = History(job(workers=tasks, restart=RestartRules(budget=9)))
    count = 0

    def called(_frame: object, what: str, _arg: object) -> None:
        nonlocal count
        count += what == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        story(run.begin())
    finally:
        sys.setprofile(before)
    assert run.over
    return count


@pytest.mark.parametrize("story", [up_and_down, reports, grace_that_passes, a_gang_that_fails])
def test_the_work_for_each_task_is_the_same_in_a_job_of_ten_times_as_many(story: Callable[[History], None]) -> None:
    """Nothing looks at all tasks for an event of one. Calls are counted, so that a busy computer changes nothing."""
    assert calls(story, MANY) / MANY <= 1.2 * calls(story, FEW) / FEW
