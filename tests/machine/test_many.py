"""What the machine does for an event does not grow with the number of tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from clusterkit.ledger.ledger import Ledger
from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec, Limits, RestartRules
from tests.efforts import calls
from tests.histories import SIGINT, History, faults, job
from tests.machine.test_gang import UNAVAILABLE

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


def connects(run: History) -> None:
    """Every task connects, and the last one ends the run."""
    for one in reversed(run.job.tasks):
        run.send(ev.Ready(one, 1))
    run.send(ev.Interrupted(SIGINT))


def peers_of_a_cut_host(run: History) -> None:
    """All but one fail as tasks do whose peer is gone, while a host is cut off; then it is known to be lost."""
    run.send(ev.HostCut("n1", "connection reset", 30.0))
    first, *others = map(str, run.job.tasks)
    for name in others:
        run.exits(name, exception=UNAVAILABLE)
    run.after(20)
    run.loses("n1", first)
    run.after(5)
    run.send(ev.Interrupted(SIGINT))


def deadlines_that_pass(run: History) -> None:
    """No task connects in time; all deadlines come in the same moment."""
    run.listening = False
    run.after(130)


PLAIN = partial(job, restart=RestartRules(budget=9))
STORIES: dict[str, tuple[Callable[[History], None], Callable[..., JobSpec]]] = {
    "up and down": (up_and_down, PLAIN),
    "reports": (reports, PLAIN),
    "reports without a stall warning": (reports, partial(PLAIN, limits=Limits(stall_warning=0))),
    "grace that passes": (grace_that_passes, PLAIN),
    "a gang that fails": (a_gang_that_fails, PLAIN),
    "peers of a cut host": (peers_of_a_cut_host, PLAIN),
    "a first step is waited for": (connects, partial(PLAIN, limits=Limits(stall=600))),
    "a fault waits until all are ready": (connects, lambda workers: faulty(PLAIN(workers), "kill worker:0 @ ready")),
    "a coordinator waits for its servers": (connects, partial(PLAIN, ps=1)),
    "deadlines that pass": (deadlines_that_pass, PLAIN),
}


def faulty(spec: JobSpec, fault: str) -> JobSpec:
    """The job with a fault."""
    return replace(spec, faults=faults(fault))


def effort(story: Callable[[History], None], spec: JobSpec) -> float:
    """How many Python functions a history calls for each task, counted from the beginning of its run.

    What the ledger takes of it is counted as well: the supervisor keeps that, too.
    """
    fold = Ledger(spec)
    run = History(spec, forked=True, observe=lambda event, now: fold.add(now, event))
    count = calls(lambda: story(run.begin()))
    assert run.over
    return count / len(spec.tasks)


@pytest.mark.parametrize("story", STORIES)
def test_the_work_for_each_task_is_the_same_in_a_job_of_ten_times_as_many(story: str) -> None:
    """Nothing looks at all tasks for an event of one. Calls are counted, so that a busy computer changes nothing."""
    happens, make = STORIES[story]
    assert effort(happens, make(workers=MANY)) <= 1.2 * effort(happens, make(workers=FEW))
