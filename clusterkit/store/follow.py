"""Following a run: reading its files repeatedly until the run ends, also if its supervisor is killed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from clusterkit.store.directory import RunDirectory

LOOK_EVERY = 0.05  # seconds between two calls
T = TypeVar("T")


class Life:
    """Waits in a thread for the run's supervisor to release its lock, without involving the supervisor.

    Then it calls `continues`, which returns True when another supervisor has the run, and False if none will.
    """

    def __init__(self, run: RunDirectory, continues: Callable[[], bool] = lambda: False) -> None:
        self._run, self._continues = run, continues
        self._over = threading.Event()
        # A daemon, so that a command can exit before the run ends.
        threading.Thread(target=self._wait, name="life", daemon=True).start()

    def is_over(self, timeout: float | None = None) -> bool:
        """Wait for the end of the run, for at most `timeout` seconds, and return whether it has ended."""
        return self._over.wait(timeout)

    def _wait(self) -> None:
        try:
            self._run.wait_until_over()
            while self._continues():
                self._run.wait_until_over()
        finally:
            self._over.set()


def follow(
    read: Callable[[], T], is_over: Callable[[float], bool], every: float = LOOK_EVERY, timeout: float | None = None
) -> Iterator[T]:
    """Call `read` repeatedly until the run is over, and yield what it returns; the last call is after the end.

    `read` is for example `JournalReader(run, offset).new`. `is_over(seconds)`, such as `Life(run).is_over`, returns
    whether the run has ended; it waits up to `seconds` for that, and may return earlier to have `read` called sooner.
    Raises TimeoutError after `timeout` seconds.
    """
    until = math.inf if timeout is None else time.monotonic() + timeout
    over = False
    while True:
        yield read()
        if over:
            return
        left = until - time.monotonic()
        over = is_over(max(0.0, min(every, left)))
        if left <= 0 and not over:
            raise TimeoutError
