"""Saves checkpoints that stay intact if a task is killed, and resumes all tasks from the same checkpoint."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import tensorflow as tf

from clusterkit.training import progress, resumption, this_task
from clusterkit.training.background import PHASE, Background, finish_all, not_saved
from clusterkit.training.checkpoint_store import (
    Checkpoint,
    CheckpointStore,
    Damaged,
    follow_chief,
    is_intact,
    remove,
    verify,
)
from clusterkit.training.snapshot import Snapshots
from clusterkit.training.trackables import Directory, split_arguments

PREFIX = "state"  # the prefix of TensorFlow's file names in a checkpoint's directory
BRIEF_WAIT = 1.0  # seconds; a longer wait for a checkpoint to become visible is announced in a message
VISIBLE_WITHIN = 60.0  # seconds; the maximum wait for files from another host to appear in a shared file system
_restores = itertools.count(1)  # numbers the calls of `restore`; all workers use the same numbers


class CheckpointMismatch(ValueError):
    """The checkpoint is intact but does not fit the program: a variable's shape or the set of variables has changed."""


class Checkpointer:
    """Saves and restores models, optimizers and variables atomically, as ``ckpt-<step>`` directories with checksums.

        with training.Checkpointer(model=model, optimizer=optimizer) as checkpointer:
            step = checkpointer.restore()
            while step < 1000:
                train_step(next(batches))
                step += 1
                if step % 100 == 0:
                    checkpointer.save(step)

    `save` copies the values, and a thread writes them while training continues. One checkpoint is written at a time.
    The end of the block, or of the program, waits for the last checkpoint.

    Args:
        given: positional arguments: the directory, a model, an optimizer, or a tf.train.Checkpoint, which stands for
            the objects in it.
        directory: by default the run's checkpoint directory; outside clusterkit ``./checkpoints``. All tasks of a job
            must share it, including parameter servers, since each writes its own variables.
        keep: the number of checkpoints to keep, at least 1.
        background: whether `save` returns before the checkpoint is on disk. This needs memory for a second copy of all
            values. With parameter servers, the coordinator needs that memory; if it is more than 1 GiB, each parameter
            server writes its own values instead, and training waits.
        trackables: the objects to save, by name: models, optimizers, variables. Build them first
            (``model.build(shape)``, ``optimizer.build(model.trainable_variables)``); otherwise `restore` finds saved
            values for which no variables exist.

    Raises:
        ValueError, TypeError: there is nothing to save, or an argument is invalid.
    """

    def __init__(
        self,
        *given: Any,
        directory: Directory = None,
        keep: int = 3,
        background: bool = True,
        **trackables: Any,
    ) -> None:
        if keep < 1:
            raise ValueError(f"Checkpointer(keep={keep}) is invalid: keep must be at least 1.")
        if not isinstance(background, bool):
            raise ValueError(f"Checkpointer(background={background!r}) is invalid: background must be True or False.")
        directory, trackables = split_arguments([directory, *given], trackables)
        path = this_task.checkpoint_dir() if directory is None else str(Path(directory).absolute())
        self._store = CheckpointStore(path, this_task.task())
        self._in_background = background
        self._background = Background(path)
        self._state = {**trackables, **resumption.random_states(trackables)}
        self._checkpoint = tf.train.Checkpoint(**self._state)
        # Traced only once. Otherwise TensorFlow would trace its saver for each save and send it to every worker, and
        # would wait even for an unreachable worker.
        self._save = tf.function(self._checkpoint.write) if this_task.has_ps() else self._checkpoint.write
        self._snapshots = Snapshots(self._checkpoint)
        self._damaged: list[str] = []
        self._keep, self._step = keep, 0
        self._restored: Checkpoint | None = None
        tf.get_logger().addFilter(_is_not_retracing)
        if not this_task.is_evaluator():
            finish_all()  # another Checkpointer may be writing into this directory
            self._store.clean(finish=this_task.is_chief())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *args: object) -> None:
        if kind is None:
            self.wait()

    @property
    def directory(self) -> str:
        """The absolute path of the directory that holds the checkpoints."""
        return str(self._store.directory)

    @property
    def step(self) -> int:
        """The step that this object last saved or restored; 0 before the first save or restore."""
        return self._step

    @property
    def restored(self) -> Checkpoint | None:
        """The checkpoint that the last call of `restore` restored; None if there was no checkpoint."""
        return self._restored

    def save(self, step: int, *, wait: bool = False) -> str | None:
        """Save the state after `step` steps, atomically: if the program is killed, earlier checkpoints stay intact.

        `save` waits until the previous checkpoint is on disk, and returns as soon as the values are copied, so the
        variables may then change. A checkpoint is used only if it is complete on disk.

        Every worker of a MultiWorkerMirroredStrategy job must call this at the same step, since saving may need a
        collective operation. Only the chief's checkpoint is kept. It replaces any checkpoint of the same step.

        Args:
            step: the number of steps done, from 0.
            wait: return only when the checkpoint is on disk.

        Returns:
            The checkpoint's directory in the chief and outside a cluster; None in other workers.

        Raises:
            ValueError: `step` is negative or not an integer.
            RuntimeError: the task is an evaluator, or a worker or ps of a parameter-server job.
            CheckpointNotSaved: the previous checkpoint could not be written or, if `wait` is True, this one.
        """
        step = progress.as_step(step, "Checkpointer.save({!r})", "the step")
        _require_saving_task()
        with progress.phase(PHASE):
            self._background.wait()
            wait = wait or not self._in_background
            self._begin(step, wait)
            if wait:
                self._background.wait()
        self._step = step
        return str(self._store.path_of(step)) if this_task.is_chief() else None

    def wait(self) -> None:
        """Wait until the last checkpoint is on disk. Raises CheckpointNotSaved if it could not be written."""
        with progress.phase(PHASE):
            self._background.wait()

    def restore(self, checkpoint: Checkpoint | None = None, *, partial: bool = False) -> int:
        """Restore the newest intact checkpoint; skip damaged ones with a warning on stderr.

        In a MultiWorkerMirroredStrategy job the chief chooses the checkpoint for all workers, so every worker must
        call this, after creating its strategy.

        Args:
            checkpoint: the checkpoint to restore, as yielded by `new_checkpoints`. If it is damaged or has been
                removed, the newest intact one is restored instead.
            partial: ignore saved values for which the program has no variable. Always on in the evaluator, where
                ``Checkpointer(model=model)`` restores checkpoints that also hold an optimizer.

        Returns:
            The number of steps done when the checkpoint was saved; 0, with nothing changed, if no checkpoint exists.

        Raises:
            CheckpointMismatch: the checkpoint is intact but does not fit the program, which has changed since.
            CheckpointNotSaved: this object's last checkpoint could not be written.
        """
        with progress.phase(PHASE):
            self._background.wait()
            finish_all()
            self._wait_for(os.environ.get("CLUSTERKIT_RESTORE", ""))
            found = checkpoint if checkpoint and is_intact(checkpoint) else None
            if found is None and this_task.is_in_step():
                found = follow_chief(f"clusterkit/restore/{next(_restores)}", self._choose, this_task.is_chief())
            elif found is None:
                found = self._choose()
            while found is not None and not self._read(found, partial or this_task.is_evaluator()):
                found = self._choose()  # another task has removed the first choice in the meantime
        self._step, self._restored = (found.step if found else 0), found
        if not this_task.is_evaluator():  # an evaluator restores checkpoints, but does not resume training
            progress.channel().send("resumed", step=self._step, path=found.path if found else None)
        return self._step

    def _wait_for(self, named: str) -> None:
        """Wait until the checkpoint `named`, from which this attempt must resume, is visible on this host."""
        if self._store.has(named, BRIEF_WAIT):
            return
        _warn(f"waits up to {VISIBLE_WITHIN:g} s for {named}, which its host does not see yet.")
        if not self._store.has(named, VISIBLE_WITHIN):
            _warn(f"did not see {named} within {VISIBLE_WITHIN:g} s. Do all hosts share {self.directory}?")

    def _begin(self, step: int, wait: bool) -> None:
        """Copy the values, or write them now if they can't be copied; leave the rest to the background thread."""
        # If workers in lockstep wait for a checkpoint, all of them write it. Otherwise the others would return first
        # and, after a preemption, exit; the chief would then have only the grace period to write its checkpoint.
        snapshot = self._snapshots.take() if self._in_background and not (wait and this_task.is_in_step()) else None
        if snapshot is not None:
            if this_task.is_chief():
                self._background.start(step, lambda: self._publish(self._staged(snapshot.write), step))
            return
        try:
            staged = self._staged(lambda prefix: self._save(tf.constant(prefix)))
        except (OSError, tf.errors.OpError) as error:
            raise not_saved(step, self.directory, error) from error
        if this_task.is_chief():
            self._background.start(step, lambda: self._publish(staged, step))
        else:
            remove(staged)

    def _staged(self, write: Callable[[str], object]) -> Path:
        """Create a hidden directory, call `write` with the path prefix for files in it, and return the directory."""
        staged = self._store.stage()
        try:
            write(str(staged / PREFIX))
        except BaseException:
            remove(staged)
            raise
        return staged

    def _publish(self, staged: Path, step: int) -> None:
        try:
            path = self._store.publish(staged, step)
        finally:
            remove(staged)
        progress.channel().send("checkpoint", step=step, path=path)
        self._store.prune(step, self._keep, self._damaged)
        self._damaged.clear()

    def _choose(self) -> Checkpoint | None:
        for candidate in self._store.intact():
            if isinstance(candidate, Checkpoint):
                return candidate
            found, damage = candidate
            if os.path.lexists(found.path):
                _warn(f"skipped the checkpoint {found.path}: {damage}. Trying the next older one.")
                self._damaged.append(found.path)
            else:  # the chief has removed the checkpoint in the meantime, so there are newer ones
                return self._choose()
        return None

    def _read(self, found: Checkpoint, partial: bool) -> bool:
        """Restore the values. If the checkpoint is not intact, return False; workers in lockstep raise the error."""
        try:
            prefix = str(Path(found.path, PREFIX))
            state = resumption.restorable(self._state, tf.train.list_variables(prefix))
            status = tf.train.Checkpoint(**state).read(prefix)
            if partial:
                status.assert_existing_objects_matched().expect_partial()
            else:
                status.assert_consumed()
        except tf.errors.NotFoundError as error:
            try:
                verify(found)
            except Damaged:
                if this_task.is_in_step():
                    raise
                return False
            raise _mismatch(found, error) from error
        except (AssertionError, ValueError, tf.errors.InvalidArgumentError) as error:
            raise _mismatch(found, error) from error
        return True


def _mismatch(checkpoint: Checkpoint, error: Exception) -> CheckpointMismatch:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return CheckpointMismatch(
        f"The checkpoint {checkpoint.path} is intact but does not fit this program in {this_task.task()}: {lines[0]} "
        "If the program was changed on purpose, start it with another checkpoint directory; "
        "if not, build the model and the optimizer before restore()."
    )


def _is_not_retracing(record: logging.LogRecord) -> bool:
    # TensorFlow retraces its sharded saver for each save, and then warns as if the program did so.
    return "MultiDeviceSaver" not in record.getMessage()


def _require_saving_task() -> None:
    serving = this_task.has_ps() and not this_task.is_coordinator()
    if serving or this_task.is_evaluator():
        raise RuntimeError(
            f"{this_task.task()} called Checkpointer.save, but only training tasks save, and with parameter servers "
            "only the chief. Call serve() before anything else, and do not save in an evaluator."
        )


def _warn(sentence: str) -> None:
    print(f"clusterkit: {this_task.task()} {sentence}", file=sys.stderr, flush=True)
