"""Checkpoints that survive a kill: the right task writes, all tasks resume from the same one."""

from __future__ import annotations

import itertools
import logging
import operator
import os
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from clusterkit.training import agreement, progress, roles
from clusterkit.training.checkpoint_store import Checkpoint, CheckpointStore, Damaged, verify

PREFIX = "state"  # of TensorFlow's files in a checkpoint's directory
PHASE = "checkpoint"  # what the supervisor is told, so that a long one is not taken for a stall
_restores = itertools.count(1)  # numbers the questions "which one?", the same in all workers


class CheckpointMismatch(ValueError):
    """An intact checkpoint does not fit the program: a variable's shape, or the set of variables, has changed."""


class Checkpointer:
    """Saves and restores what it is given, as ``ckpt-<step>`` directories.

    Args:
        directory: where; by default clusterkit's for this run, outside clusterkit ``./checkpoints``. All tasks of a
            job must see the same one, parameter servers too: each writes its own variables.
        keep: how many checkpoints to keep, at least 1.
        trackables: what to save, by name: models, optimizers, variables. Build them first (``model.build(shape)``,
            ``optimizer.build(model.trainable_variables)``), or `restore` finds values without a variable.

    Raises:
        ValueError: nothing to save, or `keep` below 1.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, *, keep: int = 3, **trackables: Any) -> None:
        if keep < 1:
            raise ValueError(f"Checkpointer was told to keep {keep} checkpoints; it must keep at least 1.")
        if not trackables:
            raise ValueError("Checkpointer has nothing to save: give it trackables by name, such as model=model.")
        path = roles.checkpoint_dir() if directory is None else str(Path(directory).absolute())
        self._store = CheckpointStore(path, roles.task())
        self._keep = keep
        self._checkpoint = tf.train.Checkpoint(**trackables)
        # Traced once: left to itself TensorFlow traces its saver for each save, and tells every worker of it, for
        # which it waits, also for one that can't be reached.
        self._save = tf.function(self._checkpoint.write) if roles.has_ps() else self._checkpoint.write
        self._damaged: list[str] = []
        self._step = 0
        tf.get_logger().addFilter(_is_not_the_savers)
        if not roles.is_evaluator():
            self._store.clean()

    @property
    def directory(self) -> str:
        """The absolute directory the checkpoints are in."""
        return str(self._store.directory)

    @property
    def step(self) -> int:
        """The step that was last saved or restored here; 0 before that."""
        return self._step

    def save(self, step: int) -> str | None:
        """Save the state after `step` steps; a kill at any moment leaves the checkpoints before it, or it too.

        Every worker of a MultiWorkerMirroredStrategy job must call this, at the same step: saving may take a
        collective operation. Only the chief's is kept. A checkpoint of the same step is replaced.

        Returns:
            The checkpoint's directory in the chief (and outside a cluster), None in other workers.

        Raises:
            ValueError: `step` is negative or not an integer.
            RuntimeError: this task is an evaluator, a parameter server or one of its workers.
        """
        step = _checked(step)
        _require_a_saving_task()
        with progress.phase(PHASE):
            path = self._write(step)
        self._step = step
        if path is None:
            return None
        progress.channel().send("checkpoint", step=step, path=path)
        self._store.prune(step, self._keep, self._damaged)
        self._damaged.clear()
        return path

    def restore(self, checkpoint: Checkpoint | None = None, *, partial: bool = False) -> int:
        """Restore the newest intact checkpoint; a damaged one is skipped with a warning on stderr.

        In a MultiWorkerMirroredStrategy job the chief chooses and all workers follow, so every worker must call
        this, and have made its strategy before.

        Args:
            checkpoint: this one, as `new_checkpoints` gives it; where it is damaged, or gone by now, the newest.
            partial: pass over values for which the program has no variable. The evaluator, which does not save,
                always does so: there ``Checkpointer(model=model)`` reads what was saved with an optimizer.

        Returns:
            The number of steps done when it was saved; 0 where there is none, and then nothing is changed.

        Raises:
            CheckpointMismatch: the checkpoint is intact and does not fit: the program has changed since.
        """
        with progress.phase(PHASE):
            found = checkpoint if checkpoint and _is_intact(checkpoint) else self._agreed_choice()
            if found is not None:
                self._read(found, partial or roles.is_evaluator())
        self._step = found.step if found else 0
        if not roles.is_evaluator():  # it looks at checkpoints, and resumes nothing
            progress.channel().send("resumed", step=self._step, path=found.path if found else None)
        return self._step

    def _write(self, step: int) -> str | None:
        """Write with the other tasks; the path where this task publishes it."""
        staged = self._store.stage()
        try:
            self._save(tf.constant(str(staged / PREFIX)))
            return self._store.publish(staged, step) if roles.is_chief() else None
        finally:
            self._store.discard(staged)

    def _agreed_choice(self) -> Checkpoint | None:
        if not roles.in_cluster() or roles.has_ps():
            return self._choose()
        return agreement.follow_chief(f"clusterkit/restore/{next(_restores)}", self._choose, roles.is_chief())

    def _choose(self) -> Checkpoint | None:
        for candidate in self._store.intact():
            if isinstance(candidate, Checkpoint):
                return candidate
            found, damage = candidate
            if Path(found.path).is_dir():
                _warn(f"skipped the checkpoint {found.path}: {damage}. The next older one is tried.")
                self._damaged.append(found.path)
            else:  # the chief removed it, having saved newer ones, while this task was looking
                return self._choose()
        return None

    def _read(self, found: Checkpoint, partial: bool) -> None:
        try:
            status = self._checkpoint.read(str(Path(found.path, PREFIX)))
            if partial:
                status.assert_existing_objects_matched().expect_partial()
            else:
                status.assert_consumed()
        except tf.errors.NotFoundError as error:
            verify(found)
            raise _mismatch(found, error) from error
        except (AssertionError, ValueError, tf.errors.InvalidArgumentError) as error:
            raise _mismatch(found, error) from error


def _is_intact(checkpoint: Checkpoint) -> bool:
    try:
        verify(checkpoint)
    except Damaged:
        return False
    return True


def _mismatch(found: Checkpoint, error: Exception) -> CheckpointMismatch:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return CheckpointMismatch(
        f"The checkpoint {found.path} is intact but does not fit this program in {roles.task()}: {lines[0]} "
        "If the program was changed on purpose, start it with another checkpoint directory; "
        "if not, build the model and the optimizer before restore()."
    )


def _is_not_the_savers(record: logging.LogRecord) -> bool:
    # TensorFlow traces its sharded saver anew for each save, and warns that this program does so too often.
    return "MultiDeviceSaver" not in record.getMessage()


def _require_a_saving_task() -> None:
    serving = roles.has_ps() and not roles.is_coordinator()
    if serving or roles.is_evaluator():
        raise RuntimeError(
            f"{roles.task()} called Checkpointer.save, but only training tasks save: with parameter servers the "
            "chief alone. Call serve() before anything else, and do not save in an evaluator."
        )


def _checked(step: int) -> int:
    try:
        value = operator.index(step)
    except TypeError:
        value = -1
    if value < 0:
        raise ValueError(f"Checkpointer.save was given step {step!r}; it must be an integer from 0 up.")
    return value


def _warn(sentence: str) -> None:
    print(f"clusterkit: {roles.task()} {sentence}", file=sys.stderr, flush=True)
