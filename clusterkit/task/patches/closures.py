"""Counts the closures that a coordinator's workers finish, and measures the time that each worker takes for them.

This file imports only standard modules that entry.py has already imported. A closure that fails, or that goes
back to the queue because its worker was lost, does not count. Each Python call that a patch adds to a closure
takes some microseconds if all cores are busy. So only the function that runs a closure is patched: the patch stores the
time of the closure in a queue, which is read ten times a second.
"""

from __future__ import annotations

import _thread
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterkit.task.patches.steps import Steps

READ_EVERY = 0.1  # seconds; the minimum time between reads of the queue by the workers' threads
TIMES_EVERY = 2.0  # seconds; the minimum time between reports of the workers' times
MOST = 100  # the maximum number of workers in one report, which must fit into one atomic write


class Closures:
    """The finished closures of this process's coordinator."""

    def __init__(self, steps: Steps, uses_training: Callable[[], bool]) -> None:
        self.steps = steps
        self.uses_training = uses_training  # returns whether the program reports the steps of its loops itself
        self.counts = False  # True if closures count as steps, since the program's output shows no steps
        self.times: ClosureTimes | None = None  # None if the workers' times are not reported
        self.base: int | None = None  # the step before the first closure
        self.finished = 0  # the number of finished closures that count as steps
        self.steps_each = 1  # the number of steps in a closure; greater than 1 with `steps_per_execution`
        self.queue = deque[tuple[Any, float]]()  # pairs for unread closures: the worker's index, and the duration
        self.unfinished = set[int]()  # the threads whose current closure has failed or gone back to the queue
        self.lock = _thread.RLock()  # held while the queue is read; reentrant for signal handlers
        self.due = 0.0  # the time after which the next finished closure causes a read

    def begin(self, *_: object, **__: object) -> None:
        """Read the optimizers' step before the coordinator schedules its first closure."""
        if self.base is None:
            self.base = max((count for _, count in self.steps.counts()), default=0)

    def fail(self, *_: object, **__: object) -> None:
        """Record that this thread's closure has failed or gone back to the queue."""
        self.unfinished.add(_thread.get_ident())

    def timed(self, plain: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        """Return a patched version of `plain`, TensorFlow's method that runs a closure on a worker."""
        queue, unfinished = self.queue, self.unfinished

        def process(worker: Any, closure: Any) -> None:
            began = time.monotonic()
            plain(worker, closure)
            ended = time.monotonic()
            if unfinished and (thread := _thread.get_ident()) in unfinished:
                unfinished.discard(thread)
                return
            queue.append((worker.worker_index, ended - began))
            if ended >= self.due:
                self.read()

        return process

    def read(self) -> None:
        """Read the queue: count the closures, and report the workers' times if that is due."""
        with self.lock:
            read = [self.queue.popleft() for _ in range(len(self.queue))]
            if read and self.counts:
                self.count(len(read))
            if read and self.times is not None:
                self.times.add(read)
            self.due = time.monotonic() + READ_EVERY

    def count(self, number: int) -> None:
        """Count this number of finished closures as steps, unless they belong to an evaluation or a prediction."""
        steps = self.steps
        if steps.is_testing:
            return
        self.finished += number
        if not self.uses_training():
            steps.begin_total(steps.step or self.base or 0)
            with steps.lock:
                steps.count((self.base or 0) + self.finished * self.steps_each)


class ClosureTimes:
    """Adds up the durations of each worker's closures. `write(kind, fields)` sends a report."""

    def __init__(self, write: Callable[[str, str], None]) -> None:
        self.write = write
        self.workers: dict[int, tuple[int, float]] = {}  # maps a worker's index to its closures' count and seconds
        self.sent_at = time.monotonic()

    def add(self, closures: list[tuple[Any, float]]) -> None:
        """Add closures, given as pairs (the worker's index, seconds). Send a report if it is due."""
        for worker, seconds in closures:
            if isinstance(worker, int):
                count, total = self.workers.get(worker, (0, 0.0))
                self.workers[worker] = (count + 1, total + seconds)
        if (now := time.monotonic()) - self.sent_at >= TIMES_EVERY:
            reports, self.workers, self.sent_at = reports_of(self.workers), {}, now
            for report in reports:
                self.write("workers", report)


def reports_of(workers: dict[int, tuple[int, float]]) -> list[str]:
    """Return the JSON fields of one or more reports, each with the counts and seconds of at most MOST workers."""
    fields = [f'"{worker}":[{count},{seconds:.6f}]' for worker, (count, seconds) in sorted(workers.items())]
    return [f'"workers":{{{",".join(fields[first : first + MOST])}}}' for first in range(0, len(fields), MOST)]


def watched(module: Any, load: Any) -> Closures:
    """Return the Closures of this process. The first call patches the coordinator's module."""
    steps, hook = load("task/patches/steps").steps, load("task/patches/hook")
    closures: Closures | None = steps.closures
    if closures is None:
        closures = steps.closures = Closures(steps, load("task/patches/steps").uses_training)
        hook.replace(module.Worker, "_process_closure", closures.timed(module.Worker._process_closure))
        for name in ("put_back", "mark_failed"):
            hook.before(module._CoordinatedClosureQueue, name, closures.fail)
    return closures


def watch_steps(module: Any, load: Any) -> None:
    """Patch the coordinator to count its closures as steps."""
    closures = watched(module, load)
    closures.counts = True
    load("task/patches/hook").watch(module, {}, first_calls={"ClusterCoordinator.schedule": closures.begin})


def watch_times(module: Any, load: Any) -> None:
    """Patch the coordinator to report the times of its workers."""
    closures = watched(module, load)
    closures.times = closures.times or ClosureTimes(closures.steps.write)
