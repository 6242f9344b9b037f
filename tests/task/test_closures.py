"""The closures that a coordinator's workers finish, counted and timed, with a stand-in for the coordinator."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.backends.local.reports import parse_report
from clusterkit.task.patches import closures as patch
from clusterkit.task.patches import steps
from clusterkit.words.reports import StepsTimed, StepTimes
from tests.histories import task
from tests.task.counted import coordinator

CHIEF = task("chief:0")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets time pass for the patch."""
    now = [100.0]
    monkeypatch.setattr(patch, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def passes(seconds: float) -> None:
        now[0] += seconds

    return passes


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[StepsTimed]:
    """The reports, as the supervisor understands them."""
    found: list[StepsTimed] = []

    def write(kind: str, fields: str) -> None:
        line = f'{{"kind":"{kind}","attempt":1,{fields}}}'.encode()
        assert len(line) < 4096, "the pipe does not take it in one piece"
        report = parse_report(CHIEF, line)
        assert isinstance(report, StepsTimed)
        found.append(report)

    monkeypatch.setattr(steps, "steps", steps.Steps())
    monkeypatch.setattr(steps.steps, "write", write)
    return found


def timed() -> Any:
    """A coordinator whose workers' times are reported."""
    return coordinator(patch.watch_times)


def test_the_steps_of_each_worker_are_counted_and_timed(clock: Callable[[float], None], sent: list[StepsTimed]) -> None:
    """A report is sent with the first step that ends two seconds after the last report, with the new counts."""
    made = timed()
    for _ in range(3):
        made.finish(0, lambda: clock(0.25))
    assert sent == []
    made.finish(1, lambda: clock(1.5))
    assert sent == [StepsTimed(CHIEF, 1, {task("worker:0"): StepTimes(3, 0.75), task("worker:1"): StepTimes(1, 1.5)})]
    made.finish(1, lambda: clock(1.5))
    made.finish(0, lambda: clock(0.5))
    assert sent[1].workers == {task("worker:0"): StepTimes(1, 0.5), task("worker:1"): StepTimes(1, 1.5)}


@pytest.mark.parametrize("error", [ConnectionError, ValueError])
def test_a_closure_that_fails_or_is_given_back_does_not_count(
    clock: Callable[[float], None], sent: list[StepsTimed], error: type[Exception]
) -> None:
    """Nor does the time that passed."""
    made = timed()

    def fails() -> None:
        clock(60)
        raise error

    made.finish(0, fails)
    made.finish(0, lambda: clock(2.5))
    assert [report.workers for report in sent] == [{task("worker:0"): StepTimes(1, 2.5)}]


def test_a_closure_that_another_thread_gives_back_changes_no_other_one(
    clock: Callable[[float], None], sent: list[StepsTimed]
) -> None:
    """Two workers run closures at the same time, and the first of them is lost."""
    made, is_lost, is_over = timed(), threading.Event(), threading.Event()

    def fails() -> None:
        is_lost.set()
        assert is_over.wait(10)
        raise ConnectionError

    thread = threading.Thread(target=made.finish, args=(0, fails))
    thread.start()
    assert is_lost.wait(10)
    made.finish(1, lambda: clock(3))
    is_over.set()
    thread.join(10)
    made.finish(1, lambda: clock(3))
    assert [report.workers for report in sent] == [{task("worker:1"): StepTimes(1, 3.0)}] * 2


def test_each_thread_has_its_own_step(sent: list[StepsTimed], monkeypatch: pytest.MonkeyPatch) -> None:
    """Overlapping steps of two workers are not confused."""
    monkeypatch.setattr(patch, "TIMES_EVERY", 0.0)
    monkeypatch.setattr(patch, "READ_EVERY", 0.0)
    made = timed()
    both_run = threading.Barrier(2, timeout=10)
    threads = [threading.Thread(target=made.finish, args=(index, both_run.wait)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(str(one) for report in sent for one in report.workers) == ["worker:0", "worker:1"]
    assert all(times.count == 1 for report in sent for times in report.workers.values())


@pytest.mark.parametrize("seed", range(5))
def test_no_closure_of_several_threads_is_lost(
    sent: list[StepsTimed], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """They finish, fail and are read at random times."""
    monkeypatch.setattr(patch, "TIMES_EVERY", 0.0)
    monkeypatch.setattr(patch, "READ_EVERY", 0.0)
    made, chances = timed(), random.Random(seed)
    failing = [[chances.random() < 0.3 for _ in range(200)] for _ in range(4)]

    def run(index: int) -> None:
        for fails in failing[index]:
            made.finish(index, lambda fails=fails: int("no number" if fails else "1"))
            if fails:
                steps.steps.read_closures()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    steps.steps.read_closures()
    counts = [
        sum(r.workers[task(f"worker:{n}")].count for r in sent if task(f"worker:{n}") in r.workers) for n in range(4)
    ]
    assert counts == [each.count(False) for each in failing], seed


def test_many_workers_take_several_reports() -> None:
    """Each is small enough for one write."""
    reports = patch.reports_of(dict.fromkeys(range(250), (10**6, 1e6)))
    assert [len(json.loads(f"{{{report}}}")["workers"]) for report in reports] == [100, 100, 50]
    assert max(map(len, reports)) < 4000
