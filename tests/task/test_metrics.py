"""Metrics of programs that report none: what is a number, what is reported and when."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.backends.local.reports import parse_report
from clusterkit.task.patches import metrics as patch
from clusterkit.task.patches import steps as counting
from clusterkit.task.patches.metrics import Metrics
from clusterkit.task.patches.steps import Steps
from clusterkit.words.events import Progressed
from tests.histories import task
from tests.support import load
from tests.task.counted import Reports, callbacks

HOSTILE = st.dictionaries(
    st.text(max_size=200) | st.integers() | st.sampled_from(["x" * 5000, '"', "\\", "\ud800", "\0", "ä" * 100]),
    st.floats() | st.integers() | st.text(max_size=5) | st.none() | st.lists(st.integers(), max_size=2),
    max_size=100,
)


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reports]:
    """A pipe to a supervisor, and a new count without its thread."""
    made = Reports(tmp_path / "progress")
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setattr(Steps, "start_thread", lambda self: setattr(self, "has_thread", True))
    monkeypatch.setattr(counting, "steps", Steps())
    for name in ("clusterkit.training", "clusterkit.training.progress"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield made
    os.close(made.fd)


def told(reports: Reports) -> list[tuple[int, dict[str, Any]]]:
    """The metrics that were reported, by step."""
    return [(one["step"], one["metrics"]) for one in reports.read() if one["kind"] == "metrics"]


class Tensor:
    """A scalar on a device, or with a shape or a graph something else."""

    def __init__(self, value: float, **fields: object) -> None:
        self.value = value
        self.__dict__.update(fields)

    def __float__(self) -> float:
        return self.value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "1.0"),
        (0.25, "0.25"),
        (math.nan, "null"),
        (-math.inf, "null"),
        (Tensor(0.5, shape=()), "0.5"),
        (Tensor(0.5, shape=(1,)), None),
        (Tensor(0.5, graph="that is being traced"), None),
        ("3", None),
        (b"3", None),
        (None, None),
        ([1.0], None),
        (10**400, None),
    ],
)
def test_what_is_a_number(value: object, shown: str | None) -> None:
    """Scalars only; texts, tensors with dimensions and those of a graph are none."""
    assert patch.as_json(value) == shown


def test_the_logs_of_batches_once_a_second_and_of_epochs_at_their_end(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the step at which they were, and validation once."""
    monkeypatch.setattr(patch, "EPOCHS_AT_ONCE", 1)
    fit = callbacks(SimpleNamespace(optimizer=None))
    fit.on_train_begin()
    fit.on_epoch_begin(0)
    for batch in range(3):
        fit.on_train_batch_end(batch, {"loss": 3.0 - batch, "outputs": Tensor(1.0, shape=(2,))})
    fit.on_epoch_end(0, {"loss": 0.5, "val_loss": math.nan})
    fit.on_epoch_begin(1)
    counting.steps.metrics.sent_at -= patch.EVERY  # type: ignore[union-attr]
    fit.on_train_batch_end(0, {"loss": 0.25})
    fit.on_epoch_end(1, {"loss": 0.125})  # at once after another, so it waits for the end
    assert told(reports) == [(1, {"loss": 3.0}), (3, {"loss": 0.5, "val_loss": None}), (4, {"loss": 0.25})]
    fit.on_train_end()
    assert told(reports) == [(4, {"loss": 0.125})]


def test_short_epochs_are_all_reported_until_they_are_too_many(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty may follow at once; from then on one each tenth of a second, and the last one at the end."""
    clock = [100.0]
    monkeypatch.setattr(patch, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    fit = callbacks(SimpleNamespace(optimizer=None))
    fit.on_train_begin()
    for epoch in range(120):
        fit.on_epoch_begin(epoch)
        fit.on_train_batch_end(0, {"loss": -1.0})
        fit.on_epoch_end(epoch, {"loss": float(epoch)})
        clock[0] += 0.01
    fit.on_train_end()
    epochs = [int(metrics["loss"]) for _, metrics in told(reports) if metrics["loss"] >= 0]
    assert epochs == [*range(55), *range(60, 120, 10), 119]


def test_a_program_that_reports_by_itself_is_left_alone(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with steps."""
    monkeypatch.setitem(sys.modules, "clusterkit.training.progress", SimpleNamespace(reported=True))
    fit = callbacks(SimpleNamespace(optimizer=None))
    fit.on_train_begin()
    fit.on_train_batch_end(0, {"loss": 1.0})
    assert told(reports) == []


def test_what_is_written_for_tensorboard(reports: Reports) -> None:
    """The newest of each name, with the newest step; not what Keras's own callback writes."""
    module = SimpleNamespace(scalar=lambda name, data, step=None: True)
    patch.watch_summaries(module, load)
    counting.steps.step = 7
    assert module.scalar("loss", 2.0, step=1)
    assert module.scalar("loss", data=1.0, step=2)
    module.scalar(name="accuracy", data=Tensor(0.5, graph="traced"), step=2)
    exec("scalar('epoch_loss', 3.0)", {"__name__": "keras.src.callbacks.tensorboard", "scalar": module.scalar})
    counting.steps.metrics.send()  # type: ignore[union-attr]
    assert told(reports) == [(7, {"loss": 1.0})]


@pytest.mark.parametrize(
    ("result", "metrics"),
    [(0.5, [(3, {"returned": 0.5})]), ({"loss": 0.5, "rows": [1]}, [(3, {"loss": 0.5})]), ("text", []), (None, [])],
)
def test_what_is_fetched_of_closures(reports: Reports, result: object, metrics: list[Any]) -> None:
    """A number, or those of a dictionary."""

    class RemoteValueImpl:
        def fetch(self) -> object:
            return result

    patch.watch_fetches(SimpleNamespace(RemoteValueImpl=RemoteValueImpl), load)
    counting.steps.step = 3
    assert RemoteValueImpl().fetch() is result
    counting.steps.metrics.send()  # type: ignore[union-attr]
    assert told(reports) == metrics


@given(HOSTILE, HOSTILE)
def test_whatever_a_program_has_becomes_one_atomic_line(first: dict[Any, Any], second: dict[Any, Any]) -> None:
    """That the supervisor accepts, with bounded names; hypothesis prints the example that fails."""
    steps, lines = Steps(), list[str]()
    steps.step, steps.total = (1 << 63) - 1, (1 << 63) - 1
    steps.send = lambda kind, fields: lines.append(f'{{"kind":"{kind}","attempt":999,{fields}}}\n')  # type: ignore[method-assign]
    metrics = Metrics(steps)
    metrics.keep(first)
    metrics.keep(second)
    metrics.send()
    for line in lines:
        assert len(line.encode()) <= 4096
        parsed = parse_report(task("worker:0"), line.encode())
        assert isinstance(parsed, Progressed)
        assert dict(parsed.metrics) == json.loads(line)["metrics"]
