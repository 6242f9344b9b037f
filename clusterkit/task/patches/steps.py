"""Reports steps for a program that reports none: steps of Keras's `fit`, a coordinator's closures, or other loops.

This file imports only standard modules that entry.py has already imported. The reports look like those of
`clusterkit.training.report`, and end when the program calls that function. Training is never delayed: batches of `fit`
are counted in Python, closures by closures.py; for other loops, a thread reads the `iterations` of optimizers. With a
coordinator, `iterations` are read only once, before the first closure, since a read from a parameter server can hang.
During `fit`, `iterations` are not read, because they increase before a batch's callbacks run.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import time
from _weakref import ref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterkit.task.patches.closures import Closures
    from clusterkit.task.patches.metrics import Metrics

Counts = list[tuple[Callable[[], Any], int]]  # pairs: a weak reference to an optimizer, and the optimizer's steps
NO_REFERENCE = type(None)  # returns None when called, like a weak reference to a deleted object

POLL_EVERY = 0.25  # seconds between reads of the optimizers' counts
REPORT_EVERY = 0.1  # seconds; the minimum time between reports by `count`, since each write releases the GIL
MOST_STEPS = 10**9  # higher counts are invalid data: XLA frees a count's memory if a compiled step fails
END_WITHIN = 1.0  # seconds; the maximum wait at exit for the thread to end


class Steps:
    """Counts and reports the steps of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.path = os.environ.get("CLUSTERKIT_PROGRESS")
        self.attempt = os.environ.get("CLUSTERKIT_ATTEMPT", "1")
        self.process = ""  # in a program that a command started: members that tell it from others, for each report
        self.lock = _thread.RLock()  # protects data that several threads change; reentrant for signal handlers
        self.step: int | None = None  # the newest step
        self.sent: int | None = None  # the last step that was reported
        self.counted_at = self.sent_at = 0.0
        self.fit: Callable[[], Any] = NO_REFERENCE  # a weak reference to the callbacks of the running `fit`
        self.counted = 0  # the step during `fit`, computed by counting batches
        self.batch = -1  # the last batch of the current epoch of `fit`
        self.left_in_fit: int | None = None  # steps from the beginning of this epoch to the end of `fit`, if known
        self.epoch_began: int | None = None  # the step at which this epoch began
        self.total: int | None = None  # the step at the end of `fit`; None if unknown
        self.optimizers: list[Callable[[], Any]] = []  # weak references to all optimizers
        self.fitted: list[Callable[[], Any]] = []  # weak references to the optimizers that `fit` has used
        self.read: Counts = []  # the optimizers' counts at the last read
        self.shown: Counts = []  # the count, if any, that was reported as the step before the first `fit`
        self.coordinates = False  # True if the program has a coordinator
        self.closures: Closures | None = None  # the coordinator's finished closures
        self.is_testing = False  # True while `evaluate` or `predict` runs, whose closures are not steps
        self.metrics: Metrics | None = None  # the metrics that are reported with the steps
        self.unreported: Any = None  # detects a program that trains but reports no steps
        self.has_thread = False
        self.end_requested = _thread.allocate_lock()  # released at exit to end the thread
        self.thread_lives = _thread.allocate_lock()  # held while the thread runs

    def count(self, step: int) -> None:
        """Record a step; report the step if the last report was at least REPORT_EVERY seconds ago."""
        self.step, now = step, time.monotonic()
        self.counted_at = now
        if now - self.sent_at >= REPORT_EVERY:
            self.send_step()
        if not self.has_thread:
            self.start_thread()

    def send_step(self) -> None:
        """Report the newest step, if any, unless it has already been reported."""
        if not self.is_fork():
            with self.lock:
                if self.step and self.step != self.sent:
                    self.report("progress")

    def report(self, kind: str, more: str = "") -> None:
        """Report the newest step, with `more` appended to the JSON object's members. The caller must hold the lock."""
        self.sent, self.sent_at = self.step, time.monotonic()
        total = "" if self.total is None else f',"total":{self.total}'
        self.send(kind, f'"step":{self.sent}{total}{more}')

    def is_fork(self) -> bool:
        """Return whether this is a fork of the task's process, in which the copied lock may never be released."""
        return os.getpid() != self.pid

    def send_phase(self, name: str, begun: bool) -> None:
        """Report the beginning or end of an evaluation or prediction, during which no steps are completed."""
        self.read_closures()
        self.is_testing = begun
        self.send("phase", f'"phase":"{name}","begun":{"true" if begun else "false"}')

    def send(self, kind: str, fields: str) -> None:
        """Write a report, unless the program has called `clusterkit.training.report`."""
        if not getattr(sys.modules.get("clusterkit.training.progress"), "reported", False):
            self.write(kind, fields)

    def write(self, kind: str, fields: str) -> None:
        """Write a report, unless this is a fork of the task's process. Keeps no descriptor open."""
        if self.path is None or self.is_fork():
            return
        with suppress(OSError):  # a full pipe or a dead supervisor must not stop the training
            pipe = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(pipe, f'{{"kind":"{kind}","attempt":{self.attempt},{self.process}{fields}}}\n'.encode())
            finally:
                os.close(pipe)

    def start_thread(self) -> None:
        """Start the thread that reads the optimizers' counts. Only the first call has an effect."""
        with self.lock:
            if self.has_thread:
                return
            self.has_thread = True
        if self.path is not None and not self.is_fork():
            self.end_requested.acquire()
            self.thread_lives.acquire()
            # `threading` is not used, since the program would then see the thread in `threading.enumerate`.
            _thread.start_new_thread(self.watch, ())
            atexit.register(self.end)

    def watch(self) -> None:
        """Run in the thread: read the optimizers' counts while no other method counts steps; send delayed reports."""
        try:
            while not self.end_requested.acquire(timeout=POLL_EVERY):
                if not self.coordinates and time.monotonic() - self.counted_at > POLL_EVERY:
                    self.read_optimizers()
                self.read_closures()
                if self.unreported is not None and uses_training():
                    self.unreported.update()
                if self.metrics is not None:
                    self.metrics.send()
                self.send_step()
        finally:
            self.thread_lives.release()

    def counts(self) -> Counts:
        """Return the current counts of the optimizers that still exist and have taken steps."""
        return [(reference, count) for reference in self.optimizers if (count := steps_of(reference()))]

    def read_optimizers(self) -> None:
        """Set the step to the highest count that has changed; after a `fit`, add the largest increase to it instead."""
        before = self.read
        if uses_training() or self.fit() is not None:
            return
        counts = self.counts()
        with self.lock:
            if self.read is not before:  # a `fit` began in the meantime, and may already be over
                return
            self.read = counts
            if self.fitted:  # an optimizer's first count adds no steps: it may come from a checkpoint
                increase = max((count - count_of(reference(), before, count) for reference, count in counts), default=0)
                self.step = (self.step or 0) + increase
            elif changed := [one for one in counts if one[1] != count_of(one[0](), before, 0)]:
                self.shown = [max(changed, key=lambda one: one[1])]
                self.step = self.shown[0][1]

    def end(self) -> None:
        """At exit, end the thread, which could otherwise crash in TensorFlow's code, and send the last reports."""
        if not self.is_fork():
            self.end_requested.release()
            self.thread_lives.acquire(timeout=END_WITHIN)
            self.read_closures()
            if not self.coordinates:
                self.read_optimizers()
            if self.metrics is not None:
                self.metrics.send(0.0)
            self.send_step()

    def begin_fit(self, model: Any) -> None:
        """Start to count the batches of a `fit`. Earlier steps, and those of a restored optimizer, are included."""
        self.batch, self.epoch_began = -1, None
        if self.coordinates:
            return
        optimizer = getattr(model, "optimizer", None)
        count, new = steps_of(optimizer), [] if optimizer is None else [ref(optimizer)]
        with self.lock:
            if not any(reference() is optimizer for reference in self.fitted):
                self.step = (self.step or 0) + count - count_of(optimizer, self.shown, 0)
                self.fitted += new
            self.counted, self.read = self.step or 0, [*((reference, count) for reference in new), *self.read]

    def end_fit(self) -> None:
        """Read the optimizers' counts, so that the thread can later add the steps that are made after this `fit`."""
        if not self.coordinates:
            counts = self.counts()
            with self.lock:
                self.read, self.fit = counts, NO_REFERENCE
        self.read_closures()
        self.send_step()

    def begin_epoch(self, epoch: int, params: Any) -> None:
        """Compute the remaining steps of `fit`. If the epoch's length is unknown, assume that of the previous epoch."""
        self.batch = -1
        length = None if self.epoch_began is None else (self.step or 0) - self.epoch_began
        self.epoch_began, self.total = self.step, None
        try:
            steps: Any = params["steps"] or length
            self.left_in_fit = (int(params["epochs"]) - epoch) * int(steps)
        except (TypeError, ValueError, LookupError):  # the number of steps is unknown
            self.left_in_fit = None
        if self.step is not None:
            self.begin_total(self.step)

    def begin_total(self, step: int) -> None:
        """Compute the step at the end of `fit`, given the step at which the epoch begins."""
        if self.total is None and self.left_in_fit is not None:
            self.total = step + self.left_in_fit

    def end_batch(self, callbacks: Any, batch: int) -> None:
        """Count the epoch's batches up to number `batch`. With `steps_per_execution`, a call counts several batches."""
        batches, is_first, self.batch = max(batch - self.batch, 1), self.batch < 0, batch
        if self.coordinates:  # the batches have only been scheduled
            if self.closures is not None:
                self.closures.steps_each = batches
        else:
            if is_first:
                with self.lock:
                    self.fit, self.read = ref(callbacks), []
            self.counted += batches
            self.count(self.counted)

    def end_evaluation(self, model: Any) -> None:
        """Report the step of the evaluated weights: the optimizer's count, which was restored with the weights."""
        if (step := steps_of(getattr(model, "optimizer", None))) and not uses_training():
            self.step = step
            self.send_step()

    def read_closures(self) -> None:
        """Count the closures that have been finished since the last read."""
        if self.closures is not None and not self.is_fork():
            self.closures.read()


def sender() -> str:
    """Return members for reports that tell this process and its command line from other programs of the command."""
    import zlib

    line = "\0".join(sys.orig_argv).encode("utf-8", "surrogateescape")
    return f'"process":{os.getpid()},"program":{zlib.crc32(line)},'


def count_of(optimizer: Any, counts: Counts, default: int) -> int:
    """Return the optimizer's count in `counts`, or `default` if `counts` does not contain the optimizer."""
    return next((count for reference, count in counts if reference() is optimizer), default)


steps = Steps()


def uses_training() -> bool:
    """Return whether the program has imported `clusterkit.training`. Such a program reports the steps of its loops."""
    return "clusterkit.training" in sys.modules


def steps_of(optimizer: Any) -> int:
    """Return how many steps an optimizer has taken; 0 if the number is unknown."""
    try:  # `iterations` is not read, since Keras 2's legacy optimizers create that variable on the first access
        count = int(optimizer._iterations.numpy())
        return count if 0 <= count < MOST_STEPS else 0
    except Exception:  # a subclass in the program may raise anything
        return 0


def watch(module: Any, load: Any) -> None:
    """Patch Keras's callbacks and optimizers, or the coordinator, to count steps and report phases."""
    after: dict[str, Callable[..., Any]] = {
        "CallbackList.on_train_begin": lambda self, logs=None: steps.begin_fit(self.model),
        "CallbackList.on_epoch_begin": lambda self, epoch, logs=None: steps.begin_epoch(
            epoch, getattr(self, "params", None)
        ),
        "CallbackList.on_train_batch_end": lambda self, batch, logs=None: steps.end_batch(self, batch),
        "CallbackList.on_train_end": lambda self, logs=None: steps.end_fit(),
        "ClusterCoordinator.__init__": lambda self, *args, **kwargs: setattr(steps, "coordinates", True),
        **{f"{kind}.__init__": register for kind in ("BaseOptimizer", "_BaseOptimizer", "OptimizerV2")},
    }
    for method, phase in (("test", "evaluation"), ("predict", "prediction")):
        after[f"CallbackList.on_{method}_begin"] = lambda self, logs=None, phase=phase: steps.send_phase(phase, True)
        after[f"CallbackList.on_{method}_end"] = lambda self, logs=None, phase=phase: steps.send_phase(phase, False)
    load("task/patches/hook").watch(module, after)
    if hasattr(module, "ClusterCoordinator"):
        load("task/patches/closures").watch_steps(module, load)
    steps.unreported = steps.unreported or load("task/patches/unreported").Unreported(steps)
    load("task/patches/metrics").watch(module, load)  # afterwards, since metrics are reported with the newest step


def watch_evaluations(module: Any, load: Any) -> None:
    """Patch Keras's callbacks to report the step of the weights that an evaluator has evaluated."""
    hook = load("task/patches/hook")
    hook.after(module.CallbackList, "on_test_end", lambda self, logs=None: steps.end_evaluation(self.model))
    load("task/patches/metrics").watch_evaluations(module, load)


def register(optimizer: Any, *args: object, **kwargs: object) -> None:
    """Store a weak reference to a new optimizer, and start the thread that reads its steps."""
    if not any(reference() is optimizer for reference in steps.optimizers):
        steps.optimizers.append(ref(optimizer))
    if not steps.has_thread:
        steps.start_thread()
