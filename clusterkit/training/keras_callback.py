"""A Keras callback that reports progress. Its base class is in ``tf.keras``, so TF_USE_LEGACY_KERAS applies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from weakref import WeakSet

import tensorflow as tf

from clusterkit.training import progress, this_task

RESERVED = frozenset({"step", "total"})  # parameters of `report`, so these can't be names of metrics
EVALUATION = "evaluation"


class _Fits:
    """Totals of the completed `fit` calls in this process: the number of steps, and the optimizers that they used."""

    done = 0
    backed_up = 0  # the number of completed fits with `Backup` in its default directory
    directories: ClassVar[set[str]] = set()  # those of all completed fits with `Backup`
    optimizers: ClassVar[WeakSet[Any]] = WeakSet()


class ReportProgress(tf.keras.callbacks.Callback):  # type: ignore[misc]  # tensorflow ships no types
    """Reports the step, the loss and the metrics after batches and at the end of each epoch.

        model.fit(dataset, epochs=10, callbacks=[training.ReportProgress()])

    The step is the number of batches trained in all calls of `fit` in this process, plus the steps before a restored
    checkpoint (the `iterations` of the model's optimizer when `fit` first uses it). With parameter servers, where Keras
    reports no batches, the step is the optimizer's `iterations`. Evaluations are reported as a phase, so that they do
    not count as a stall.

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
        self._total: int | None = None  # the step at the end of `fit`, if it is known
        self._skipped = 0  # the number of the epoch's batches that were trained before a restart
        self._batches_done = 0  # the number of steps done
        self._epoch_start = 0  # the number of the epoch's batches that `_batches_done` includes

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._batches_done = _Fits.done + (0 if self.model.optimizer in _Fits.optimizers else self._iterations())

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._epoch_start = self._skipped
        steps = self.params.get("steps")  # None if Keras does not know the number before the end of the first epoch
        left = None if steps is None else (self.params["epochs"] - epoch) * steps - self._skipped
        self._total = None if left is None else self._steps() + left

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._batches_done, self._epoch_start = self._batches_done + batch + 1 - self._epoch_start, batch + 1
        if (batch + 1) % self._every == 0:
            self._report(logs)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._report(logs)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        _Fits.done = max(_Fits.done, self._steps())
        _Fits.optimizers.add(self.model.optimizer)

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
        """Return the number of steps done, including those before a restart."""
        return self._iterations() if this_task.has_ps() else self._batches_done

    def _iterations(self) -> int:
        iterations = getattr(self.model.optimizer, "iterations", None)  # None if the model has no optimizer
        return 0 if iterations is None else int(iterations.numpy())
