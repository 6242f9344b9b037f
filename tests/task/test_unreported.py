"""A program that imports clusterkit.training, trains in its own loop, and reports no step."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from clusterkit.task.patches import steps as patch
from clusterkit.task.patches import unreported
from clusterkit.task.patches.steps import Steps
from tests.task.counted import Optimizer, Reports, coordinator


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that is read, in its only element."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reports]:
    """A pipe to a supervisor, and a new count, of a program that imports clusterkit.training."""
    made = Reports(tmp_path / "progress")
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setattr(Steps, "start_thread", lambda self: setattr(self, "has_thread", True))
    monkeypatch.setattr(patch, "steps", Steps())
    monkeypatch.delitem(sys.modules, "clusterkit.training.progress", raising=False)
    monkeypatch.setitem(sys.modules, "clusterkit.training", ModuleType("clusterkit.training"))
    patch.steps.unreported = unreported.Unreported(patch.steps)
    yield made
    os.close(made.fd)


def train(clock: list[float], step: Callable[[], object], seconds: int) -> None:
    """A step a second, after each of which the thread looks."""
    for _ in range(seconds):
        step()
        clock[0] += 1
        if patch.steps.unreported is not None:
            patch.steps.unreported.update()


def told(reports: Reports) -> list[int]:
    """The seconds of training without a report, as they were reported."""
    return [report["seconds"] for report in reports.read() if report["kind"] == "unreported"]


def test_after_a_minute_of_training_it_is_reported_once(reports: Reports, clock: list[float]) -> None:
    """By the steps of the optimizer, which nothing else counts there."""
    optimizer = Optimizer()
    patch.register(optimizer)
    train(clock, lambda: setattr(optimizer, "made", optimizer.made + 1), 60)
    assert told(reports) == []
    train(clock, lambda: setattr(optimizer, "made", optimizer.made + 1), 90)
    assert told(reports) == [60]


def test_a_restored_optimizer_does_not_train(reports: Reports, clock: list[float]) -> None:
    """It has a step at once, and no other one."""
    optimizer = Optimizer()
    patch.register(optimizer)
    train(clock, lambda: setattr(optimizer, "made", 400), 200)
    assert told(reports) == []


def test_closures_count_for_a_coordinator(reports: Reports, clock: list[float]) -> None:
    """Its optimizers are on parameter servers, and are not read; an evaluation's closures are no steps."""
    made = coordinator()
    patch.steps.coordinates, patch.steps.is_testing = True, True
    train(clock, made.finish, 100)
    assert told(reports) == []
    patch.steps.is_testing = False
    train(clock, made.finish, 100)
    assert told(reports) == [60]


def test_a_program_that_reports_is_left_alone(
    reports: Reports, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, or by the batches of `fit`, which are counted in any case."""
    optimizer = Optimizer()
    patch.register(optimizer)
    patch.steps.sent = 1
    train(clock, lambda: setattr(optimizer, "made", optimizer.made + 1), 100)
    patch.steps.sent = None
    own = ModuleType("clusterkit.training.progress")
    own.reported = True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "clusterkit.training.progress", own)
    train(clock, lambda: setattr(optimizer, "made", optimizer.made + 1), 100)
    assert told(reports) == []


def test_the_thread_looks(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it lives; only in a program that imports clusterkit.training."""
    looked = threading.Event()
    monkeypatch.setattr(unreported.Unreported, "update", lambda self: looked.set())
    monkeypatch.setattr(patch, "POLL_EVERY", 0.001)
    patch.steps.end_requested.acquire()
    patch.steps.thread_lives.acquire()
    thread = threading.Thread(target=patch.steps.watch)
    thread.start()
    assert looked.wait(10)
    patch.steps.end_requested.release()
    thread.join(10)
    assert not thread.is_alive()
