"""Reports the steps of a program that reports none: of Keras's `fit`, a coordinator's closures, or other loops.

Loaded by path: standard library only, and no module that entry.py has not imported. It sends the same reports as
`clusterkit.training.report`, until the program calls that. Training never waits for it: the batches of `fit` and
closures are counted in Python, and for other loops a thread reads the `iterations` of optimizers. With a coordinator
they are read only once, before its first closure: they are on a parameter server, which can hang. A step has one
counter at a time: once a batch of `fit` is counted the thread reads nothing, since optimizers are ahead of callbacks.
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
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterkit.task.patches.metrics import Metrics

Counts = list[tuple[Callable[[], Any], int]]  # of optimizers, by weak references
NONE = type(None)  # called, it makes None as a weak reference to what is gone

POLL_EVERY = 0.25  # seconds between two reads of the optimizers
REPORT_EVERY = 0.1  # seconds between two reports of `count`, at least: a write releases the interpreter lock
END_WITHIN = 1.0  # seconds that the interpreter waits for the thread at exit


class Steps:
    """Counts and reports the steps of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.path = os.environ.get("CLUSTERKIT_PROGRESS")
        self.attempt = os.environ.get("CLUSTERKIT_ATTEMPT", "1")
        self.lock = _thread.RLock()  # for what several threads do; a signal handler may take it again
        self.step: int | None = None  # the newest
        self.sent: int | None = None  # the last that was reported
        self.counted_at = self.sent_at = 0.0
        self.fit: Callable[[], Any] = NONE  # a weak reference to the callbacks of the `fit` that is running
        self.counted = 0  # the step by the batches of `fit`, whatever the thread reads
        self.batch = -1  # the last one of this epoch of `fit`
        self.left: int | None = None  # steps from the beginning of this epoch to the end of `fit`, if Keras knows
        self.epoch_began: int | None = None  # the step at which this epoch began
        self.total: int | None = None  # steps at the end of `fit`
        self.optimizers: list[Callable[[], Any]] = []  # weak references
        self.fitted: list[Callable[[], Any]] = []  # weak references to the optimizers that `fit` has used
        self.read: Counts = []  # the last counts
        self.shown: Counts = []  # the one that was the step before the first `fit`
        self.coordinates = False  # whether the program has a coordinator
        self.base: int | None = None  # the step at which the coordinator began
        self.finished = itertools.count(1)  # closures; thread-safe
        self.steps_per_closure = 1  # more with `steps_per_execution`
        self.is_testing = False  # `evaluate` or `predict` is running, whose closures are not steps
        self.metrics: Metrics | None = None  # which are reported with the steps
        self.unreported: Any = None  # notices a program that reports no step of its own
        self.has_thread = False
        self.end_requested = _thread.allocate_lock()  # released at exit
        self.thread_lives = _thread.allocate_lock()  # held by the thread

    def count(self, step: int) -> None:
        """Record a step, and report it unless another has just been reported."""
        self.step, now = step, time.monotonic()
        self.counted_at = now
        if now - self.sent_at >= REPORT_EVERY:
            self.send_step()
        if not self.has_thread:
            self.start_thread()

    def send_step(self) -> None:
        """Report the newest step, unless it has been reported. Before the first one there is nothing to report."""
        if not self.is_fork():
            with self.lock:
                if self.step and self.step != self.sent:
                    self.report("progress")

    def report(self, kind: str, more: str = "") -> None:
        """Report the newest step, with more members of a JSON object; under the lock, to keep reports in order."""
        self.sent, self.sent_at = self.step, time.monotonic()
        total = "" if self.total is None else f',"total":{self.total}'
        self.send(kind, f'"step":{self.sent}{total}{more}')

    def is_fork(self) -> bool:
        """Whether this is a fork of the task's process, where the lock may be a copy that nobody releases."""
        return os.getpid() != self.pid

    def send_phase(self, name: str, begun: bool) -> None:
        """Report the begin or end of an evaluation or a prediction, in which no steps are made."""
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
        with suppress(OSError):  # the pipe is full or the supervisor is gone, which must not stop the training
            pipe = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(pipe, f'{{"kind":"{kind}","attempt":{self.attempt},{fields}}}\n'.encode())
            finally:
                os.close(pipe)

    def start_thread(self) -> None:
        """Start the thread that reads the optimizers, once, even if several threads call this at the same time."""
        with self.lock:
            if self.has_thread:
                return
            self.has_thread = True
        if self.path is not None and not self.is_fork():
            self.end_requested.acquire()
            self.thread_lives.acquire()
            # Why not `threading`: the program would see the thread there.
            _thread.start_new_thread(self.watch, ())
            atexit.register(self.end)

    def watch(self) -> None:
        """In the thread: read the optimizers while nothing else counts steps, and send delayed reports."""
        try:
            while not self.end_requested.acquire(timeout=POLL_EVERY):
                if not self.coordinates and time.monotonic() - self.counted_at > POLL_EVERY:
                    self.read_optimizers()
                if self.unreported is not None and uses_training():
                    self.unreported.look()
                if self.metrics is not None:
                    self.metrics.send()
                self.send_step()
        finally:
            self.thread_lives.release()

    def counts(self) -> Counts:
        """Read the optimizers that still exist and have steps."""
        return [(known, count) for known in self.optimizers if (count := steps_of(known()))]

    def read_optimizers(self) -> None:
        """Set the step to the highest count of those that have made a step; after a `fit`, add what they have made."""
        before = self.read
        if uses_training() or self.fit() is not None:
            return
        counts = self.counts()
        with self.lock:
            if self.read is not before:  # a `fit` began meanwhile, and may be over
                return
            self.read = counts
            if self.fitted:  # the first count of an optimizer may have been loaded with it
                made = max((count - count_of(known(), before, count) for known, count in counts), default=0)
                self.step = (self.step or 0) + made
            elif moved := [one for one in counts if one[1] != count_of(one[0](), before, 0)]:
                self.shown = [max(moved, key=lambda one: one[1])]
                self.step = self.shown[0][1]

    def end(self) -> None:
        """End the thread at exit, since it would crash in TensorFlow's code while the interpreter shuts down."""
        if not self.is_fork():
            self.end_requested.release()
            self.thread_lives.acquire(timeout=END_WITHIN)
            if not self.coordinates:
                self.read_optimizers()
            if self.metrics is not None:
                self.metrics.send(0.0)
            self.send_step()

    def begin_fit(self, model: Any) -> None:
        """Start to count after the steps of earlier fits, and those that a new optimizer was restored to."""
        self.batch, self.epoch_began = -1, None
        if self.coordinates:
            return
        optimizer = getattr(model, "optimizer", None)
        made, new = steps_of(optimizer), [] if optimizer is None else [ref(optimizer)]
        with self.lock:
            if not any(known() is optimizer for known in self.fitted):
                self.step = (self.step or 0) + made - count_of(optimizer, self.shown, 0)
                self.fitted += new
            self.counted, self.read = self.step or 0, [*((known, made) for known in new), *self.read]

    def end_fit(self) -> None:
        """Have the optimizers read again, for what they will have made since now."""
        if not self.coordinates:
            counts = self.counts()
            with self.lock:
                self.read, self.fit = counts, NONE
        self.send_step()

    def begin_epoch(self, epoch: int, params: Any) -> None:
        """Record how many steps are left. If Keras does not know, an epoch has as many as the one before it."""
        self.batch = -1
        made = None if self.epoch_began is None else (self.step or 0) - self.epoch_began
        self.epoch_began, self.total = self.step, None
        try:
            steps: Any = params["steps"] or made
            self.left = (int(params["epochs"]) - epoch) * int(steps)
        except (TypeError, ValueError, LookupError):  # Keras does not know
            self.left = None
        if self.step is not None:
            self.begin_total(self.step)

    def begin_total(self, step: int) -> None:
        """Record how many steps `fit` makes in all, given the step at which the epoch begins."""
        if self.total is None and self.left is not None:
            self.total = step + self.left

    def end_batch(self, callbacks: Any, batch: int) -> None:
        """Count the batches of the epoch up to this one; with `steps_per_execution` there are several at once."""
        made, is_first, self.batch = max(batch - self.batch, 1), self.batch < 0, batch
        if self.coordinates:  # the batches are only scheduled
            self.steps_per_closure = made
        else:
            if is_first:
                with self.lock:
                    self.fit, self.read = ref(callbacks), []
            self.counted += made
            self.count(self.counted)

    def end_evaluation(self, model: Any) -> None:
        """Report the step of the weights that an evaluator has evaluated, from its restored optimizer."""
        if (step := steps_of(getattr(model, "optimizer", None))) and not uses_training():
            self.step = step
            self.send_step()

    def begin_closures(self) -> None:
        """Before the coordinator schedules its first closure, read the step at which it begins."""
        if self.base is None:
            self.base = max((count for _, count in self.counts()), default=0)

    def end_closure(self) -> None:
        """Count a closure that was executed."""
        if uses_training() and self.unreported is not None:
            self.unreported.closures += not self.is_testing
        elif not self.is_testing and not uses_training():
            self.begin_total(self.step or self.base or 0)
            with self.lock:  # several threads finish closures; the newest step is the highest
                self.count((self.base or 0) + next(self.finished) * self.steps_per_closure)


def count_of(optimizer: Any, counts: Counts, default: int) -> int:
    """Return the count of an optimizer, or the default if it is not among these."""
    return next((count for known, count in counts if known() is optimizer), default)


steps = Steps()


def uses_training() -> bool:
    """Whether the program has imported `clusterkit.training`; its own loops then report their steps, as they count."""
    return "clusterkit.training" in sys.modules


def steps_of(optimizer: Any) -> int:
    """Return how many steps an optimizer has made; 0 if it does not count them."""
    try:  # why not `iterations`: Keras 2's older optimizers create that variable when it is first read
        return int(optimizer._iterations.numpy())
    except Exception:  # a subclass of the program's may raise anything
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
        "_CoordinatedClosureQueue.mark_finished": lambda queue: steps.end_closure(),
        "ClusterCoordinator.__init__": lambda self, *args, **kwargs: setattr(steps, "coordinates", True),
        **{f"{kind}.__init__": register for kind in ("BaseOptimizer", "_BaseOptimizer", "OptimizerV2")},
    }
    for method, phase in (("test", "evaluation"), ("predict", "prediction")):
        after[f"CallbackList.on_{method}_begin"] = lambda self, logs=None, phase=phase: steps.send_phase(phase, True)
        after[f"CallbackList.on_{method}_end"] = lambda self, logs=None, phase=phase: steps.send_phase(phase, False)
    before = {"ClusterCoordinator.schedule": lambda self, *args, **kwargs: steps.begin_closures()}
    load("task/patches/hook").watch(module, after, before)
    steps.unreported = steps.unreported or load("task/patches/unreported").Unreported(steps)
    load("task/patches/metrics").watch(module, load)  # afterwards, since they are reported with the steps


def watch_evaluations(module: Any, load: Any) -> None:
    """Patch Keras's callbacks to report the step that an evaluator has evaluated."""
    hook = load("task/patches/hook")
    hook.after(module.CallbackList, "on_test_end", lambda self, logs=None: steps.end_evaluation(self.model))
    load("task/patches/metrics").watch_evaluations(module, load)


def register(optimizer: Any, *args: object, **kwargs: object) -> None:
    """Keep a weak reference to an optimizer that the program creates."""
    if not any(made() is optimizer for made in steps.optimizers):
        steps.optimizers.append(ref(optimizer))
    if not steps.has_thread:
        steps.start_thread()
