"""Steps of programs that report none, with stand-ins for Keras's callbacks, optimizers and a coordinator."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import closures
from clusterkit.task.patches import steps as patch
from clusterkit.task.patches.steps import Steps
from tests.task.counted import Optimizer, Reports, callbacks, coordinator


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reports]:
    """A pipe to a supervisor, and a new count; without the thread, for which the tests read the optimizers."""
    made = Reports(tmp_path / "progress")
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setenv("CLUSTERKIT_ATTEMPT", "3")
    monkeypatch.setattr(Steps, "start_thread", lambda self: setattr(self, "has_thread", True))
    monkeypatch.setattr(patch, "steps", Steps())
    monkeypatch.setattr(patch, "REPORT_EVERY", 0.0)
    monkeypatch.setattr(closures, "READ_EVERY", 0.0)
    for name in ("clusterkit.training", "clusterkit.training.progress"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield made
    os.close(made.fd)


def test_fit_is_counted_from_the_optimizers_step_on(reports: Reports) -> None:
    """A restored model has steps already; counted over all epochs, with the attempt's number."""
    fit = callbacks(SimpleNamespace(optimizer=Optimizer(40)))
    assert fit.on_train_begin() == "result"
    for epoch in range(2):
        fit.on_epoch_begin(epoch)
        for batch in range(3):
            assert fit.on_train_batch_end(batch, {"loss": 1.0}) == "result"
    fit.on_train_end()
    told = [report for report in reports.read() if report["kind"] == "progress"]
    assert [report["step"] for report in told] == [41, 42, 43, 44, 45, 46]
    assert {report["attempt"] for report in told} == {3}


def test_several_fits_are_counted_together(reports: Reports) -> None:
    """Of several models, of one model twice, and of one that was compiled again."""
    first, second = Optimizer(0), Optimizer(0)
    for optimizer in (first, second, second, Optimizer(5)):
        fit = callbacks(SimpleNamespace(optimizer=optimizer))
        fit.on_train_begin()
        fit.on_epoch_begin(0)
        fit.on_train_batch_end(0)
        fit.on_train_end()
    assert [report["step"] for report in reports.read()] == [1, 2, 3, 9]


def test_several_steps_in_one_call(reports: Reports) -> None:
    """`steps_per_execution`: the callback is called once for all of them."""
    fit = callbacks(SimpleNamespace(optimizer=None))
    fit.on_train_begin()
    for epoch in range(2):
        fit.on_epoch_begin(epoch)
        fit.on_train_batch_end(9)
        fit.on_train_batch_end(15)
    assert reports.steps() == [10, 16, 26, 32]


@pytest.mark.parametrize(
    ("params", "initial_epoch", "made", "totals"),
    [
        ({"epochs": 3, "steps": 2}, 0, 0, [6, 6, 6]),
        ({"epochs": 3, "steps": 2}, 0, 40, [46, 46, 46]),  # a model that was trained before
        ({"epochs": 3, "steps": 2}, 2, 4, [6]),  # restored after two epochs
        ({"epochs": 3, "steps": None}, 0, 0, [None, 6, 6]),  # a generator: known once an epoch is over
        ({"epochs": 3, "steps": 5}, 0, 0, [15, 12, 9]),  # it had less than it said
        ({"epochs": 3}, 0, 0, [None] * 3),
        ({"epochs": None, "steps": "many"}, 0, 0, [None] * 3),
        (None, 0, 0, [None] * 3),
    ],
)
def test_the_total_is_known_where_keras_knows_it(
    reports: Reports, params: Any, initial_epoch: int, made: int, totals: list[int | None]
) -> None:
    """From the remaining epochs and the steps of each, at the beginning of every epoch."""
    fit = callbacks(SimpleNamespace(optimizer=Optimizer(made)), params)
    fit.on_train_begin()
    for epoch in range(initial_epoch, 3):
        fit.on_epoch_begin(epoch)
        for batch in range(2):
            fit.on_train_batch_end(batch)
    told = [report.get("total") for report in reports.read()]
    assert told == [total for total in totals for _ in range(2)]


def test_the_total_of_a_fit_on_parameter_servers(reports: Reports) -> None:
    """Its steps are the closures, counted from the step at which the coordinator began."""
    made = coordinator()
    optimizer = Optimizer(100)  # a program keeps its own, too
    patch.register(optimizer)
    patch.steps.coordinates = True
    fit = callbacks(None, {"epochs": 2, "steps": 3})
    fit.on_train_begin()
    for epoch in range(2):
        fit.on_epoch_begin(epoch)
        for _ in range(3):
            made.schedule("step")
            made.finish()
    assert [(report["step"], report["total"]) for report in reports.read()] == [(100 + n, 106) for n in range(1, 7)]


def test_evaluations_and_predictions_are_phases(reports: Reports) -> None:
    """So that they do not count as a stall."""
    fit = callbacks()
    fit.on_test_begin()
    fit.on_test_end()
    fit.on_predict_begin()
    fit.on_predict_end()
    told = [(report["phase"], report["begun"]) for report in reports.read()]
    assert told == [("evaluation", True), ("evaluation", False), ("prediction", True), ("prediction", False)]


def test_an_evaluator_has_the_step_that_it_evaluated(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the evaluation; nothing without an optimizer's count, or if the program reports by itself."""

    evaluation = callbacks(SimpleNamespace(optimizer=Optimizer(0)), watch=patch.watch_evaluations)
    assert evaluation.on_test_end() == "result"
    assert reports.steps() == []
    for made in (20, 20, 60, 40):
        evaluation.model.optimizer.made = made
        evaluation.on_test_end({"loss": 1.0})
    assert reports.steps() == [20, 60, 40]
    assert not patch.steps.has_thread
    evaluation.model = SimpleNamespace()
    evaluation.on_test_end()
    monkeypatch.setitem(sys.modules, "clusterkit.training", SimpleNamespace())
    evaluation.model = SimpleNamespace(optimizer=Optimizer(80))
    evaluation.on_test_end()
    assert reports.steps() == []


def test_a_coordinators_finished_closures_are_its_steps(reports: Reports) -> None:
    """From the optimizer's step at the first closure; those of an evaluation do not count; threads finish them."""
    made = coordinator()
    optimizer = Optimizer(100)
    patch.register(optimizer)
    assert made.schedule("a") == "scheduled a"
    optimizer.made = 500  # it is on a parameter server: nothing reads it again
    threads = [threading.Thread(target=made.finish) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    patch.steps.read_optimizers()
    made.schedule("b")
    patch.steps.send_phase("evaluation", True)
    made.finish()
    patch.steps.send_phase("evaluation", False)
    made.finish()
    assert sorted(reports.steps())[-2:] == [105, 106]


def test_fit_under_a_coordinator_counts_what_is_done_and_not_what_is_scheduled(reports: Reports) -> None:
    """With the steps of each closure."""
    made = coordinator()
    fit = callbacks(SimpleNamespace(optimizer=Optimizer()))
    fit.on_train_begin()
    fit.on_epoch_begin(0)
    made.schedule("ten steps")
    fit.on_train_batch_end(9)
    assert reports.steps() == []
    made.finish()
    made.finish()
    assert reports.steps() == [10, 20]


def test_the_optimizer_that_makes_steps_is_followed(reports: Reports) -> None:
    """In the program's own loop, perhaps with several; deleted ones and those without a count are ignored."""
    moving, still, gone = Optimizer(), Optimizer(7), Optimizer(9)
    strange: Any = Optimizer()
    strange._iterations = None
    for optimizer in (moving, still, gone, strange, moving):
        patch.register(optimizer)
    del optimizer, gone
    patch.steps.read_optimizers()
    moving.made = 3
    patch.steps.read_optimizers()
    patch.steps.send_step()
    patch.steps.read_optimizers()
    patch.steps.send_step()
    moving.made, still.made = 140359734636688, -1  # memory that was freed
    patch.steps.read_optimizers()
    patch.steps.send_step()
    assert reports.steps() == [3]


def test_nothing_is_sent_once_the_program_reports_by_itself(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own steps take precedence; a program that only imports the module has not reported yet."""
    own = SimpleNamespace(reported=False)
    monkeypatch.setitem(sys.modules, "clusterkit.training.progress", own)
    patch.steps.count(1)
    own.reported = True
    patch.steps.count(2)
    assert reports.steps() == [1]


def test_a_fork_reports_nothing(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a process of the program, not the task."""
    monkeypatch.setattr(patch.steps, "pid", os.getpid() + 1)
    patch.steps.count(1)
    patch.steps.send_phase("evaluation", True)
    patch.steps.end()
    assert reports.read() == []


def test_reports_have_a_minimum_interval(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """But the last step is always reported."""
    monkeypatch.setattr(patch, "REPORT_EVERY", 3600.0)
    patch.steps.sent_at = time.monotonic()
    for step in range(1, 1000):
        patch.steps.count(step)
    patch.steps.send_step()
    assert reports.steps() == [999]


def test_nobody_waits_for_a_full_pipe_or_a_supervisor_that_is_gone(reports: Reports) -> None:
    """Reports are dropped, and training is not delayed."""
    for step in range(1, 20000):
        patch.steps.count(step)
    os.close(reports.fd)
    patch.steps.count(20000)
    reports.fd = os.open(os.devnull, os.O_RDONLY)


def test_a_program_that_uses_the_library_reports_its_own_loops(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restored optimizer, and closures since a restart, may count differently; `fit` is counted nevertheless."""
    monkeypatch.setitem(sys.modules, "clusterkit.training", SimpleNamespace())
    restored = Optimizer(119)
    fit = callbacks(SimpleNamespace(optimizer=restored))
    fit.on_train_begin()
    fit.on_train_batch_end(0)
    assert reports.steps() == [120]
    patch.register(restored)
    patch.steps.read_optimizers()
    made = coordinator()
    made.schedule("a")
    made.finish()
    patch.steps.send_step()
    assert reports.read() == []


def test_the_thread_is_started_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Several of the coordinator's threads may finish the first closures."""
    os.mkfifo(tmp_path / "progress")
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(tmp_path / "progress"))
    made, threads = Steps(), Path("/proc/self/task")
    before = set(threads.iterdir())
    made.start_thread()
    made.start_thread()
    assert len(set(threads.iterdir()) - before) == 1
    atexit.unregister(made.end)
    made.end()
