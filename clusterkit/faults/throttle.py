"""Slows tasks down by stopping them many times a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from signal import SIGCONT, SIGSTOP

from clusterkit.system.barrier import join, start_thread
from clusterkit.system.process import AttemptChild, signal_attempt, signal_group
from clusterkit.words.events import Crashed
from clusterkit.words.model import Task

PERIOD = 0.1  # seconds; in each period a slowed task first runs, and is then stopped for the rest of the period
ChildOf = Callable[[Task], AttemptChild | None]


class Throttle:
    """Slows tasks with one thread, which is started for the first slowed task and sleeps while no task is slowed.

    All signals to tasks go through `signal`, so that the throttle never resumes a task that another fault has stopped,
    and never signals a process that may have been reaped.

    A Poller is not used, since its waits are precise only to a millisecond, and a part of a period can be that short.
    """

    def __init__(self, child_of: ChildOf, post: Callable[[Crashed], None]) -> None:
        self.child_of = child_of
        self._post = post
        self._slowed: dict[int, dict[Task, float]] = {}  # the tasks of each fault and their shares, by fault number
        self._paused: set[Task] = set()  # tasks that `signal` has stopped; only `signal` resumes them
        self._stopped: set[Task] = set()  # tasks that the throttle has stopped
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def slow(self, number: int, tasks: Collection[Task], share: float) -> None:
        """Let these tasks run only for a share (0 to 1) of the time, in their current and later attempts."""
        with self._changed:
            self._slowed.setdefault(number, {}).update(dict.fromkeys(tasks, share))
            if self._thread is None:
                self._thread = start_thread("throttle", self._run, self._post)
            self._changed.notify()

    def heal(self, number: int) -> None:
        """End the fault with this number: its tasks run normally unless another fault slows them."""
        with self._changed:
            if self._slowed.pop(number, None) is not None:
                self._resume(self._stopped - self._shares().keys())

    def signal(self, task: Task, child: AttemptChild, number: int) -> None:
        """Signal the task's process group. Between SIGSTOP and SIGCONT the throttle leaves the task alone."""
        with self._changed:
            if number == SIGSTOP:
                self._paused.add(task)
            elif number == SIGCONT:
                self._paused.discard(task)
                self._stopped.discard(task)
            signal_attempt(child, number)

    def forget(self, task: Task) -> None:
        """Forget a task before its process is reaped; `child_of` must no longer return that process."""
        with self._changed:
            self._paused.discard(task)
            self._stopped.discard(task)

    def stop(self) -> None:
        """Resume every task that the throttle has stopped; end the thread."""
        with self._changed:
            self._is_stopping = True
            self._slowed.clear()
            self._resume(self._stopped)
            self._changed.notify()
        if self._thread is not None:
            join(self._thread)

    def _run(self) -> None:
        with self._changed:
            while not self._is_stopping:
                self._changed.wait(self._apply(time.monotonic()))

    def _apply(self, now: float) -> float | None:
        """Stop or resume each slowed task for the current part of the period; return the seconds until the next part.

        Periods begin at fixed times, so a late wake-up lengthens one part and shortens the next.
        """
        shares = self._shares()
        into = now % PERIOD
        for task, share in shares.items():
            if into < share * PERIOD:
                self._resume({task})
            else:
                self._stop(task)
        edges = [share * PERIOD for share in shares.values() if share * PERIOD > into]
        return min([*edges, PERIOD]) - into if shares else None

    def _shares(self) -> dict[Task, float]:
        """Return each slowed task's share of the time: the smallest share if several faults slow the task."""
        found: dict[Task, float] = {}
        for tasks in self._slowed.values():
            for task, share in tasks.items():
                found[task] = min(share, found.get(task, share))
        return found

    def _stop(self, task: Task) -> None:
        if task not in self._paused | self._stopped and (child := self.child_of(task)) is not None:
            self._stopped.add(task)
            signal_group(child, SIGSTOP)

    def _resume(self, tasks: Collection[Task]) -> None:
        for task in self._stopped.intersection(tasks):
            self._stopped.discard(task)
            if task not in self._paused and (child := self.child_of(task)) is not None:
                signal_group(child, SIGCONT)
