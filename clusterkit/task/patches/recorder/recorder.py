"""Records what a task computes, for `clusterkit exam`: variables after chosen steps, rows, state of callbacks, logs.

Recording does not change the program's results; errors of the recorder become notes in the record. In Keras's `fit`,
batches are counted as steps. In other loops, the optimizers' `iterations` are read after each outermost call of a
`tf.function`, of `Strategy.run` or of an optimizer. Without an optimizer, the steps are those that the program reports.
A coordinator's variables are read after `join` and at the end.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

CALLS = ("Function.__call__", "BaseOptimizer.apply", "Optimizer.apply_gradients", "OptimizerV2.apply_gradients")
HOLD = 1.5  # seconds; the length of a pause after a step, in which the exam can kill the task
NUDGE = "nudge"  # the word in CLUSTERKIT_RECORD_STEPS with which weights are nudged: see `Recorder.nudge`
EARLIER = 3  # the number of kept states, one of which is that before the first step if no optimizer counts it
TRIES = 20  # the number of calls before which all variables are read, in case the call makes the first step


class Recorder:
    """Counts the steps of this process, and records the variables after those steps that the exam has chosen."""

    def __init__(self, load: Any, steps: str) -> None:
        files = ("output", "rows", "state", "callbacks")
        self.output_file, self.rows, self.state, self.callbacks = (load(f"task/patches/recorder/{f}") for f in files)
        self.first_steps = load("task/patches/recorder/first_steps").FirstSteps(self.output_file, load)
        self.output, self.registry = self.output_file.output, self.state.registry
        self.due = self.output_file.steps_of(steps)
        self.held = self.output_file.held_of(steps, self.output.task)
        self.stop = self.output_file.stop_of(steps)
        self.last = self.output_file.last_of(steps)
        self.words = frozenset(steps.split(","))
        self.nudges = NUDGE in self.words
        following = load("task/patches/recorder/following")
        self.followed = self.output.guarded(
            "The other run is not followed", lambda: following.followed_of(steps, self.output.directory)
        )
        self.step = 0  # the newest step
        self.joined = 0  # the step at the coordinator's last `join`
        self.reported = 0  # the newest step that the program itself has reported
        self.has_begun = False  # True once a step has been completed
        self.by_reports = False  # True while steps are those that the program reports, since no optimizer counts any
        self.early_rows: list[list[str]] = []  # the rows of the steps that were counted by reports
        self.named = 0  # the newest step of which the record says by which number the program reports it
        self.tries = TRIES
        self.earlier: list[Any] = []  # the variables before the last calls, while there is no optimizer
        self.depth = 0  # the number of nested calls of patched TensorFlow functions in the main thread
        self.fits = False  # True while `fit` runs; its callbacks then count the steps
        self.fitted: list[Any] = []  # weak references to the optimizers that `fit` has used
        self.base = 0  # the difference between the step and the optimizer's count, which is constant during a `fit`
        self.batch = -1  # the last batch of the current epoch
        self.coordinates = False  # True if the program has a coordinator, so that other tasks compute the steps
        self.coordination: Any = None  # what has been recorded of the coordinator's functions and saves
        self.variables: list[Any] = []  # the current variables, kept alive until the end of the record
        self.is_done = False

    def outermost(self, call: Callable[[], Any]) -> Any:
        """Call a TensorFlow function. If it was an outermost call in the main thread, record the step that was made."""
        if self.depth or self.fits or self.coordinates or not is_eager_main():
            return call()
        before, values = self.output.guarded("Steps are not counted", self.observe) or ([], None)
        self.depth += 1
        try:
            result = call()
        finally:
            self.depth -= 1
        self.output.guarded("A step is not recorded", partial(self.compare, before, values))
        return result

    def observe(self) -> tuple[list[int], Any]:
        """Return the optimizers' counts and, if the next call may make the first step, the variables."""
        counts = self.registry.iterations()
        if self.has_begun or 0 not in self.due or self.tries <= 0:
            return counts, None
        self.tries -= 1
        values = self.registry.snapshot(lambda text: None)
        if not counts:
            self.earlier = [*self.earlier, values][-EARLIER:]
            return counts, None
        self.nudge()
        return counts, values

    def compare(self, before: list[int], values: Any) -> None:
        """Record a step if the optimizers' counts have changed since `observe` returned `before` and `values`."""
        after = self.registry.iterations()
        if sum(after) == sum(before):
            if not self.has_begun and len(self.registry.entries) != len(self.variables):
                self.keep()  # the program may have no optimizer, and report its first step later
            return
        begin, now = max(before, default=0), max(after)
        if self.by_reports:
            self.recount(begin)
        if not self.has_begun:
            self.step = begin
            if values:
                self.output.write_state("begin", begin, values)
            elif 0 in self.due:
                self.output.note("The variables before the first step are not recorded: they did not exist before it.")
        self.advance(now)
        if not self.reported:
            self.finish()

    def recount(self, step: int) -> None:
        """Count steps by the optimizer from now on: the steps reported so far, such as batches, were parts of one."""
        self.by_reports = False
        self.step = step
        self.output.write("recounted", step=step)
        self.rows.put_back(self.early_rows)
        self.early_rows = []

    def advance(self, now: int) -> None:
        """Record every step after the newest recorded step, up to the step `now`."""
        before, self.step = self.step, now
        if not self.has_begun:
            self.begin()
        for step, rows in self.rows.take(before, now) if now > before else ():
            self.output.write_rows(step, rows)
            if self.by_reports:
                self.early_rows.append(rows)
        if any(before < step <= now for step in self.due):
            self.record("step")
            self.follow()
            self.nudge()
        if self.stop is not None and now >= self.stop:
            self.first_steps.end_program(self)
        if not self.reported:
            self.hold(now)

    def finish(self) -> None:
        """End the program if the run has shown all that the exam compares.

        A program that reports its steps ends after the report, so that the supervisor has seen the step, too.
        """
        if self.last is not None and self.step >= self.last:
            self.first_steps.end_program(self)

    def follow(self) -> None:
        """Take over the variables that another run had after this step, if the exam asks for it."""
        if self.followed is None:
            return
        values = self.output.guarded("The other run is not followed", lambda: self.followed.values(self.step))
        if values and self.output.guarded("The other run is not followed", lambda: self.registry.take(values)):
            self.output.write("followed", step=self.step)

    def nudge(self) -> None:
        """Change all weights by a rounding error, if the exam asks how much rounding errors matter to the program."""
        if self.nudges:
            self.output.guarded("The weights are not nudged", self.registry.nudge)

    def hold(self, now: int) -> None:
        """Pause if the exam has requested a pause after a step up to `now`, so that the exam's signal arrives in time.

        If the program reports steps, `now` is the newest reported step, which is the one that the supervisor shows.
        """
        for step in sorted(step for step in self.held if step <= now):
            self.held -= {step}
            # An attempt after the fault does not pause again, which would only cost time.
            if self.output.is_first(f"held-{step}"):
                self.output.write("held", step=step)
                time.sleep(HOLD)

    def begin(self) -> None:
        """At the first step, register `end` again, so that it runs at exit before TensorFlow's own exit handlers."""
        self.has_begun = True
        self.output.guarded("The program's learning rates are not recorded", self.first_steps.record_rates)
        if self.stop is not None:
            self.output.guarded("The line of the first step is not recorded", self.first_steps.record_place)
        self.keep()
        atexit.unregister(self.end)
        atexit.register(self.end)

    def keep(self) -> None:
        """Keep the current variables alive, since the program's own references may end before the record does."""
        self.variables = []
        self.variables = [variable for _, variable in self.registry.living()]

    def record(self, moment: str) -> None:
        if self.output.is_open:
            self.output.write_state(moment, self.step, self.registry.snapshot(self.output.note))
            self.keep()

    def record_initial(self) -> None:
        """Record the variables before the first step, which only a report has shown: those before their last change."""
        now = self.state.weights_of(self.registry.snapshot(self.output.note))
        for values in reversed(self.earlier):
            before = self.state.weights_of(values)
            if before.keys() == now.keys() and any(before[name].tobytes() != now[name].tobytes() for name in now):
                self.output.write_values("initial", "initial", values)
                break
        self.earlier = []

    def record_callbacks(self, callbacks: Any) -> None:
        if values := self.callbacks.values_of(getattr(callbacks, "callbacks", ())):
            self.output.write("callbacks", step=self.step, values=values)

    def remove_writers(self, callbacks: Any) -> None:
        """Remove the callbacks that write files from a `fit` of --verify, which leaves nothing behind."""
        if self.stop is not None:
            callbacks.callbacks = self.callbacks.without_writers(callbacks.callbacks)

    def begin_fit(self, callbacks: Any) -> None:
        """Start to count the steps of a `fit`. Earlier steps, and those of a restored optimizer, are included."""
        self.fits = True
        if self.coordinates:
            return
        optimizer = getattr(callbacks.model, "optimizer", None)
        count = self.state.count_of(optimizer)
        fitted = self.state.alive(self.fitted)
        if fitted and fitted[-1] is optimizer:  # a second `fit` of the optimizer, which a callback may have restored
            self.step = max(self.step, self.base + count)
        elif optimizer is not None and not any(other is optimizer for other in fitted):
            self.fitted.append(self.state.ref(optimizer))
            self.step += count
        self.base = self.step - count
        if not self.has_begun:
            self.begin()
            if 0 in self.due:
                self.record("begin")
            self.nudge()
        self.keep()

    def end_batch(self, callbacks: Any, batch: int, logs: Any = None) -> None:
        """Record a step of `fit`, or several steps with `steps_per_execution`.

        The step is the optimizer's count, since a batch may be skipped. Without a count, each batch is a step.
        """
        batches, self.batch = max(batch - self.batch, 1), batch
        if self.coordinates:
            return
        before, count = self.step, self.state.count_of(getattr(callbacks.model, "optimizer", None))
        if self.stop is not None:
            self.output.write("batch-logs", step=before + batches, values=self.callbacks.numbers(dict(logs or {})))
        self.advance(self.base + count if count else before + batches)
        if any(before < step <= self.step for step in self.due):
            self.record_callbacks(callbacks)
        self.finish()

    def end_epoch(self, epoch: int, logs: Any) -> None:
        self.output.write("logs", epoch=epoch, step=self.step, values=self.callbacks.numbers(dict(logs or {})))

    def end_fit(self, callbacks: Any) -> None:
        self.fits = False
        self.record_callbacks(callbacks)

    def report(self, step: int) -> None:
        """Record a step that the program reports, unless optimizers count the steps."""
        self.reported = int(step)
        self.hold(self.reported)
        if self.coordinates:
            self.step = int(step)  # if there is an optimizer, `join` and `record_end` set its count instead
        elif not self.fits and not any(self.registry.iterations()):
            self.by_reports = True
            if not self.has_begun:
                self.output.guarded("The variables before the first step are not recorded", self.record_initial)
            self.advance(int(step))
        if self.step > self.named and self.step != self.reported:
            self.named = self.step
            self.output.write("reported", step=self.step, number=self.reported)
        if not self.coordinates and not self.fits:
            self.finish()

    def coordinate(self) -> None:
        self.coordinates = True

    def join(self) -> None:
        self.step = max([0, *self.registry.iterations()]) or self.step
        before, self.joined = self.joined, self.step
        if not self.has_begun:
            self.begin()
        if any(before < step <= self.step for step in self.due):
            self.record("step")
        elif self.step > before:
            self.keep()

    def end(self) -> None:
        """Record the final state at exit, while TensorFlow still works."""
        if self.is_done or not self.output.is_open:
            return
        self.is_done = True
        self.output.guarded("The end is not recorded", self.record_end)
        self.variables = []

    def record_end(self) -> None:
        """Record the final variables, unless a coordinator has failed: reads from parameter servers could then hang."""
        if self.coordinates:
            self.output.note("No rows are recorded: the steps of a coordinator are computed by other tasks.")
            if getattr(sys, "last_value", None) is not None:
                self.output.note("The end is not recorded: the coordinator has ended by an exception.")
                return
            self.step = max([0, *self.registry.iterations()]) or self.step
            if self.coordination is not None:
                self.coordination.end()
        elif not self.has_begun:
            self.output.note("No steps were seen. The program may report them: clusterkit.training.report(step).")
            for step, rows in self.rows.take(0, 1):
                self.output.write_rows(step, rows)
        else:
            self.end_step()
            if not self.output.rows:
                self.output.note("No rows are recorded: no training step was computed by Strategy.run.")
        self.output.guarded("The precision is not recorded", self.first_steps.record_precision)
        self.record("end")

    def end_step(self) -> None:
        """Count a last step that `compare` or `end_batch` has missed because the program ended, as in a callback."""
        if self.fits:
            counts = [self.base + self.state.count_of(optimizer) for optimizer in self.state.alive(self.fitted[-1:])]
        else:
            counts = [] if self.fitted else self.registry.iterations()
        if (now := max(counts, default=0)) > self.step:
            self.advance(now)


def is_eager_main() -> bool:
    threading, context = sys.modules["threading"], sys.modules["tensorflow.python.eager.context"]
    return bool(threading.get_ident() == threading.main_thread().ident and context.executing_eagerly())


_recorders: list[Recorder] = []


def recorder_of(load: Any) -> Recorder:
    """Return the recorder of this process, which the first call creates."""
    if not _recorders:
        _recorders.append(Recorder(load, os.environ.get("CLUSTERKIT_RECORD_STEPS", "")))
        atexit.register(_recorders[0].end)
    return _recorders[0]


def watch(module: Any, load: Any) -> None:
    """Patch the classes and functions of a module whose calls make steps or report steps."""
    hook, recorder = load("task/patches/hook"), recorder_of(load)

    def guarded(call: Callable[..., object]) -> Callable[..., None]:
        return lambda *args, **kwargs: recorder.output.guarded(
            "A moment is not recorded", partial(call, *args, **kwargs)
        )

    after: dict[str, Callable[..., object]] = {
        "CallbackList.__init__": lambda self, *args, **kwargs: recorder.remove_writers(self),
        "CallbackList.on_train_begin": lambda self, logs=None: recorder.begin_fit(self),
        "CallbackList.on_epoch_begin": lambda self, epoch, logs=None: setattr(recorder, "batch", -1),
        "CallbackList.on_train_batch_end": lambda self, batch, logs=None: recorder.end_batch(self, batch, logs),
        "CallbackList.on_epoch_end": lambda self, epoch, logs=None: recorder.end_epoch(epoch, logs),
        "CallbackList.on_train_end": lambda self, logs=None: recorder.end_fit(self),
        "ClusterCoordinator.__init__": lambda self, *args, **kwargs: recorder.coordinate(),
        "ClusterCoordinator.join": lambda self: recorder.join(),
        **{
            f"{kind}.__init__": partial(register, recorder)
            for kind in ("BaseOptimizer", "_BaseOptimizer", "OptimizerV2")
        },
    }
    hook.watch(module, {path: guarded(call) for path, call in after.items()})
    if hasattr(module, "_CoordinatedClosureQueue"):
        load("task/patches/recorder/coordination").watch(module, load, recorder)
    if hasattr(module, "CheckpointMismatch"):
        load("task/patches/recorder/coordination").watch_checkpointer(module, load)
    if hasattr(module, "ProgressChannel"):
        hook.after(module, "report", guarded(lambda step, **metrics: recorder.report(step)))
    for path in CALLS:
        kind, _, method = path.partition(".")
        if hasattr(module, kind) and method in vars(getattr(module, kind)):
            count_calls(hook, recorder, getattr(module, kind), method)


def count_calls(hook: Any, recorder: Recorder, kind: Any, method: str) -> None:
    """Patch a method to record the steps that its calls make (see `Recorder.outermost`)."""
    plain = getattr(kind, method)
    hook.replace(kind, method, lambda *args, **kwargs: recorder.outermost(partial(plain, *args, **kwargs)))


def register(recorder: Recorder, optimizer: Any, *args: object, **kwargs: object) -> None:
    """Store a weak reference to an optimizer that the program creates."""
    if not any(other is optimizer for other in recorder.state.alive(recorder.registry.optimizers)):
        recorder.registry.optimizers.append(recorder.state.ref(optimizer))
