"""A Keras callback with which a killed `fit` goes on where it was, with one worker or many."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from clusterkit.training import preemption as preempting
from clusterkit.training import resumption, roles
from clusterkit.training.checkpointer import Checkpointer
from clusterkit.training.keras_callback import ReportProgress


class Place(NamedTuple):
    """How far `fit` is: whole epochs, batches of the next one, and whether a callback ended it early."""

    epochs: int
    batches: int
    stopped: int


class Backup(ReportProgress):
    """Saves model, optimizer and the place in `fit`; when a `fit` begins, restores them and goes on from there.

    In place of Keras's BackupAndRestore, which more than one worker of Keras 3 can't use: all write and delete the
    same file, and the batch that it saves is never restored. Also reports progress, as `ReportProgress` does. Give it
    as the last of the callbacks, so that what the others change at the end of an epoch is saved too.

    A run that goes on within an epoch takes the batches that were done and leaves them out. This is exact where an
    epoch has the same batches each time it begins: unshuffled, or drawn from the epoch's number; the metrics of that
    epoch are those of the rest of it. What other callbacks remember, as EarlyStopping's patience, begins anew; that
    `fit` was stopped early is remembered.

    Args:
        every: ``epoch``, or a number of batches: then also at the end of each epoch in which some are left to save.
            With parameter servers it must be ``epoch``, since Keras has no batches to tell of.
        directory: as for `Checkpointer`. A program that calls `fit` more than once gives each a directory.
        keep: how many checkpoints to keep.
        report_every: report each batch whose number is a multiple of this.
        preemption: on SIGTERM save after the batch and exit with 42, see `on_preemption`.

    Raises:
        ValueError: an argument that cannot be meant; in `fit`: the model is not built, so it has nothing to restore.
        CheckpointMismatch: in `fit`: the model or its optimizer has changed since.
    """

    def __init__(
        self,
        every: int | str = "epoch",
        *,
        directory: str | os.PathLike[str] | None = None,
        keep: int = 3,
        report_every: int = 1,
        preemption: bool = False,
    ) -> None:
        super().__init__(report_every)
        if every != "epoch" and (not isinstance(every, int) or every < 1 or roles.has_ps()):
            raise ValueError(
                f"Backup was told to save every {every!r}; it must be 'epoch' or a number of batches from 1 up, and "
                "with parameter servers 'epoch'."
            )
        self._save_every = every if isinstance(every, int) else None  # batches
        self._directory, self._keep = directory, keep
        self._preemptible = preemption
        self._handler: preempting.Preemption | None = None
        self._checkpointer: Checkpointer
        self._position: Any  # the place, as a variable to save

    @property
    def step(self) -> int:
        """The optimizer's steps at the newest checkpoint."""
        return self._checkpointer.step

    def save(self, step: int) -> str | None:
        """Save now. `fit` does it by itself; in a multi-worker job every worker has to."""
        self._position.assign(self._place)
        self._unsaved = 0
        return self._checkpointer.save(step)

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        super().on_train_begin(logs)
        self._build()
        self._place = Place(0, 0, 0)
        self._unsaved = self._left_out = 0  # batches
        self._trained = False
        self._position = tf.Variable(self._place, dtype=tf.int64, trainable=False)
        named = {"model": self.model, "optimizer": self.model.optimizer, "position": self._position}
        if seeds := resumption.seeds(self.model):
            named["seeds"] = seeds
        self._checkpointer = Checkpointer(self._directory, keep=self._keep, **named)
        # Partial, since Keras makes the metrics of a model in its first step; they begin anew with the epoch anyway.
        if step := self._checkpointer.restore(partial=True):
            self._resume(step)
        if self._preemptible:
            self._handler = preempting.on_preemption(self)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        if epoch != self._place.epochs:  # `fit` was given an initial_epoch
            self._place = Place(epoch, 0, 0)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if batch < self._left_out:
            return
        super().on_train_batch_end(batch, logs)
        self._unsaved += batch + 1 - self._place.batches
        self._place = self._place._replace(batches=batch + 1)
        self._end_if_told()
        steps = self.params.get("steps")
        # After the last batch of an epoch on_epoch_end saves: a run that goes on has no metrics of batches left out.
        if self._save_every and self._unsaved >= self._save_every and (not steps or batch + 1 < steps):
            self.save(self._steps())

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        self._left_out = 0
        self._place = Place(epoch + 1, 0, 0)
        self._trained = True
        self._end_if_told()
        if self._save_every is None or self._unsaved >= self._save_every:
            self.save(self._steps())

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        super().on_train_end(logs)
        resumption.begin_as_usual(self.model)
        if self._handler is not None:
            self._handler.close()
        if self._trained:  # also what other callbacks did at their end, such as taking back the best weights
            self._place = self._place._replace(stopped=int(self.model.stop_training))
            self.save(self._steps())

    def _build(self) -> None:
        model = self.model
        if not model.built:
            raise ValueError(
                "Backup can't restore a model that has no weights yet: give it an Input, or call model.build(shape)."
            )
        with model.distribute_strategy.scope():
            resumption.build(model.optimizer, model.trainable_variables)

    def _resume(self, step: int) -> None:
        self._place = Place(*map(int, self._position.numpy()))
        epoch, batches, stopped = self._place
        resumption.begin_at(self.model, self.params["epochs"] if stopped else epoch)
        if stopped:
            print(f"fit was stopped early in epoch {epoch}, after {step} steps", flush=True)
            return
        print(f"fit goes on in epoch {epoch + 1} after batch {batches}: {step} steps are done", flush=True)
        if batches:
            self._left_out = batches
            resumption.leave_out(self.model, batches)

    def _end_if_told(self) -> None:
        if self._handler is not None:
            self._handler.step(self._steps())
