"""The times that a coordinator's workers take for their steps, with a stand-in for the coordinator."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.backends.local.reports import parse_report
from clusterkit.task.patches import closures as patch
from clusterkit.words.reports import StepsTimed, StepTimes
from tests.histories import task
from tests.support import load

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

    monkeypatch.setattr(load("task/patches/steps").steps, "write", write)
    return found


def coordinator() -> tuple[type, Any]:
    """The patched part of TensorFlow's `Worker`, and the queue that its threads share."""

    class Queue:
        def mark_finished(self) -> None:
            return

    class Worker:
        def __init__(self, index: int) -> None:
            self.worker_index = index

        def _process_closure(self, closure: Callable[[], None]) -> None:
            try:
                closure()
                queue.mark_finished()
            except ConnectionError:  # the worker is lost: TensorFlow gives the closure back
                time.sleep(0)

    module = SimpleNamespace(Worker=Worker, _CoordinatedClosureQueue=Queue)
    patch.watch(module, load)
    queue = Queue()
    return Worker, queue


def test_the_steps_of_each_worker_are_counted_and_timed(clock: Callable[[float], None], sent: list[StepsTimed]) -> None:
    """A report is sent with the first step that ends two seconds after the last report, with the new counts."""
    kind, _ = coordinator()
    fast, slow = kind(0), kind(1)
    for _ in range(3):
        fast._process_closure(lambda: clock(0.25))
    assert sent == []
    slow._process_closure(lambda: clock(1.5))
    assert sent == [StepsTimed(CHIEF, 1, {task("worker:0"): StepTimes(3, 0.75), task("worker:1"): StepTimes(1, 1.5)})]
    slow._process_closure(lambda: clock(1.5))
    fast._process_closure(lambda: clock(0.5))
    assert sent[1].workers == {task("worker:0"): StepTimes(1, 0.5), task("worker:1"): StepTimes(1, 1.5)}


def test_a_step_that_a_lost_worker_gives_back_does_not_count(
    clock: Callable[[float], None], sent: list[StepsTimed]
) -> None:
    """Nor does the time that passed."""
    kind, _ = coordinator()

    def is_lost() -> None:
        clock(60)
        raise ConnectionError

    kind(0)._process_closure(is_lost)
    kind(0)._process_closure(lambda: clock(2.5))
    assert [report.workers for report in sent] == [{task("worker:0"): StepTimes(1, 2.5)}]


def test_a_closure_that_no_worker_took_does_not_count(clock: Callable[[float], None], sent: list[StepsTimed]) -> None:
    """Another thread, such as a test's, marks it as finished."""
    kind, queue = coordinator()
    clock(10)
    queue.mark_finished()
    assert sent == []
    kind(3)._process_closure(lambda: None)
    assert [report.workers.keys() for report in sent] == [{task("worker:3")}]


def test_each_thread_has_its_own_step(sent: list[StepsTimed], monkeypatch: pytest.MonkeyPatch) -> None:
    """Overlapping steps of two workers are not confused."""
    monkeypatch.setattr(patch, "EVERY", 0.0)
    kind, _ = coordinator()
    both_run = threading.Barrier(2, timeout=10)
    threads = [
        threading.Thread(target=kind(index)._process_closure, args=(lambda: both_run.wait() and None,))
        for index in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(str(one) for report in sent for one in report.workers) == ["worker:0", "worker:1"]
    assert all(times.count == 1 for report in sent for times in report.workers.values())


def test_a_step_that_ends_while_another_thread_reports_is_in_the_next_report(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time for which its thread waits for the other one does not count."""
    told: list[str] = []
    times: Any = patch.ClosureTimes(lambda _, fields: told.append(fields))

    @contextmanager
    def taken() -> Iterator[None]:
        clock(5)
        times.sent_at += 5  # the other one's report
        yield

    times.lock = taken()
    monkeypatch.setattr(patch, "EVERY", 0.0)
    times.begin(SimpleNamespace(worker_index=0))
    times.end()
    assert told == ['"workers":{"0":[1,0.000000]}']


def test_many_workers_take_several_reports() -> None:
    """Each is small enough for one write."""
    reports = patch.reports_of(dict.fromkeys(range(250), (10**6, 1e6)))
    assert [len(json.loads(f"{{{report}}}")["workers"]) for report in reports] == [100, 100, 50]
    assert max(map(len, reports)) < 4000
