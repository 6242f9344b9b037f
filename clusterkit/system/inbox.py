"""The inbox: events and work for the loop from any thread, and the lifelines that were cut."""

from __future__ import annotations

import math
import queue
import select
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from clusterkit.system.poller import LONGEST_WAIT
from clusterkit.system.wakeup import Bell, Wakeup
from clusterkit.words.events import AllocationEnding, Crashed, Happened, Interrupted, LifelineLost

Work = Callable[[], None]
LOOK_EVERY = 32  # events, between two looks at the lifelines: each look gives up the interpreter's lock
ENDING = LifelineLost | Interrupted | AllocationEnding | Crashed  # what nobody keeps waiting


class Inbox:
    """Where the loop, its one reader, waits for events and for the end of processes that it must not outlive.

    Work is called in the loop's thread, in its order among the events.

    Why no thread for the lifelines: the loop has to learn that the guardian is gone even if threads have failed.
    """

    def __init__(self) -> None:
        self._events = queue.SimpleQueue[Happened | Work]()  # whose `put` may be called from a signal handler
        self._kept = deque[Happened]()  # those that came during `work_until`
        self._bell = Bell()
        self._wakeup: Wakeup | None = None
        self._lifelines: dict[int, str] = {}
        self._looked = 0  # events ago
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def watch(self, lifeline: int, who: str) -> None:
        """Have `get` return LifelineLost, once, when this descriptor is readable or at its end. For the loop."""
        self._lifelines[lifeline] = who
        self._poll.register(lifeline, select.POLLIN)

    def heed_signals(self) -> None:
        """Have a signal end the wait in `get`, so that its handler runs at once. For the loop, in the main thread."""
        self._wakeup = Wakeup()
        self._poll.register(self._wakeup, select.POLLIN)

    def close(self) -> None:
        """Close the descriptors; after that, adding an event fails."""
        self._bell.close()
        if self._wakeup is not None:
            self._wakeup.close()

    def put(self, item: Happened | Work) -> None:
        """Add an event or work. Never waits."""
        self._events.put(item)
        self._bell.ring()

    def work_until(self, done: Callable[[], bool], timeout: float, stubborn: bool = False) -> bool:
        """Do the work that comes in until `done`; return whether it was, within `timeout` seconds.

        Events wait until after that. Those that end the run end the wait, unless it is `stubborn`.
        """
        until = time.monotonic() + timeout
        while not done() and (stubborn or not self.is_ending):
            item = self._next(max(0.0, until - time.monotonic()))
            if item is None:
                break
            if callable(item):
                item()
            else:
                self._kept.append(item)
        return done()

    @property
    def is_ending(self) -> bool:
        """Whether one of the events that wait ends the run."""
        return any(isinstance(event, ENDING) for event in self._kept)

    @property
    def interrupted_by(self) -> int | None:
        """The first signal that waits, which is to end the run; None if there is none."""
        return next((event.signal for event in self._kept if isinstance(event, Interrupted)), None)

    @property
    def is_moving(self) -> bool:
        """Whether one of the events that wait says that the allocation ends."""
        return any(isinstance(event, AllocationEnding) for event in self._kept)

    def get(self, timeout: float | None) -> Happened | Work | None:
        """Return what comes next; None after `timeout` seconds without anything, or after a day.

        A cut lifeline comes before most of the events that wait.
        """
        return self._kept.popleft() if self._kept else self._next(timeout)

    def _next(self, timeout: float | None) -> Happened | Work | None:
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            if waiting := not self._events.empty():
                self._looked += 1
                if self._looked < LOOK_EVERY:
                    return self._events.get_nowait()
            self._looked = 0
            wait = 0.0 if waiting else None if until is None else max(0.0, until - time.monotonic())
            found = self._poll.poll(None if wait is None else math.ceil(min(wait, LONGEST_WAIT) * 1000))
            for descriptor, _ in found:
                if descriptor in self._lifelines:
                    self._poll.unregister(descriptor)
                    return LifelineLost(self._lifelines.pop(descriptor))
                self._bell.clear()
            if self._wakeup is not None:
                self._wakeup.clear()
            with suppress(queue.Empty):
                return self._events.get_nowait()
            if not found:  # else the bell was rung for what is done already
                return None
