"""The inbox: the queue through which any thread passes events and work to the loop. It also watches lifelines."""

from __future__ import annotations

import math
import queue
import select
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from clusterkit.system.poller import LONGEST_WAIT, Bell, Wakeup
from clusterkit.words.events import AllocationEnding, Crashed, Happened, Interrupted, LifelineLost

Work = Callable[[], None]
CHECK_EVERY = 32  # the number of events between checks of the lifelines, since each check releases the GIL
ENDING = LifelineLost | Interrupted | AllocationEnding | Crashed  # events that end the wait in `work_until`


class Inbox:
    """The loop's queue of events and work. The loop also waits here for the end of processes that it must not outlive.

    Work is called in the loop's thread; events and work keep their order.

    No thread watches the lifelines, because the loop has to notice the guardian's end even if threads have failed.
    """

    def __init__(self) -> None:
        self._events = queue.SimpleQueue[Happened | Work]()  # its `put` may be called from a signal handler
        self._kept_events = deque[Happened]()  # events that arrived during `work_until`
        self._bell = Bell()
        self._wakeup: Wakeup | None = None
        self._lifelines: dict[int, str] = {}
        self._since_check = 0  # events returned since the lifelines were last checked
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def watch(self, lifeline: int, who: str) -> None:
        """Make `get` return LifelineLost, once, when this descriptor is readable or closed. Called by the loop."""
        self._lifelines[lifeline] = who
        self._poll.register(lifeline, select.POLLIN)

    def heed_signals(self) -> None:
        """Make signals interrupt the wait in `get`, so that handlers run at once. Call this in the main thread."""
        self._wakeup = Wakeup()
        self._poll.register(self._wakeup, select.POLLIN)

    def close(self) -> None:
        """Close the descriptors. After that, `put` fails."""
        self._bell.close()
        if self._wakeup is not None:
            self._wakeup.close()

    def put(self, item: Happened | Work) -> None:
        """Add an event or a work item. Never blocks."""
        self._events.put(item)
        self._bell.ring()

    def work_until(self, done: Callable[[], bool], timeout: float, despite_ending: bool = False) -> bool:
        """Run incoming work items until `done` returns True; return False if that takes more than `timeout` seconds.

        A work item is a function. Events are kept for `get`. An event that ends the run also ends this wait, unless
        `despite_ending` is true.
        """
        until = time.monotonic() + timeout
        while not done() and (despite_ending or not self.is_ending):
            item = self._next(max(0.0, until - time.monotonic()))
            if item is None:
                break
            if callable(item):
                item()
            else:
                self._kept_events.append(item)
        return done()

    @property
    def is_ending(self) -> bool:
        """Return whether `work_until` has kept an event that ends the run."""
        return any(isinstance(event, ENDING) for event in self._kept_events)

    @property
    def interrupted_by(self) -> int | None:
        """Return the signal of the first Interrupted that `work_until` has kept, or None."""
        return next((event.signal for event in self._kept_events if isinstance(event, Interrupted)), None)

    @property
    def is_moving(self) -> bool:
        """Return whether `work_until` has kept an AllocationEnding: the run moves to another allocation."""
        return any(isinstance(event, AllocationEnding) for event in self._kept_events)

    def get(self, timeout: float | None) -> Happened | Work | None:
        """Return the next event or work, a lost lifeline first; None after `timeout` seconds, or after a day."""
        return self._kept_events.popleft() if self._kept_events else self._next(timeout)

    def _next(self, timeout: float | None) -> Happened | Work | None:
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            if waiting := not self._events.empty():
                self._since_check += 1
                if self._since_check < CHECK_EVERY:
                    return self._events.get_nowait()
            self._since_check = 0
            wait = 0.0 if waiting else None if until is None else max(0.0, until - time.monotonic())
            ready = self._poll.poll(None if wait is None else math.ceil(min(wait, LONGEST_WAIT) * 1000))
            for descriptor, _ in ready:
                if descriptor in self._lifelines:
                    self._poll.unregister(descriptor)
                    return LifelineLost(self._lifelines.pop(descriptor))
                self._bell.clear()
            if self._wakeup is not None:
                self._wakeup.clear()
            with suppress(queue.Empty):
                return self._events.get_nowait()
            if not ready:  # otherwise, the bell was rung for an item that was already returned
                return None
