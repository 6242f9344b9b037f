"""How often a run restarted: the state machine, the ledger and a supervisor that continues the run agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.situation import RunActivity, situation_of
from clusterkit.ledger.takeover import history_of
from clusterkit.words import events as ev
from clusterkit.words.events import Verb
from clusterkit.words.job import JobSpec, Limits
from tests.histories import History, job, task

LIMITS = Limits(startup=0, stall_warning=0, grace=10)


def _restart(run: History, *names: str) -> None:
    run.send(ev.Requested(1, Verb.RESTART, tuple(map(task, names))))


def _three_at_once(run: History) -> None:
    for _ in range(3):
        _restart(run, "worker:1")
    run.after(30)


def _three_while_ending(run: History) -> None:
    run.stubborn |= {"worker:0", "worker:1"}
    for _ in range(3):
        _restart(run, "worker:1")
        run.after(2)
    run.after(30)


def _two_of_different_tasks(run: History) -> None:
    run.stubborn |= {"worker:0", "worker:1"}
    _restart(run, "worker:0")
    run.after(1)
    _restart(run, "worker:1")
    run.after(30)


def _one_after_the_other(run: History) -> None:
    for _ in range(3):
        _restart(run, "worker:1")
        run.after(30)


def _failure_and_request(run: History) -> None:
    run.exits("worker:1", code=3)
    _restart(run, "worker:1")
    run.after(30)


def _ended_before_the_restart(run: History) -> None:
    run.exits("worker:1", code=3)
    run.after(1.05)
    run.send(ev.Requested(1, Verb.DOWN))


def _failures(run: History) -> None:
    for code in (3, 4):
        run.exits("worker:1", code=code)
        run.after(40)


GANG, SERVERS = job(workers=2, limits=LIMITS), job(workers=2, ps=1, limits=LIMITS)


@pytest.mark.parametrize(
    ("spec", "happens", "restarts"),
    [
        (GANG, _three_at_once, 3),
        (GANG, _three_while_ending, 1),
        (GANG, _two_of_different_tasks, 1),
        (SERVERS, _two_of_different_tasks, 2),
        (SERVERS, _three_while_ending, 1),
        (GANG, _one_after_the_other, 3),
        (GANG, _failure_and_request, 1),
        (GANG, _ended_before_the_restart, 0),
        (GANG, _failures, 2),
        (SERVERS, _failures, 2),
    ],
)
def test_restarts_are_counted_when_tasks_start_again(
    spec: JobSpec, happens: Callable[[History], None], restarts: int
) -> None:
    """Not when they are planned: a plan may be replaced by the next one, or by the end."""
    run, ledger = History(spec), Ledger(spec)
    run.observe = lambda event, now: ledger.add(now, event)
    run.begin()
    happens(run)
    counted = (run.machine.recoveries.restarts, ledger.run.restarts, history_of(ledger).restarts)
    if not run.over:
        run.stubborn.clear()
        run.send(ev.Requested(9, Verb.DOWN, force=True))
    assert counted == (restarts,) * 3
    assert run.result.restarts == ledger.run.restarts == restarts


@pytest.mark.parametrize("spec", [GANG, SERVERS, job(workers=1)])
@pytest.mark.parametrize("times", [1, 3])
def test_a_restart_before_a_task_has_its_process_is_no_failure(spec: JobSpec, times: int) -> None:
    """The first step of the next attempt is a step of training: `ps` does not wait for a recovery for ever."""
    run, ledger = History(spec), Ledger(spec)
    run.observe = lambda event, now: ledger.add(now, event)
    run.warming = True  # processes are on their way
    run.begin()
    for _ in range(times):
        run.send(ev.Requested(1, Verb.RESTART))
    run.warms()
    run.after(5)
    leader = str(spec.leader)
    run.send(ev.Progressed(spec.leader, run.attempts[leader], 64, {}, 128))
    assert situation_of(ledger).activity is RunActivity.TRAINING
    goodput = ledger.account().goodput
    assert goodput is not None
    assert goodput.share is not None, "no task reported a step"
