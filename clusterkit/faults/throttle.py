"""The throttle: lets tasks run for a share of the time, by stopping them and letting them go on many times a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from signal import SIGCONT, SIGSTOP

from clusterkit.system.barrier import join, start_thread
from clusterkit.system.process import Child, signal_attempt, signal_group
from clusterkit.words.events import Crashed
from clusterkit.words.model import Task

PERIOD = 0.1  # seconds; in each one a slowed task runs first, and is stopped for the rest
ChildOf = Callable[[Task], Child | None]


class Throttle:
    """One thread for all slowed tasks, made when the first one is. It sleeps while none is slowed.

    Whatever signals a task goes through here, so that nobody lets a task go on that another one has stopped, and no
    signal is sent once the process may have been reaped.
    """

    def __init__(self, child_of: ChildOf, post: Callable[[Crashed], None]) -> None:
        self._child_of = child_of
        self._post = post
        self._slowed: dict[int, dict[Task, float]] = {}  # a fault's number to its tasks' shares
        self._held: set[Task] = set()  # stopped by others, who let them go on
        self._stopped: set[Task] = set()  # stopped here
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._over = False

    def slow(self, number: int, tasks: Collection[Task], share: float) -> None:
        """Let these tasks run for that share (0 to 1) of the time: their present attempts, and later ones."""
        with self._changed:
            self._slowed.setdefault(number, {}).update(dict.fromkeys(tasks, share))
            if self._thread is None:
                self._thread = start_thread("throttle", self._run, self._post)
            self._changed.notify()

    def heal(self, number: int) -> None:
        """The tasks that this number slowed are slowed by it no more."""
        with self._changed:
            if self._slowed.pop(number, None) is not None:
                self._let_run(self._stopped - self._shares().keys())

    def signal(self, task: Task, child: Child, number: int) -> None:
        """Signal the task's group; from SIGSTOP to SIGCONT the task is left alone here."""
        with self._changed:
            if number == SIGSTOP:
                self._held.add(task)
            elif number == SIGCONT:
                self._held.discard(task)
                self._stopped.discard(task)
            signal_attempt(child, number)

    def forget(self, task: Task) -> None:
        """The task's process is about to be reaped, and `child_of` does not know it any more."""
        with self._changed:
            self._held.discard(task)
            self._stopped.discard(task)

    def stop(self) -> None:
        """Let every task go on that was stopped here, and end the thread."""
        with self._changed:
            self._over = True
            self._slowed.clear()
            self._let_run(set(self._stopped))
            self._changed.notify()
        if self._thread is not None:
            join(self._thread)

    def _run(self) -> None:
        with self._changed:
            while not self._over:
                self._changed.wait(self._turn(time.monotonic()))

    def _turn(self, now: float) -> float | None:
        """Stop and let run what has to be so at this moment; return for how many seconds it stays so.

        Periods begin at fixed moments, so that a late wake-up, which makes one part longer, makes the next shorter.
        """
        shares = self._shares()
        into = now % PERIOD
        for task, share in shares.items():
            if into < share * PERIOD:
                self._let_run({task})
            else:
                self._stop(task)
        edges = [share * PERIOD for share in shares.values() if share * PERIOD > into]
        return min([*edges, PERIOD]) - into if shares else None

    def _shares(self) -> dict[Task, float]:
        """What each slowed task may run; the smallest share where several faults slow it."""
        found: dict[Task, float] = {}
        for tasks in self._slowed.values():
            for task, share in tasks.items():
                found[task] = min(share, found.get(task, share))
        return found

    def _stop(self, task: Task) -> None:
        child = None if task in self._held | self._stopped else self._child_of(task)
        if child is not None:
            self._stopped.add(task)
            signal_group(child, SIGSTOP)

    def _let_run(self, tasks: Collection[Task]) -> None:
        for task in tasks:
            if task not in self._stopped:
                continue
            self._stopped.discard(task)
            child = None if task in self._held else self._child_of(task)
            if child is not None:
                signal_group(child, SIGCONT)
