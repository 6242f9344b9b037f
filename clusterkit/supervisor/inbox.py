"""The inbox: events and work for the loop from any thread, and the lifelines that were cut."""

from __future__ import annotations

import math
import queue
import select
from contextlib import suppress

from clusterkit.backends.base import Work
from clusterkit.system.bell import Bell
from clusterkit.words.events import Happened, LifelineLost


class Inbox:
    """Where the loop, its one reader, waits for events and for the end of processes that it must not outlive.

    Work is called in the loop's thread, in its order among the events.

    Why no thread for the lifelines: the loop has to learn that the guardian is gone even if threads have failed.
    """

    def __init__(self) -> None:
        self._events = queue.SimpleQueue[Happened | Work]()  # whose `put` may be called from a signal handler
        self._bell = Bell()
        self._lifelines: dict[int, str] = {}
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def watch(self, lifeline: int, who: str) -> None:
        """Have `get` return LifelineLost, once, when this descriptor is readable or at its end. For the loop."""
        self._lifelines[lifeline] = who
        self._poll.register(lifeline, select.POLLIN)

    def close(self) -> None:
        """Close the descriptor; after that, adding an event fails."""
        self._bell.close()

    def put(self, item: Happened | Work) -> None:
        """Add an event or work. Never waits."""
        self._events.put(item)
        self._bell.ring()

    def get(self, timeout: float | None) -> Happened | Work | None:
        """Return what comes next, a cut lifeline first; None after `timeout` seconds without anything."""
        wait = 0.0 if not self._events.empty() else timeout
        for descriptor, _ in self._poll.poll(None if wait is None else math.ceil(wait * 1000)):
            if descriptor in self._lifelines:
                self._poll.unregister(descriptor)
                return LifelineLost(self._lifelines.pop(descriptor))
            self._bell.clear()
        with suppress(queue.Empty):
            return self._events.get_nowait()
        return None
