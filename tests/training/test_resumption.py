"""Where Keras's fit goes on, with models that have only what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.training import resumption


class Keras3:
    """The attributes of Keras 3's `fit` that resuming uses."""

    _initial_epoch: int | None = None

    def __init__(self, at_once: int = 1) -> None:
        self.steps_per_execution = at_once
        self.trained: list[int] = []
        self.train_function: Any = self.train

    def train(self, batches: Iterator[int]) -> dict[str, float]:
        self.trained += [next(batches) for _ in range(self.steps_per_execution)]
        return {"loss": 1.0}


class Keras2(Keras3):
    """The attributes of Keras 2's `fit` that resuming uses."""

    _training_state: Any = None
    train_tf_function: Any = None

    def __init__(self, at_once: int = 1) -> None:
        super().__init__()
        self._steps_per_execution = SimpleNamespace(numpy=lambda: at_once)
        self.steps_per_execution = at_once

    def _maybe_load_initial_counters_from_ckpt(self, steps: int, epoch: int) -> tuple[int, int]:
        if self._training_state is None:
            return epoch, 0
        counters: tuple[int, int] = self._training_state.maybe_load_initial_counters_from_ckpt(steps, epoch, mode="")
        return counters


def test_keras_3_begins_where_its_own_callback_says() -> None:
    """The epoch is set and reset."""
    model = Keras3()
    resumption.start_at(model, 4)
    assert model._initial_epoch == 4
    resumption.start_at(model, None)
    assert model._initial_epoch is None


def test_keras_2_asks_for_its_counters() -> None:
    """It gets the epoch, and starts it at the first batch."""
    model = Keras2()
    resumption.start_at(model, 4)
    assert model._maybe_load_initial_counters_from_ckpt(10, 0) == (4, 0)
    resumption.start_at(model, None)
    assert model._maybe_load_initial_counters_from_ckpt(10, 0) == (0, 0)


@pytest.mark.parametrize("kind", [Keras3, Keras2])
@pytest.mark.parametrize(("at_once", "trained"), [(1, [3, 4, 5, 6]), (2, [3, 4, 5, 6]), (5, [3, 4, 5, 6, 7])])
def test_batches_are_left_out(kind: type[Keras3], at_once: int, trained: list[int]) -> None:
    """Each call reads as many batches as usual without training; afterwards training continues as before."""
    model, batches = kind(at_once), iter(range(100))
    resumption.skip_batches(model, 3, lambda: {"loss": 2.0})
    given = []
    while model.train_function != model.train:
        given.append(model.train_function(batches))
    assert given == [{}] * (len(given) - 1) + [{"loss": 2.0}], "the last one's logs are those that were saved"
    while len(model.trained) < 4:
        assert model.train_function(batches) == {"loss": 1.0}
    assert model.trained == trained


def test_keras_2_shows_no_graph_of_a_function_that_was_not_called() -> None:
    """Its TensorBoard writes the graph after the first batch, and would fail."""
    model, batches = Keras2(), iter(range(100))
    graph = model.train_tf_function = object()
    resumption.skip_batches(model, 2, lambda: {"loss": 2.0})
    model.train_function(batches)
    assert model.train_tf_function is None
    model.train_function(batches)
    assert model.train_tf_function is graph
