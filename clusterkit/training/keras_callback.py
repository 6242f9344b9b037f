"""A Keras callback that reports progress. It derives from ``tf.keras``, so it follows TF_USE_LEGACY_KERAS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from clusterkit.training import progress, this_task

RESERVED = frozenset({"step", "total"})  # keywords of `report`
EVALUATION = "evaluation"


class ReportProgress(tf.keras.callbacks.Callback):  # type: ignore[misc]  # tensorflow ships no types
    """Reports the step, the loss and the metrics after batches and at the end of each epoch.

        model.fit(dataset, epochs=10, callbacks=[training.ReportProgress()])

    The step is the optimizer's `iterations`, so it continues from a restored checkpoint. Evaluations are reported as
    a phase, so that they do not count as a stall.

    Args:
        every: report each batch whose number is a multiple of this. Each report fetches the logs from the device, so
            use a larger number for very short steps.

    Raises:
        ValueError: `every` is below 1.
    """

    def __init__(self, every: int = 1) -> None:
        super().__init__()
        if every < 1:
            raise ValueError(f"ReportProgress(every={every}) is invalid: every must be at least 1.")
        self._every = every
        self._total: int | None = None  # steps at the end of `fit`
        self._skipped = 0  # batches of the epoch that were trained before a restart

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        steps = self.params.get("steps")  # None: Keras does not know it before the end of the first epoch
        left = None if steps is None else (self.params["epochs"] - epoch) * steps - self._skipped
        self._total = None if left is None else self._steps() + left

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if (batch + 1) % self._every == 0:
            self._report(logs)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._report(logs)

    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        progress.begin_phase(EVALUATION)

    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        progress.end_phase(EVALUATION)

    def _implements_train_batch_hooks(self) -> bool:
        # Under ParameterServerStrategy, tf_keras rejects a callback for which this is True.
        return not this_task.has_ps()

    def _report(self, logs: Mapping[str, Any] | None) -> None:
        metrics = {name: value for name, value in (logs or {}).items() if name not in RESERVED}
        progress.report(self._steps(), total=self._total, **metrics)

    def _steps(self) -> int:
        """Return the optimizer's step count, which includes the steps before a restart."""
        return int(self.model.optimizer.iterations.numpy())
