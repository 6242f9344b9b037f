"""What a thread that reads optimizers and reports steps can do in the midst of a `fit`: histories without threads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterkit.task.patches import steps as patch
from clusterkit.task.patches.metrics import Metrics
from clusterkit.task.patches.steps import Steps
from tests.task.counted import Optimizer, Reports, callbacks

RESTORED = (0, 7, 40)  # the steps that each optimizer has at first
# When the thread reads in a fit: before it, in the midst of it from before it on, while an optimizer is ahead of the
# callbacks, and after it.
MOMENTS = ("before", "across", "ahead", "after")
FITS = st.tuples(st.sampled_from(range(len(RESTORED))), st.integers(1, 3), st.sets(st.sampled_from(MOMENTS)))


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reports]:
    """A pipe to a supervisor; every step is reported at once, and no thread is started."""
    made = Reports(tmp_path / "progress")
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setattr(Steps, "start_thread", lambda self: setattr(self, "has_thread", True))
    monkeypatch.setattr(patch, "REPORT_EVERY", 0.0)
    for name in ("clusterkit.training", "clusterkit.training.progress"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield made
    os.close(made.fd)


class Slow(Optimizer):
    """An optimizer whose read takes so long that other things happen meanwhile. It makes no steps."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None
        self._iterations = SimpleNamespace(numpy=self.numpy)

    def numpy(self) -> int:
        """Have the other things happen once."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return 0


def fitted(optimizer: Optimizer, batches: int, moments: set[str]) -> None:
    """A `fit`; the thread reads at these moments."""
    read = patch.steps.read_optimizers
    fit = callbacks(SimpleNamespace(optimizer=optimizer), {"epochs": 1, "steps": batches})
    if "before" in moments:
        read()
    fit.on_train_begin()
    fit.on_epoch_begin(0)
    for batch in range(batches):
        optimizer.made += 1
        if "ahead" in moments:
            read()
        fit.on_train_batch_end(batch, {"loss": 1.0})
    fit.on_epoch_end(0, {"loss": 0.5})
    fit.on_train_end()
    if "after" in moments:
        read()
        patch.steps.send_step()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FITS, min_size=1, max_size=5), st.booleans())
def test_batches_are_counted_once_whenever_the_thread_reads(
    reports: Reports, fits: list[tuple[int, int, set[str]]], all_at_first: bool
) -> None:
    """Those of every fit, after the steps that its optimizer was restored to; metrics have no step of their own."""
    patch.steps = Steps()
    optimizers, slow = [Optimizer(made) for made in RESTORED], Slow()
    patch.register(slow)
    for optimizer in optimizers if all_at_first else ():
        patch.register(optimizer)
    last = {index: number for number, (index, _, _) in enumerate(fits)}
    fits = [*fits, *((index, 1, set()) for index in range(len(RESTORED)) if index not in last)]
    expected, seen = 0, set[int]()
    for index, batches, moments in fits:
        patch.register(optimizers[index])
        expected += batches + (0 if index in seen else RESTORED[index])
        seen.add(index)
        if "across" in moments:
            slow.meanwhile = lambda i=index, n=batches, m=moments: fitted(optimizers[i], n, m)
            patch.steps.read_optimizers()
            if slow.meanwhile is None:
                continue
        fitted(optimizers[index], batches, moments)
    patch.steps.read_optimizers()
    patch.steps.send_step()
    told = reports.read()
    assert patch.steps.step == told[-1]["step"] == expected
    steps = [report["step"] for report in told]
    assert steps == sorted(steps)
    assert [report["step"] for report in told if report["kind"] == "metrics"][-1] <= expected


def test_a_model_that_is_loaded_after_a_fit_makes_no_steps(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its optimizer may be read before it has its steps; those that it makes then are counted."""
    monkeypatch.setattr(patch, "steps", Steps())
    optimizer, loaded = Optimizer(), Optimizer()
    patch.register(optimizer)
    fitted(optimizer, 3, set())
    patch.register(loaded)
    for made, step in ((0, 3), (3, 3), (3, 3), (5, 5), (6, 6)):
        loaded.made = made
        patch.steps.read_optimizers()
        assert patch.steps.step == step


def test_a_report_has_the_step_that_it_is_noted_for(reports: Reports) -> None:
    """A step that is counted while a report is made is not left out, and not told twice."""

    class Counting(Steps):
        @property
        def step(self) -> int:
            """Each look finds another batch counted."""
            self.looks = getattr(self, "looks", 0) + 1
            return self.looks

        @step.setter
        def step(self, value: int | None) -> None:
            return

    steps = Counting()
    steps.metrics = Metrics(steps)
    steps.send_step()
    (report,) = reports.read()
    assert report["step"] == steps.sent
    steps.metrics.keep({"loss": 1.0})
    steps.metrics.send()
    (report,) = reports.read()
    assert (report["kind"], report["step"]) == ("metrics", steps.sent)


def test_no_report_overtakes_another(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread writes a step or metrics, another one cannot begin."""
    steps, free = Steps(), list[bool]()
    monkeypatch.setattr(patch, "steps", steps)

    def write(*_: Any) -> None:
        thread = threading.Thread(target=lambda: free.append(steps.lock.acquire(blocking=False)))
        thread.start()
        thread.join(10)

    steps.write = write  # type: ignore[assignment,method-assign]
    steps.step, steps.metrics = 1, Metrics(steps)
    steps.send_step()
    steps.metrics.send_logs({"loss": 1.0})
    assert free == [False, False]


def test_a_fork_waits_for_no_lock(reports: Reports) -> None:
    """Its copy may be held by a thread that it does not have."""
    steps = Steps()
    steps.step, steps.metrics, steps.pid = 1, Metrics(steps), os.getpid() + 1
    holder = threading.Thread(target=steps.lock.acquire)
    holder.start()
    holder.join(10)
    steps.send_step()
    steps.metrics.send_logs({"loss": 1.0})
    assert reports.read() == []


def test_a_loop_after_a_fit_that_raised_is_followed(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the callbacks of `fit` are gone; also a loop that calls callbacks, but not those of batches."""
    monkeypatch.setattr(patch, "steps", Steps())
    optimizer = Optimizer()
    patch.register(optimizer)
    fit = callbacks(SimpleNamespace(optimizer=optimizer))
    fit.on_train_begin()
    optimizer.made = 1
    fit.on_train_batch_end(0)
    patch.steps.read_optimizers()
    assert patch.steps.step == 1
    del fit
    patch.steps.read_optimizers()
    optimizer.made = 4
    patch.steps.read_optimizers()
    assert patch.steps.step == 4
    callbacks(SimpleNamespace(optimizer=optimizer)).on_train_begin()
    optimizer.made = 6
    patch.steps.read_optimizers()
    assert patch.steps.step == 6
