"""Reports how many seconds each worker of a coordinator takes for a step.

This file imports only standard modules that entry.py has already imported. A step lasts from the moment when a worker's
thread takes a closure until the closure is finished. Closures that are returned to the queue because a worker was lost
are not counted.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable
from typing import Any

EVERY = 2.0  # seconds; the minimum time between two reports
MOST = 100  # the maximum number of workers in one report, which must fit into one atomic write


class ClosureTimes:
    """Adds up the durations of each worker's steps. `write(kind, fields)` sends a report."""

    def __init__(self, write: Callable[[str, str], None]) -> None:
        self.write = write
        self.lock = _thread.allocate_lock()  # the coordinator has a thread for each worker
        self.here = _thread._local()  # the worker of the current thread, and the time when the worker's step began
        self.workers: dict[int, tuple[int, float]] = {}  # maps a worker's index to its steps' count and total seconds
        self.sent_at = time.monotonic()

    def begin(self, worker: Any, *_: object) -> None:
        """Record that the worker of this thread begins a step, since the thread has taken a closure."""
        self.here.worker, self.here.begun = worker.worker_index, time.monotonic()

    def end(self, *_: object) -> None:
        """Record that this thread's closure is finished, and send a report if one is due."""
        worker, ended = getattr(self.here, "worker", None), time.monotonic()
        if not isinstance(worker, int):
            return
        reports: list[str] = []
        with self.lock:
            now = time.monotonic()  # read again: another thread may have sent a report while this thread waited
            count, seconds = self.workers.get(worker, (0, 0.0))
            self.workers[worker] = (count + 1, seconds + ended - self.here.begun)
            if now - self.sent_at >= EVERY:
                reports, self.workers, self.sent_at = reports_of(self.workers), {}, now
        for report in reports:
            self.write("workers", report)


def reports_of(workers: dict[int, tuple[int, float]]) -> list[str]:
    """Return the JSON fields of one or more reports, each with the counts and seconds of at most MOST workers."""
    fields = [f'"{worker}":[{count},{seconds:.6f}]' for worker, (count, seconds) in sorted(workers.items())]
    return [f'"workers":{{{",".join(fields[first : first + MOST])}}}' for first in range(0, len(fields), MOST)]


def watch(module: Any, load: Any) -> None:
    """Patch the coordinator to measure how long each closure takes."""
    hook, times = load("task/patches/hook"), ClosureTimes(load("task/patches/steps").steps.write)
    hook.before(module.Worker, "_process_closure", times.begin)
    hook.after(module._CoordinatedClosureQueue, "mark_finished", times.end)
