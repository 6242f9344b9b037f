"""Reports metrics for programs that report none: Keras's logs, `tf.summary.scalar`, and results of closures.

This file imports only standard modules that entry.py has already imported. Reports cause no tracing and no computation.
Logs of batches may still be on a device, so they are read at most once a second; logs of epochs are always read.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterkit.task.patches.steps import Steps

EVERY = 1.0  # seconds; the minimum time between reports, except those of epochs
EPOCH_EVERY = 0.1  # seconds; the minimum average time between reports of epochs
EPOCHS_AT_ONCE = 50  # the maximum number of reports of epochs in quick succession
MOST, LONGEST_NAME = 30, 100  # metrics in a report, and bytes of a name: a report must fit into one atomic write
FRAMEWORKS = frozenset({"keras", "tf_keras"})


class Metrics:
    """Keeps the newest metrics until they are reported."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.unsent: dict[str, str] = {}  # maps the names of unsent metrics to values in JSON
        self.sent_at = 0.0
        self.epochs_until = 0.0  # limits the rate: each report of an epoch adds EPOCH_EVERY, and must not exceed now
        self.late: Any = None  # the last epoch's logs, if EPOCH_EVERY has prevented their report

    def keep(self, metrics: Any) -> None:
        """Store the scalars among these metrics for the next report."""
        if isinstance(metrics, dict) and not self.steps.is_fork():
            named = [(name, value) for name, value in list(metrics.items())[:MOST] if is_name(name)]
            numbers = {name: number for name, value in named if (number := as_json(value)) is not None}
            with self.steps.lock:
                self.unsent = dict(list({**self.unsent, **numbers}.items())[-MOST:])

    def send(self, every: float = EVERY) -> None:
        """Report the stored metrics with the newest step, unless metrics were reported in the last `every` seconds."""
        if not self.unsent or self.steps.is_fork():
            return
        self.steps.read_closures()
        with self.steps.lock:
            now = time.monotonic()
            if self.unsent and self.steps.step is not None and now - self.sent_at >= every:
                members = ",".join(f'"{name}":{number}' for name, number in self.unsent.items())
                self.unsent, self.sent_at = {}, now
                self.steps.report("metrics", f',"metrics":{{{members}}}')

    def send_logs(self, logs: Any) -> None:
        """Report the logs of `fit` at once, since the thread of steps.py would report them with a later step."""
        self.keep(logs)
        self.send(0.0)

    def begin_epoch(self) -> None:
        """Delay the next report by EVERY: the first logs of an epoch are means over few batches, and vary too much."""
        if self.sent_at:
            self.sent_at = time.monotonic()

    def end_batch(self, logs: Any) -> None:
        """Report the logs of a batch if a report is due, but not in a coordinator, which has no logs of batches."""
        if self.steps.counted_at - self.sent_at >= EVERY and not self.steps.coordinates:
            self.send_logs(logs)

    def end_epoch(self, logs: Any) -> None:
        """Report the epoch's logs, including those of validation, unless too many epochs have just been reported."""
        now = time.monotonic()
        used = max(self.epochs_until, now - EPOCHS_AT_ONCE * EPOCH_EVERY)
        if used > now - EPOCH_EVERY:
            self.late = logs
        else:
            self.late, self.epochs_until = None, used + EPOCH_EVERY
            self.send_logs(logs)

    def end_fit(self) -> None:
        """Report the last epoch's logs, unless `end_epoch` has reported them."""
        self.send_logs(self.late)
        self.late = None

    def summarize(self, name: Any, data: Any, *_: object, **__: object) -> None:
        """Store a number that the program writes for TensorBoard; ignore numbers that a callback of Keras writes."""
        if sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] not in FRAMEWORKS:
            self.keep({name: data})


def is_name(name: object) -> bool:
    """Return whether `name` can be the name of a reported metric: short, printable, and without escapes in JSON."""
    return (
        isinstance(name, str)
        and name.isprintable()
        and {*name}.isdisjoint('"\\')
        and len(name.encode()) <= LONGEST_NAME
    )


def as_json(value: Any) -> str | None:
    """Return a scalar in JSON ("null" for NaN and infinities); None for other objects, such as a graph's tensor."""
    try:
        if isinstance(value, str | bytes) or hasattr(value, "graph") or len(getattr(value, "shape", ())):
            return None
        number = float(value)
    except Exception:  # a program's object may raise anything
        return None
    return repr(number) if number - number == 0 else "null"


def metrics_of(load: Any) -> Metrics:
    """Return the Metrics of this process, which the first call creates."""
    steps = load("task/patches/steps").steps
    if steps.metrics is None:
        steps.metrics = Metrics(steps)
    metrics: Metrics = steps.metrics
    return metrics


def watch(module: Any, load: Any) -> None:
    metrics = metrics_of(load)
    after = {
        "CallbackList.on_epoch_begin": lambda self, epoch, logs=None: metrics.begin_epoch(),
        "CallbackList.on_train_batch_end": lambda self, batch, logs=None: metrics.end_batch(logs),
        "CallbackList.on_epoch_end": lambda self, epoch, logs=None: metrics.end_epoch(logs),
        "CallbackList.on_train_end": lambda self, logs=None: metrics.end_fit(),
    }
    load("task/patches/hook").watch(module, after)


def watch_evaluations(module: Any, load: Any) -> None:
    """Patch Keras's callbacks to report an evaluator's logs, with the step of the weights that were evaluated."""
    metrics = metrics_of(load)
    load("task/patches/hook").after(module.CallbackList, "on_test_end", lambda self, logs=None: metrics.send_logs(logs))


def watch_summaries(module: Any, load: Any) -> None:
    """Patch `tf.summary.scalar` to store the numbers that the program writes, for the next report."""
    load("task/patches/hook").after(module, "scalar", metrics_of(load).summarize)


def watch_fetches(module: Any, load: Any) -> None:
    """Patch `fetch` to store the numbers that a closure returns. A number without a name is reported as `returned`."""
    plain, metrics = module.RemoteValueImpl.fetch, metrics_of(load)

    def fetch(self: Any) -> Any:
        result = plain(self)
        if not metrics.steps.is_testing:  # the results of `evaluate` are not metrics of the training
            metrics.keep(result if isinstance(result, dict) else {"returned": result})
        return result

    load("task/patches/hook").replace(module.RemoteValueImpl, "fetch", fetch)
