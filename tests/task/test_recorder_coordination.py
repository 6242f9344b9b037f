"""The functions that a coordinator schedules, held back until the program waits for them, and what it saves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from clusterkit.task.patches.recorder import coordination as patch
from clusterkit.task.patches.recorder.coordination import Coordination, HeldFunctions
from clusterkit.task.patches.recorder.output import RecordOutput


class ClosureQueue:
    """Stands for TensorFlow's queue; `run` is what a worker does."""

    def __init__(self) -> None:
        self._queue: Queue[Any] = Queue()
        self.inflight_closure_count = 0
        self._error: Exception | None = None
        self.resources: list[Any] = []

    def put(self, closure: Any, tag: Any = None) -> None:
        """As TensorFlow does, raise the error of an earlier function."""
        if tag is not None:
            self.resources.append(closure)
            return
        self._queue.put(closure)
        if self._error:
            raise self._error

    def run(self) -> list[str]:
        """Run what is in the queue, and return the names."""
        done = []
        while not self._queue.empty():
            closure = self._queue.get()
            closure.run()
            done.append(closure.name)
        return done


def closure(name: str, run: Callable[[], None] = lambda: None) -> Any:
    """A scheduled function."""
    made = SimpleNamespace(name=name, run=run, cancelled=False)
    made.mark_cancelled = lambda: setattr(made, "cancelled", True)
    return made


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldFunctions:
    """Functions that are held back, without the thread that looks after them."""
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)
    return HeldFunctions(ClosureQueue.put, is_deferred=True)


def test_functions_are_held_back_until_the_program_waits(held: HeldFunctions) -> None:
    """In their order. Functions that make a worker's resources are not."""
    queue = ClosureQueue()
    held.put(queue, closure("dataset"), 0)
    for name in "abc":
        held.put(queue, closure(name))
    assert len(queue.resources) == 1
    assert (queue.run(), held.scheduled, held.pending()) == ([], 3, 3)
    held.release()
    assert held.pending() == 3, "they wait for a worker"
    assert queue.run() == ["a", "b", "c"]
    assert held.pending() == 0


def test_nothing_is_held_back_unasked() -> None:
    """But counted."""
    queue, held = ClosureQueue(), HeldFunctions(ClosureQueue.put, is_deferred=False)
    held.put(queue, closure("a"))
    assert (queue.run(), held.scheduled) == (["a"], 1)


def test_a_long_queue_is_passed_on(held: HeldFunctions, monkeypatch: pytest.MonkeyPatch) -> None:
    """`schedule` would block otherwise."""
    monkeypatch.setattr(patch, "MOST_HELD", 3)
    queue = ClosureQueue()
    for name in "abcd":
        held.put(queue, closure(name))
    assert queue.run() == ["a", "b", "c"]
    assert held.pending() == 1


def test_an_idle_program_gets_its_functions_run(held: HeldFunctions) -> None:
    """It may wait for what they change. While it saves, they stay where they are, but not forever."""
    queue = ClosureQueue()
    held.put(queue, closure("a"))
    began = held.touched
    assert not held.is_overdue(began + patch.IDLE / 2)
    assert held.is_overdue(began + patch.IDLE * 2)
    held.begin_save()
    assert held.saving_since is not None
    assert not held.is_overdue(held.saving_since + patch.LONGEST_SAVE / 2)
    assert held.is_overdue(held.saving_since + patch.LONGEST_SAVE * 2)
    held.end_save()
    assert not held.is_overdue(held.touched + patch.IDLE / 2)
    queue._error = ValueError("failed")
    assert not held.is_overdue(held.touched + patch.IDLE * 2), "the program's own thread raises it"


def test_an_error_reaches_the_program(held: HeldFunctions) -> None:
    """What is still held back is cancelled, as TensorFlow cancels its queue."""
    queue = ClosureQueue()
    closures = [closure(name) for name in "abc"]
    for each in closures:
        held.put(queue, each)
    queue._error = ValueError("failed")
    with pytest.raises(ValueError, match="failed"):
        held.release()
    assert [each.cancelled for each in closures] == [False, True, True]
    assert not held.held


def test_a_worker_that_reads_its_result_releases_nothing(held: HeldFunctions) -> None:
    """TensorFlow's threads copy what a function has returned."""
    queue = ClosureQueue()
    held.put(queue, closure("a"))
    before = threading.current_thread().name
    threading.current_thread().name = f"{patch.WORKER_THREADS}-0"
    try:
        held.release()
    finally:
        threading.current_thread().name = before
    assert held.pending() == 1
    assert queue.run() == []


class Program:
    """A program with one weight, whose record is in a directory."""

    def __init__(self, held: HeldFunctions, directory: Path) -> None:
        self.weight = np.zeros(2)
        self.directory = directory
        self.queue = ClosureQueue()
        env = {"CLUSTERKIT_RECORD": str(directory), "CLUSTERKIT_TASK": "chief:0", "CLUSTERKIT_ATTEMPT": "1"}
        registry = SimpleNamespace(snapshot=lambda note: [({"name": "w", "kind": "weight"}, self.weight.copy())])
        recorder = SimpleNamespace(output=RecordOutput(env), registry=registry)
        self.coordination = Coordination(held, recorder)

    def schedule(self, count: int, change: float = 1.0) -> None:
        """Schedule functions that add a number to the weight."""

        def run() -> None:
            self.weight += change

        for _ in range(count):
            self.coordination.put(self.queue, closure("step", run))

    def join(self) -> None:
        """As the patched coordinator does."""
        self.coordination.held.release()
        self.queue.run()
        self.coordination.settle()

    def save(self) -> None:
        """As a function does that calls another one that saves."""
        for call in (self.coordination.begin_save,) * 2 + (self.coordination.end_save,) * 2:
            call()

    def record(self) -> list[dict[str, Any]]:
        """The lines of the record, without the descriptions of variables."""
        lines = (self.directory / "chief-0.1.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in ("file", "variables")} for line in lines]


def test_saves_are_recorded(held: HeldFunctions, tmp_path: Path) -> None:
    """With what was missing, and whether that mattered. What is saved before the first step is not recorded."""
    program = Program(held, tmp_path)
    program.save()
    program.schedule(4)
    program.join()
    program.save()
    program.schedule(3)
    program.save()
    program.join()
    program.schedule(2, change=0.0)
    program.save()
    program.join()
    program.coordination.end()
    assert program.record() == [
        {"kind": "first"},
        {"kind": "save", "scheduled": 4, "pending": 0},
        {"kind": "save", "scheduled": 7, "pending": 3},
        {"kind": "changed-after-save", "scheduled": 7, "name": "w"},
        {"kind": "save", "scheduled": 9, "pending": 2},
        {"kind": "scheduled", "number": 9},
    ]
    values = [float(np.load(tmp_path / f"chief-0.1.{place}.npz")["0"][0]) for place in ("first", "save-1", "save-2")]
    assert values == [0.0, 4.0, 4.0]


def test_the_last_saves_are_kept(held: HeldFunctions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long training would fill the disk."""
    monkeypatch.setattr(patch, "MOST_SAVES", 2)
    program = Program(held, tmp_path)
    program.schedule(1)
    program.join()
    for _ in range(4):
        program.save()
    assert sorted(path.name for path in tmp_path.glob("*save*.npz")) == [
        "chief-0.1.save-3.npz", "chief-0.1.save-4.npz",
    ]  # fmt: skip
