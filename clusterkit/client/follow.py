"""Following a run: its files are read again and again until it is over, whoever ends it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from clusterkit.client.directory import RunDirectory

LOOK_EVERY = 0.05  # seconds between two looks
T = TypeVar("T")


class Life:
    """The life of a run: a thread that waits for the lock of its supervisor. Costs the supervisor nothing."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._over = threading.Event()
        # A daemon: a command that ends before the run does not wait for it.
        threading.Thread(target=self._wait, name="life", daemon=True).start()

    def is_over(self, timeout: float | None = None) -> bool:
        """Whether the run is over, `timeout` seconds from now or sooner. What it wrote before is in its files then."""
        return self._over.wait(timeout)

    def _wait(self) -> None:
        try:
            self._run.wait_until_over()
        finally:
            self._over.set()


def follow(
    read: Callable[[], T], is_over: Callable[[float], bool], every: float = LOOK_EVERY, timeout: float | None = None
) -> Iterator[T]:
    """What `read` returns at each look, until the run is over: the last look is after the end, and sees everything.

    `read` is for example `JournalReader(run, offset).new`. `is_over` waits for the given seconds, or less where the
    next look is to be sooner, and says whether the run is over, as `Life(run).is_over` does.
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
