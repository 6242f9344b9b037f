"""A Keras callback that reports progress; of ``tf.keras``, so it follows TF_USE_LEGACY_KERAS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from clusterkit.training import progress, roles

EVALUATION = "evaluation"


class ReportProgress(tf.keras.callbacks.Callback):  # type: ignore[misc]  # tensorflow ships no types
    """Reports the optimizer's step, the loss and the metrics after batches and at the end of each epoch.

    Evaluations are reported too, so that they do not count as a stall.

    The step is the optimizer's own count, so it goes on where a restored model left off.

    Args:
        every: report each batch whose number is a multiple of this. Every report fetches the logs from the device,
            so for very short steps use more than 1.

    Raises:
        ValueError: `every` is below 1.
    """

    def __init__(self, every: int = 1) -> None:
        super().__init__()
        if every < 1:
            raise ValueError(f"ReportProgress was told to report every {every} batches; it must be at least 1.")
        self._every = every

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
        # tf_keras asks this, and under ParameterServerStrategy refuses a callback that says yes.
        return not roles.has_ps()

    def _report(self, logs: Mapping[str, Any] | None) -> None:
        metrics = {name: value for name, value in (logs or {}).items() if name != "step"}
        progress.report(self._steps(), **metrics)

    def _steps(self) -> int:
        """The optimizer's steps since the very first start."""
        return int(self.model.optimizer.iterations.numpy())
