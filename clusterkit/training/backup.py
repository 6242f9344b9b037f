"""A Keras callback that resumes an interrupted `fit`, with one worker or many."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable  # a local variable even in a strategy's scope

from clusterkit.training import preemption as preempting
from clusterkit.training import resumption, this_task
from clusterkit.training.checkpointer import Checkpointer
from clusterkit.training.keras_callback import ReportProgress, _Fits
from clusterkit.training.stateful_random import StatefulRandom

SHARED: Final = (
    "An earlier fit of this program wrote the checkpoint in {}, so this fit has trained nothing. "
    "Give each fit a directory of its own."
)


class FitProgress(NamedTuple):
    """The progress of `fit`."""

    epochs: int  # complete epochs
    batches: int  # batches trained in the current, incomplete epoch
    stopped: int  # 1 if a callback stopped `fit` early, otherwise 0


class Backup(ReportProgress):
    """Saves the model, its optimizer and the position in `fit`, and resumes from them when `fit` starts again.

        model.fit(dataset, epochs=10, callbacks=[..., training.Backup(every=100)])

    `Backup` replaces Keras's BackupAndRestore, which does not work with more than one worker in Keras 3: all workers
    write and delete the same file, and the saved batch number is never restored. `Backup` also reports progress, as
    `ReportProgress` does. Put it last in the list of callbacks, so that it saves changes that the other callbacks make
    at the end of an epoch.

    To resume within an epoch, `Backup` reads and skips the batches that were already trained, and restores the metrics.
    This is exact if the data is not shuffled, or if a seed determines its order, as in the tasks of a multi-worker job.
    The batches of a Keras 3 PyDataset keep their order (see `BatchOrder`). A notice names layers that draw from
    `tf.random`, whose state can't be saved.
    Data that is read with ``steps_per_epoch`` restarts from its beginning. The state of other callbacks, such as the
    patience of EarlyStopping, is not restored, but a `fit` that was stopped early stays stopped.

    Args:
        every: ``epoch``, or the number of batches between checkpoints. At the end of `fit`, a checkpoint is always
            saved. With parameter servers only ``epoch`` is supported, since Keras reports no batches there.
        directory: see `Checkpointer`. By default, the second `fit` of a program uses a subdirectory ``fit-2``, and so
            on. A program that names a directory needs one for each `fit`.
        keep: the number of checkpoints to keep.
        report_every: report each batch whose number is a multiple of this.
        background: see `Checkpointer`.
        preemption: on SIGTERM, save after the current batch and exit with code 42; see `on_preemption`.

    Raises:
        ValueError: an argument is invalid; or, in `fit`, the model is not built and so has no variables to restore.
        CheckpointMismatch: in `fit`, the checkpoint does not fit the model or its optimizer.
    """

    def __init__(
        self,
        every: int | str = "epoch",
        *,
        directory: str | os.PathLike[str] | None = None,
        keep: int = 3,
        report_every: int = 1,
        background: bool = True,
        preemption: bool = False,
    ) -> None:
        super().__init__(report_every)
        if every != "epoch" and (not isinstance(every, int) or every < 1 or this_task.has_ps()):
            raise ValueError(
                f"Backup(every={every!r}) is invalid: every must be 'epoch' or a number of batches, 1 or more; "
                "with parameter servers only 'epoch' is supported."
            )
        self._save_every = every if isinstance(every, int) else None  # None: each epoch
        self._directory, self._keep, self._in_background = directory, keep, background
        self._preemptible = preemption
        self._handler: preempting.Preemption | None = None
        self._checkpointer: Checkpointer
        self._logs: Mapping[str, Any] = {}  # the logs of the last batch
        self._order: resumption.DataOrder
        self._draws: StatefulRandom
        self._saved_position: Any  # a TensorFlow variable, so that it is saved with the model
        self._saved_results: Any  # a TensorFlow variable, for the same reason

    @property
    def step(self) -> int:
        """The number of batches trained as of the newest checkpoint."""
        return self._checkpointer.step

    def save(self, step: int, *, wait: bool = False) -> str | None:
        """Save a checkpoint now, in addition to those that `fit` saves automatically.

        In a multi-worker job every worker must call this. See `Checkpointer.save`.
        """
        self._saved_position.assign(self._position)
        self._saved_results.assign(json.dumps(self._results()))
        self._batches_unsaved = 0
        return self._checkpointer.save(step, wait=wait)

    def wait(self) -> None:
        """Wait until the last checkpoint is on disk. `fit` calls this when it ends."""
        self._checkpointer.wait()

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        super().on_train_begin(logs)
        self._build()
        self._position = FitProgress(0, 0, 0)
        self._order = resumption.DataOrder()
        self._order.begin()
        self._draws = StatefulRandom()
        self._draws.begin()
        self._batches_unsaved = self._skipped = 0  # batches since the last checkpoint; batches to skip
        self._has_trained = False
        # The names tell the exam that these variables are not the program's.
        self._saved_position = ResourceVariable(
            self._position, dtype=tf.int64, trainable=False, name="clusterkit_position"
        )
        self._saved_results = ResourceVariable("", dtype=tf.string, trainable=False, name="clusterkit_results")
        named = {"model": self.model, "optimizer": self.model.optimizer, "position": self._saved_position}
        named |= {resumption.RESULTS: self._saved_results, **resumption.own_optimizers(self.model)}
        self._checkpointer = Checkpointer(
            self._directory_of_fit(), keep=self._keep, background=self._in_background, **named
        )
        # `partial`, since Keras creates the metrics only in the first step (and resets them in each epoch anyway).
        self._checkpointer.restore(partial=True)
        if (restored := self._checkpointer.restored) is not None:
            self._batches_done = restored.step
            self._resume(restored.step)
        if self._preemptible:
            self._handler = preempting.on_preemption(self)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        if epoch != self._position.epochs:  # `fit` was called with the argument `initial_epoch`
            self._position = FitProgress(epoch, 0, 0)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if batch < self._skipped:
            return
        self._draws.end()
        super().on_train_batch_end(batch, logs)
        self._batches_unsaved += batch + 1 - self._position.batches
        self._position, self._logs = self._position._replace(batches=batch + 1), logs or {}
        if batch + 1 >= (self.params.get("steps") or math.inf):  # `on_epoch_end` follows and saves
            return
        self._exit_if_preempted()
        if self._save_every and self._batches_unsaved >= self._save_every:
            self.save(self._steps())

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        self._skipped = 0
        self._position = FitProgress(epoch + 1, 0, 0)
        self._has_trained = True
        self._exit_if_preempted()
        if self._save_every is None or self._batches_unsaved >= self._save_every:
            self.save(self._steps())

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        super().on_train_end(logs)
        resumption.start_at(self.model, None)
        self._order.end()
        self._draws.end()
        if self._handler is not None:
            self._handler.close()
        if self._has_trained:  # saves changes that other callbacks made in `on_train_end`, such as the best weights
            self._position = self._position._replace(stopped=int(self.model.stop_training))
            self.save(self._steps())
        self.wait()
        _Fits.backed_up += self._directory is None
        _Fits.directories.add(self._checkpointer.directory)

    def _directory_of_fit(self) -> str | os.PathLike[str] | None:
        """Return the directory of this `fit`. An interrupted `fit` has its directory until one is completed."""
        if self._directory is not None or not _Fits.backed_up:
            return self._directory
        return Path(this_task.checkpoint_dir(), f"fit-{_Fits.backed_up + 1}")

    def _build(self) -> None:
        model = self.model
        if not model.built:
            raise ValueError(
                "Backup can't restore a model that has no weights yet: add an Input layer, or call model.build(shape)."
            )
        with model.distribute_strategy.scope():
            resumption.build(model.optimizer, model.trainable_variables)

    def _resume(self, step: int) -> None:
        self._position = FitProgress(*map(int, self._saved_position.numpy()))
        epoch, batches, stopped = self._position
        resumption.start_at(self.model, self.params["epochs"] if stopped else epoch)
        if stopped:
            print(f"fit was stopped early in epoch {epoch}, after {step} steps", flush=True)
            return
        if epoch >= self.params["epochs"]:
            print(f"fit has already completed its {epoch} epochs ({step} steps); its history is empty", flush=True)
            if self._checkpointer.directory in _Fits.directories:
                print(SHARED.format(self._checkpointer.directory), flush=True)
            return
        print(f"fit resumes in epoch {epoch + 1} after batch {batches}: {step} steps are done", flush=True)
        saved = self._find_results()
        self._order.resume(saved.get("iterators", 0), epoch, saved.get("batches"))
        if batches:
            self._skipped = batches
            resumption.skip_batches(self.model, batches, self._restore_results)

    def _results(self) -> dict[str, Any]:
        """Return the number of data iterators and, within an epoch, the logs and metrics so far over all workers."""
        in_epoch = self._position.batches > 0
        order: dict[str, Any] = {"iterators": self._order.iterators_before(in_epoch)}
        if (batches := self._order.batches_before(in_epoch)) is not None:
            order["batches"] = batches
        if not in_epoch:
            return order
        logs = {name: float(np.asarray(value)) for name, value in self._logs.items() if np.ndim(value) == 0}
        variables = resumption.metric_variables(self.model)
        values = [tf.convert_to_tensor(variable.value).numpy().tolist() for variable in variables]
        return {**order, "logs": logs, "metrics": values}

    def _find_results(self) -> dict[str, Any]:
        text = self._saved_results.numpy().decode()
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def _restore_results(self) -> Mapping[str, Any]:
        """Restore the metrics and return the logs. The chief's first replica gets the totals; all others get zeros."""
        saved = {"logs": {}, "metrics": [], **self._find_results()}
        variables, strategy = resumption.metric_variables(self.model), self.model.distribute_strategy
        if len(variables) == len(saved["metrics"]):
            for variable, value in zip(variables, saved["metrics"], strict=True):
                for place, copy in enumerate(strategy.experimental_local_results(variable.value)):
                    is_first = place == 0 and this_task.is_chief()
                    copy.assign(tf.cast(value, copy.dtype) if is_first else tf.zeros_like(copy))
        logs: Mapping[str, Any] = saved["logs"]
        return logs

    def _exit_if_preempted(self) -> None:
        if self._handler is not None:
            self._handler.step(self._steps())
