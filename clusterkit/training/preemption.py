"""Preemption: on SIGTERM, save a checkpoint and exit with code 42, which requests a restart."""

from __future__ import annotations

import atexit
import functools
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol, TypeVar

from clusterkit.training import this_task

RESTART_ME: Final = 42  # TensorFlow's exit code for preemption; clusterkit does not charge it to the restart budget

T = TypeVar("T")


class Saver(Protocol):
    """Saves the training state: a `Checkpointer`, or a callback such as `Backup`."""

    @property
    def step(self) -> int: ...

    def save(self, step: int) -> str | None: ...


def on_preemption(checkpointer: Saver) -> Preemption:
    """Install a SIGTERM handler that finishes the current step, saves with `checkpointer` and exits with code 42.

    Call this in every training task, after `restore`, and then call either ``run`` or ``step`` of the returned handler
    for each step. The program exits in these calls:

        handler = training.on_preemption(checkpointer)
        while step < 1000:
            loss = handler.run(train_step, batch)
            step += 1

    In a multi-worker job the handler uses TensorFlow's `PreemptionCheckpointHandler`: whichever worker receives
    SIGTERM, all workers agree on the step after which they save and exit. In a single process, and in the coordinator
    of a parameter-server job, which TensorFlow's handler does not support, the program saves and exits at the next
    step.

    Args:
        checkpointer: the `Checkpointer` to save with. Steps are counted from its `step`.

    Returns:
        The handler; its `close` restores the previous SIGTERM handler.

    Raises:
        RuntimeError: the task does not save checkpoints (an evaluator, or a worker or ps of a parameter-server job), or
            the caller is not the main thread, which alone can handle signals.
    """
    if this_task.is_evaluator() or (this_task.has_ps() and not this_task.is_coordinator()):
        raise RuntimeError(f"{this_task.task()} called on_preemption, but only tasks that save checkpoints can use it.")
    kind = _MultiWorker if this_task.is_in_step() else _SingleTask
    previous = signal.getsignal(signal.SIGTERM)
    try:
        return kind(checkpointer, previous)
    except ValueError as error:
        if "main thread" in str(error):
            raise RuntimeError("on_preemption must be called in the main thread, since it handles a signal.") from None
        raise


class Preemption:
    """Handles SIGTERM from `on_preemption` until `close`. The program calls `run` or `step` for each step."""

    def __init__(self, checkpointer: Saver, previous: Any) -> None:
        self._checkpointer = checkpointer
        self._previous_handler = previous
        self._done = checkpointer.step

    def run(self, step_fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """If preempted, save and exit; otherwise call `step_fn`, count one step and return the result of `step_fn`."""
        raise NotImplementedError

    def step(self, done: int) -> None:
        """Record that `done` steps are done; save and exit if preempted. All workers must pass the same steps."""
        raise NotImplementedError

    def close(self) -> None:
        """Restore the previous SIGTERM handler."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL if self._previous_handler is None else self._previous_handler)

    def _save(self) -> None:
        wait = {"wait": True} if hasattr(self._checkpointer, "wait") else {}  # a program's Saver may have no `wait`
        self._checkpointer.save(self._done, **wait)

    def _exit(self) -> None:
        self.close()
        print(
            f"clusterkit: {this_task.task()} was preempted. It has saved the state after step {self._done} and exits "
            f"with code {RESTART_ME} to be restarted.",
            file=sys.stderr,
            flush=True,
        )
        sys.exit(RESTART_ME)


class _SingleTask(Preemption):
    """Saves and exits at the next step, without coordination with other tasks."""

    def __init__(self, checkpointer: Saver, previous: Any) -> None:
        super().__init__(checkpointer, previous)
        self._is_preempted = False
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def run(self, step_fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        self._exit_if_preempted()
        result = step_fn(*args, **kwargs)
        self._done += 1
        return result

    def step(self, done: int) -> None:
        self._done = done
        self._exit_if_preempted()

    def _on_sigterm(self, signum: int, frame: FrameType | None) -> None:
        # Do not save here, since the signal may have arrived during a save.
        self._is_preempted = True

    def _exit_if_preempted(self) -> None:
        if self._is_preempted:
            self._save()
            self._exit()


class _MultiWorker(Preemption):
    """Uses TensorFlow's handler to agree on a step, but saves with `checkpointer`."""

    def __init__(self, checkpointer: Saver, previous: Any) -> None:
        super().__init__(checkpointer, previous)
        global _current
        _current = self
        self._handler, on_sigterm = _tensorflow_handler()
        signal.signal(signal.SIGTERM, on_sigterm)

    def run(self, step_fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        result: T = self._handler.run(step_fn, *args, **kwargs)
        self._done += 1
        return result

    def step(self, done: int) -> None:
        self._done = done
        self._handler.save_checkpoint_if_preempted()


_current: _MultiWorker | None = None  # the object whose methods TensorFlow's handler calls


@functools.cache
def _tensorflow_handler() -> tuple[Any, Any]:
    """Return TensorFlow's `PreemptionCheckpointHandler` and the SIGTERM handler that it installs.

    Only one handler is created per process, since TensorFlow can set the keys by which workers agree only once.
    """
    import tensorflow as tf

    def save() -> None:
        assert _current is not None
        _current._save()

    def leave() -> None:
        assert _current is not None
        _current._exit()

    # The handler itself reads a deprecated property, which logs a warning.
    tf.get_logger().addFilter(lambda record: "total_run_calls" not in record.getMessage())
    experimental = tf.distribute.experimental
    # The handler requires a CheckpointManager, from which it restores. This manager has no checkpoints.
    nowhere = str(Path(this_task.checkpoint_dir()) / ".none")
    empty = tf.train.CheckpointManager(tf.train.Checkpoint(), nowhere, max_to_keep=1)
    config = experimental.TerminationConfig(exit_fn=leave, save_fn=save)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    handler = experimental.PreemptionCheckpointHandler(resolver, empty, termination_config=config)
    # Call `__del__` before the interpreter shuts down, since it waits for a thread that does not run after that.
    atexit.register(handler.__del__)
    return handler, signal.getsignal(signal.SIGTERM)
