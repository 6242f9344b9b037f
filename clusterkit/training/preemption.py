"""SIGTERM, checkpoint, exit 42: a task that is told to end asks to be started again where it was."""

from __future__ import annotations

import atexit
import functools
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol, TypeVar

from clusterkit.training import roles

RESTART_ME: Final = 42  # TensorFlow's own; clusterkit does not charge it to the restart budget

T = TypeVar("T")


class Saver(Protocol):
    """What is saved with: a `Checkpointer`."""

    @property
    def step(self) -> int: ...

    def save(self, step: int) -> str | None: ...


def on_preemption(checkpointer: Saver) -> Preemption:
    """From now on SIGTERM lets the step end, saves with `checkpointer`, and exits with 42.

    Call it in every training task, after `restore`. Either ``run`` or ``step`` of what it returns has to be called
    for each step, since that is where the loop can end:

        handler = training.on_preemption(checkpointer)
        while step < 1000:
            loss = handler.run(train_step, batch)
            step += 1

    In a multi-worker job TensorFlow's own `PreemptionCheckpointHandler` has all workers agree on the step after which
    they save and exit, whichever of them was told to end. In a single process, and in the coordinator of a
    parameter-server job, which TensorFlow's handler refuses, the state is saved at the next step.

    Raises:
        RuntimeError: this task does not save, being an evaluator, a ps or one of its workers; or this is not the
            main thread, which alone can catch signals.
    """
    if roles.is_evaluator() or (roles.has_ps() and not roles.is_coordinator()):
        raise RuntimeError(f"{roles.task()} called on_preemption, but only tasks that train and save need it.")
    kind = _Together if roles.in_cluster() and not roles.has_ps() else _Alone
    before = signal.getsignal(signal.SIGTERM)
    try:
        return kind(checkpointer, before)
    except ValueError as error:
        if "main thread" in str(error):
            raise RuntimeError("on_preemption must be called in the main thread: it catches a signal.") from None
        raise


class Preemption:
    """What has to know of every step. `close` gives SIGTERM back to whoever had it."""

    def __init__(self, checkpointer: Saver, before: Any) -> None:
        self._checkpointer = checkpointer
        self._before = before
        self._done = checkpointer.step

    def run(self, step_fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run one step, which counts one; before it, save and exit where it is time. Returns what it returns."""
        raise NotImplementedError

    def step(self, done: int) -> None:
        """Tell that `done` steps are done; save and exit where it is time. Every worker, with the same steps."""
        raise NotImplementedError

    def close(self) -> None:
        """Catch no signal any more."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL if self._before is None else self._before)

    def _save(self) -> None:
        self._checkpointer.save(self._done)

    def _exit(self) -> None:
        self.close()
        print(
            f"clusterkit: {roles.task()} ends because it was told to. The state after step {self._done} is saved; "
            f"exit code {RESTART_ME} asks for a restart.",
            file=sys.stderr,
            flush=True,
        )
        sys.exit(RESTART_ME)


class _Alone(Preemption):
    """One task decides for itself."""

    def __init__(self, checkpointer: Saver, before: Any) -> None:
        super().__init__(checkpointer, before)
        self._told = False
        signal.signal(signal.SIGTERM, self._tell)

    def run(self, step_fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        self._end_if_told()
        result = step_fn(*args, **kwargs)
        self._done += 1
        return result

    def step(self, done: int) -> None:
        self._done = done
        self._end_if_told()

    def _tell(self, signum: int, frame: FrameType | None) -> None:
        # Not saved here: the signal may have come in the middle of a save.
        self._told = True

    def _end_if_told(self) -> None:
        if self._told:
            self._save()
            self._exit()


class _Together(Preemption):
    """TensorFlow's handler, which saves with ours and keeps no checkpoints of its own."""

    def __init__(self, checkpointer: Saver, before: Any) -> None:
        super().__init__(checkpointer, before)
        global _served
        _served = self
        self._handler, catch = _tensorflows()
        signal.signal(signal.SIGTERM, catch)

    def run(self, step_fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        result: T = self._handler.run(step_fn, *args, **kwargs)
        self._done += 1
        return result

    def step(self, done: int) -> None:
        self._done = done
        self._handler.save_checkpoint_if_preempted()


_served: _Together | None = None  # whose steps TensorFlow's handler is told of


@functools.cache
def _tensorflows() -> tuple[Any, Any]:
    """TensorFlow's handler, and the function with which it catches SIGTERM.

    One for the life of the process: what the workers tell each other by it can be told once.
    """
    import tensorflow as tf

    def save() -> None:
        assert _served is not None
        _served._save()

    def leave() -> None:
        assert _served is not None
        _served._exit()

    tf.get_logger().addFilter(lambda record: "total_run_calls" not in record.getMessage())  # its own, and deprecated
    experimental = tf.distribute.experimental
    # It wants a manager, restores its newest checkpoint and counts in it. This one is empty and stays so.
    nowhere = str(Path(roles.checkpoint_dir()) / ".none")
    empty = tf.train.CheckpointManager(tf.train.Checkpoint(), nowhere, max_to_keep=1)
    config = experimental.TerminationConfig(exit_fn=leave, save_fn=save)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    handler = experimental.PreemptionCheckpointHandler(resolver, empty, termination_config=config)
    # Where Python calls it in its own time, at the end of the interpreter, the thread it waits for runs no more.
    atexit.register(handler.__del__)
    return handler, signal.getsignal(signal.SIGTERM)
