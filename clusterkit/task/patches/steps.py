"""Steps of a program that reports none: those of Keras's `fit`, a coordinator's closures, and other loops' optimizers.

Loaded by path: standard library only, and of that nothing which entry.py has not imported. Reports go where those of
`clusterkit.training.report` go; as soon as the program calls that, nothing is sent from here. No step waits for
anything: `fit` and the coordinator are counted in Python, and an optimizer's `iterations` are read in a thread. With a
coordinator they are read only once, before its first closure, since they are on a parameter server, which can hang.
"""

from __future__ import annotations

import _thread
import atexit
import itertools
import os
import sys
import time
from _weakref import ref
from collections.abc import Callable
from functools import wraps
from typing import Any

EVERY = 0.25  # seconds between two looks at the optimizers
PAUSE = 0.02  # seconds between two reports
LEAVE = 1.0  # seconds in which the thread has to end before the interpreter does


class Steps:
    """Counts and reports the steps of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.path = os.environ.get("CLUSTERKIT_PROGRESS")
        self.attempt = os.environ.get("CLUSTERKIT_ATTEMPT", "1")
        self.descriptor: int | None = None
        self.step: int | None = None  # the newest one
        self.sent: int | None = None
        self.counted_at = self.sent_at = 0.0
        self.batch = -1  # the last one of this epoch of `fit`
        self.optimizers: list[Callable[[], Any]] = []  # weak references
        self.read: dict[int, int] = {}  # what was read of an optimizer, by its id
        self.coordinates = False
        self.base: int | None = None  # the step at which the coordinator began
        self.finished = itertools.count(1)  # closures; all threads can count with it at once
        self.in_closure = 1  # steps; more with `steps_per_execution`
        self.tests = False  # whether `evaluate` or `predict` is at work, whose closures are no steps
        self.runs = False
        self.over = _thread.allocate_lock()  # released when the process ends
        self.lives = _thread.allocate_lock()  # held by the thread

    def count(self, step: int) -> None:
        """A step was made. Reports it, unless another has just been reported."""
        self.step, now = step, time.monotonic()
        self.counted_at = now
        if now - self.sent_at >= PAUSE:
            self.send_step()
        if not self.runs:
            self.run()

    def send_step(self) -> None:
        """Report the newest step, if it was not reported yet."""
        if self.step is not None and self.step != self.sent:
            self.sent, self.sent_at = self.step, time.monotonic()
            self.send("progress", f'"step":{self.step}')

    def send_phase(self, name: str, begun: bool) -> None:
        """Report something long that makes no steps."""
        self.tests = begun
        self.send("phase", f'"phase":"{name}","begun":{"true" if begun else "false"}')

    def send(self, kind: str, fields: str) -> None:
        """Write a report, unless the program writes its own, or this is a fork of the task's process."""
        if self.path is None or os.getpid() != self.pid or reports_itself():
            return
        try:
            if self.descriptor is None:
                self.descriptor = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(self.descriptor, f'{{"kind":"{kind}","attempt":{self.attempt},{fields}}}\n'.encode())
        except OSError:  # the pipe is full, or the supervisor is gone: training matters more
            return

    def run(self) -> None:
        """Begin to look at the optimizers."""
        self.runs = True
        if self.path is not None and os.getpid() == self.pid:
            self.over.acquire()
            self.lives.acquire()
            # Not by `threading`, which shows its threads to the program.
            _thread.start_new_thread(self.watch, ())
            atexit.register(self.end)

    def watch(self) -> None:
        """The thread: reads the optimizers of loops that nothing else counts, and reports what has not been yet."""
        try:
            while not self.over.acquire(timeout=EVERY):
                if not self.coordinates and time.monotonic() - self.counted_at > EVERY and not reports_itself():
                    self.look()
                self.send_step()
        finally:
            self.lives.release()

    def living(self) -> list[Any]:
        """The optimizers that the program still has."""
        return [optimizer for made in self.optimizers if (optimizer := made()) is not None]

    def look(self) -> None:
        """Take the highest count of the optimizers that have made a step since the last look."""
        counts = {id(optimizer): steps_of(optimizer) for optimizer in self.living()}
        moved = [count for key, count in counts.items() if count != self.read.get(key, 0)]
        self.read = counts
        if moved:
            self.step = max(moved)

    def end(self) -> None:
        """End the thread before the interpreter does, since a thread in TensorFlow's code does not survive that."""
        if os.getpid() == self.pid:
            self.over.release()
            self.lives.acquire(timeout=LEAVE)
            if not self.coordinates and not reports_itself():
                self.look()
            self.send_step()

    def begin_fit(self, model: Any) -> None:
        """Training begins or continues at the step that the optimizer has."""
        self.batch = -1
        if not self.coordinates:
            self.step = steps_of(getattr(model, "optimizer", None))

    def end_batch(self, batch: int) -> None:
        """All batches of the epoch up to this one are done; with `steps_per_execution` they are several at once."""
        made, self.batch = max(batch - self.batch, 1), batch
        if self.coordinates:  # they are scheduled, and not done
            self.in_closure = made
        else:
            self.count((self.step or 0) + made)

    def begin_closures(self) -> None:
        """The coordinator is about to schedule its first closure."""
        self.base = max((steps_of(optimizer) for optimizer in self.living()), default=0)

    def end_closure(self) -> None:
        """A closure was executed."""
        if not self.tests:
            self.count((self.base or 0) + next(self.finished) * self.in_closure)


steps = Steps()


def reports_itself() -> bool:
    """Whether the program has called `clusterkit.training.report`."""
    return getattr(sys.modules.get("clusterkit.training.progress"), "reported", False)


def steps_of(optimizer: Any) -> int:
    """How many steps an optimizer has made; 0 if it can't say."""
    try:  # not `iterations`, which in Keras 2's older optimizers is made when it is first read
        return int(optimizer._iterations.numpy())
    except Exception:  # whatever the program has made of it
        return 0


def after(kind: Any, name: str, call: Callable[..., None]) -> None:
    """Have each call of a method followed by another one with the same arguments."""
    plain = getattr(kind, name)

    @wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = plain(self, *args, **kwargs)
        call(self, *args, **kwargs)
        return result

    setattr(kind, name, method)


def watch_fit(module: Any, load: object) -> None:
    """Count the batches of `fit`, and report evaluations and predictions, which make no steps."""
    kind = module.CallbackList
    after(kind, "on_train_begin", lambda self, logs=None: steps.begin_fit(self.model))
    after(kind, "on_epoch_begin", lambda self, epoch, logs=None: setattr(steps, "batch", -1))
    after(kind, "on_train_batch_end", lambda self, batch, logs=None: steps.end_batch(batch))
    after(kind, "on_train_end", lambda self, logs=None: steps.send_step())
    for method, phase in (("test", "evaluation"), ("predict", "prediction")):
        after(kind, f"on_{method}_begin", lambda self, logs=None, phase=phase: steps.send_phase(phase, True))
        after(kind, f"on_{method}_end", lambda self, logs=None, phase=phase: steps.send_phase(phase, False))


def watch_optimizers(module: Any, load: object) -> None:
    """Note every optimizer that the program makes."""
    for name in ("BaseOptimizer", "_BaseOptimizer", "OptimizerV2"):
        if (kind := getattr(module, name, None)) is not None:
            after(kind, "__init__", note)


def note(optimizer: Any, *args: object, **kwargs: object) -> None:
    """Remember an optimizer as long as the program does."""
    if not any(known is optimizer for known in steps.living()):
        steps.optimizers.append(ref(optimizer))
    if not steps.runs:
        steps.run()


def watch_coordinator(module: Any, load: object) -> None:
    """Count the closures that a coordinator has finished."""
    kind = module.ClusterCoordinator
    schedule = kind.schedule

    @wraps(schedule)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if steps.base is None:
            steps.begin_closures()
        return schedule(self, *args, **kwargs)

    after(module._CoordinatedClosureQueue, "mark_finished", lambda queue: steps.end_closure())
    after(kind, "__init__", lambda self, *args, **kwargs: setattr(steps, "coordinates", True))
    kind.schedule = counted
