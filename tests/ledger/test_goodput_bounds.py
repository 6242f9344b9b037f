"""Goodput of anything: another allocation, odd clocks, random events, and a bounded memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import FunctionType, ModuleType

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from clusterkit.ledger.ledger import Ledger
from clusterkit.words import events as ev
from clusterkit.words.account import Goodput
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import Exit
from clusterkit.words.reports import Stage
from tests.histories import job, task
from tests.ledger.recovering import check_sums
from tests.ledger.splitting import BEGUN, dies, gang, one_task, ps_job


def split(ledger: Ledger, now: float | None = None) -> Goodput:
    """What the run's time went into."""
    told = ledger.account(now).goodput
    assert told is not None
    return told


def test_a_run_that_continues_in_another_allocation() -> None:
    """What lies between the allocations belongs to the recovery."""
    fold, began = Ledger(one_task().job), 1000.0
    first = one_task()
    for at, event in first.events:
        fold.add(at, event)
    fold.add(began + 100, ev.Continued(2))
    for seconds, event in (
        (101, ev.Changed(task("worker:0"), 2, TaskState.STARTING)),
        (101, ev.Spawned(task("worker:0"), 2)),
        (101, ev.Changed(task("worker:0"), 2, TaskState.RUNNING)),
        (105, ev.Resumed(task("worker:0"), 2, 8, "ckpt-8")),
        (106, ev.Progressed(task("worker:0"), 2, 9)),
    ):
        fold.add(began + seconds, event)
    told = split(fold)
    check_sums(told, 106)
    assert told.parts.recovering == pytest.approx(98.0)
    assert told.parts.lost == pytest.approx(0.2)
    assert told.most.startswith("The run continued in its allocation 2 after 8.0 s: 98.0 s to recover")


@pytest.mark.parametrize("clock", [lambda at: 2000.0 - at, lambda at: 1000.0, lambda at: at * 1e6, lambda at: -at])
def test_odd_clocks(clock: Callable[[float], float]) -> None:
    """One that goes back stands still, so that no part is negative."""
    told = one_task()
    dies(told)
    fold, first, newest = Ledger(told.job), clock(told.events[0][0]), -1e18
    for at, event in told.events:
        newest = max(newest, clock(at))
        fold.add(clock(at), event)
        check_sums(split(fold), newest - first)


def test_reports_of_an_older_attempt_and_of_servers_are_no_steps() -> None:
    """Nor those of an evaluator."""
    told = ps_job()
    dead = ev.Progressed(task("chief:0"), 0, 99)
    for event in (dead, ev.Progressed(task("worker:0"), 1, 99), ev.Progressed(task("ps:0"), 1, 99)):
        told.run.after(0.1)
        told.run.send(event)
    told.steps("chief:0", 11)
    assert told.parts == BEGUN | {"training": 1.4}


def kept_by(fold: Ledger) -> int:
    """How many objects its account of time keeps."""
    seen = {id(part): object() for part in (fold.attempts, fold.incidents)}
    new: list[object] = [fold.time]
    while new:
        thing = new.pop()
        if id(thing) not in seen and not isinstance(thing, type | ModuleType | FunctionType):
            seen[id(thing)] = thing
            new += gc.get_referents(thing)
    return len(seen)


def test_it_keeps_a_bounded_amount() -> None:
    """Of any number of steps, checkpoints, phases, pauses and phases that never end."""
    told = gang()
    fold, at = told.ledger, told.run.now
    counts = []
    for block in range(3):
        for step in range(block * 2000 + 20, block * 2000 + 2020):
            at += 0.1
            fold.add(at, ev.Progressed(task("worker:0"), 1, step))
            fold.add(at, ev.Progressed(task("worker:1"), 1, step))
            fold.add(at, ev.PhaseChanged(task("worker:0"), 1, f"phase {step}", True))
            if step % 3:
                fold.add(at, ev.PhaseChanged(task("worker:0"), 1, f"phase {step}", False))
            if step % 10 == 0:
                fold.add(at, ev.Checkpointed(task("worker:0"), 1, step, f"ckpt-{step}"))
        for number in range(2000):  # without a step
            fold.add(at + number, ev.Paused(task("worker:1"), 1, number % 2 == 0))
        at += 2000
        check_sums(split(fold, at), at - told.events[0][0])
        counts.append(kept_by(fold))
    assert max(counts) < 1200, counts


WORKERS = st.sampled_from([task("worker:0"), task("worker:1")])
SMALL = st.integers(0, 30)
ANY_EVENT = st.one_of(
    st.builds(ev.Progressed, WORKERS, SMALL, SMALL, st.just({}), st.none() | SMALL),
    st.builds(ev.Checkpointed, WORKERS, SMALL, SMALL, st.just("c")),
    st.builds(ev.Resumed, WORKERS, st.integers(1, 3), SMALL, st.none() | st.just("c")),
    st.builds(ev.PhaseChanged, WORKERS, SMALL, st.sampled_from(["checkpoint", "evaluation"]), st.booleans()),
    st.builds(ev.Paused, WORKERS, SMALL, st.booleans()),
    st.builds(ev.Spawned, WORKERS, st.integers(1, 3)),
    st.builds(ev.Exited, WORKERS, st.integers(1, 3), st.builds(Exit, code=st.sampled_from([0, 1]))),
    st.builds(ev.RestartPlanned, st.just((task("worker:0"), task("worker:1"))), st.none(), st.just(()),
              st.just(1.0), st.just(1), st.just(3)),
    st.builds(ev.Reached, WORKERS, SMALL, st.sampled_from(Stage)),
    st.builds(ev.Continued, SMALL),
    st.builds(ev.Stalled, st.just("x"), st.none() | WORKERS, st.just(60.0), st.just({})),
    st.builds(ev.Stopping, st.just("why")),
    st.builds(ev.Succeeded, WORKERS),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@seed(15)
@given(events=st.lists(st.tuples(st.floats(-1, 100), ANY_EVENT), max_size=60))
def test_whatever_a_journal_holds(events: list[tuple[float, ev.Event]]) -> None:
    """In any order, with a clock that goes back at times: the parts are never negative and sum to the duration."""
    fold, asked = Ledger(job(workers=2)), Ledger(job(workers=2))
    at = newest = 0.0
    fold.add(at, ev.Began())
    asked.add(at, ev.Began())
    for seconds, event in events:
        at += seconds
        newest = max(at, newest)
        fold.add(at, event)
        asked.add(at, event)
        check_sums(split(asked, newest), newest)
    assert fold.account() == asked.account()
