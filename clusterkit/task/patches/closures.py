"""Reports how long each of a coordinator's workers takes for a step.

Loaded by path: standard library only, and no module that entry.py has not imported. A step counts for the worker that
finished it, from the moment when its thread took the closure; one that a lost worker gave back does not count.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable
from typing import Any

EVERY = 2.0  # seconds between two reports, at least
MOST = 100  # workers in one report, so that one write suffices


class Times:
    """Adds up the times of the steps; `write` sends a report, given its kind and fields."""

    def __init__(self, write: Callable[[str, str], None]) -> None:
        self.write = write
        self.lock = _thread.allocate_lock()  # each worker has a thread of its own
        self.here = _thread._local()  # each thread's worker, and when its step began
        self.workers: dict[int, tuple[int, float]] = {}
        self.sent_at = time.monotonic()

    def begin(self, worker: Any, *_: object) -> None:
        """Start the time of this thread's step: a worker has taken a closure."""
        self.here.worker, self.here.begun = worker.worker_index, time.monotonic()

    def end(self, *_: object) -> None:
        """Count this thread's step, whose closure is finished."""
        worker, ended = getattr(self.here, "worker", None), time.monotonic()
        if not isinstance(worker, int):
            return
        reports: list[str] = []
        with self.lock:
            now = time.monotonic()  # another thread may have reported while this one waited
            count, seconds = self.workers.get(worker, (0, 0.0))
            self.workers[worker] = (count + 1, seconds + ended - self.here.begun)
            if now - self.sent_at >= EVERY:
                reports, self.workers, self.sent_at = reports_of(self.workers), {}, now
        for report in reports:
            self.write("workers", report)


def reports_of(workers: dict[int, tuple[int, float]]) -> list[str]:
    """Return the fields of the reports on these workers' counts and seconds."""
    fields = [f'"{worker}":[{count},{seconds:.6f}]' for worker, (count, seconds) in sorted(workers.items())]
    return [f'"workers":{{{",".join(fields[first : first + MOST])}}}' for first in range(0, len(fields), MOST)]


def watch(module: Any, load: Any) -> None:
    """Patch the coordinator to measure the closures that its workers finish."""
    hook, times = load("task/patches/hook"), Times(load("task/patches/steps").steps.write)
    hook.before(module.Worker, "_process_closure", times.begin)
    hook.after(module._CoordinatedClosureQueue, "mark_finished", times.end)
