"""Patches metric functions of Keras 3 on several workers: one number of a batch is computed from all of its rows.

Loaded by path: standard library only. A metric function returns a number for each row. One that returns a number for
the whole batch (a mean over tokens, say) has another value for each worker's rows, of which no mean is the batch's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

Replace = Callable[[Any, str, Callable[..., Any]], None]


def fixes(trainer: Any, load: Callable[[str], ModuleType]) -> list[Callable[[Any], None]]:
    """Return the patches. Raises AttributeError or KeyError for a Keras with other internals."""
    metrics = sys.modules["keras.src.metrics.reduction_metrics"]
    assert callable(metrics.MeanMetricWrapper.update_state)
    steps, replace = load("task/patches/keras_step"), load("task/patches/hook").replace
    return [partial(compute_from_all_rows, wrapper=metrics.MeanMetricWrapper, steps=steps, replace=replace)]


def compute_from_all_rows(trainer: Any, wrapper: Any, steps: Any, replace: Replace) -> None:
    """Patch the metrics that are made of a function: if it returns one number, it is called with all rows."""
    tf, update = trainer.tf, wrapper.update_state

    def update_state(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        step, function = steps.current(tf), self._fn
        if step is None:
            return update(self, y_true, y_pred, sample_weight)

        def of_all_rows(y_true: Any, y_pred: Any, **options: Any) -> Any:
            values = function(y_true, y_pred, **options)
            if not tf.is_tensor(values) or values.shape.rank != 0:
                return values
            each = [step.gathered(tf.convert_to_tensor(value)) for value in (y_true, y_pred)]
            return function(*each, **options)  # which `Mean` weighs by rows, see keras_logs.py

        self._fn = of_all_rows
        try:
            return update(self, y_true, y_pred, sample_weight)
        finally:
            self._fn = function

    replace(wrapper, "update_state", update_state)
