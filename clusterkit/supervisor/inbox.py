"""The inbox: what happened, and work for the loop, from any thread; and which lifelines were cut."""

from __future__ import annotations

import math
import queue
import select
from contextlib import suppress

from clusterkit.backends.base import Work
from clusterkit.system.bell import Bell
from clusterkit.words.events import Happened, LifelineLost


class Inbox:
    """One consumer, the loop, which waits here for events and for the end of processes that it must not outlive.

    Beside events it takes work that has to be done in the loop's thread, as it comes in between.

    Why not a thread for the lifelines: the loop has to learn that the guardian is gone whatever became of the threads.
    """

    def __init__(self) -> None:
        self._events = queue.SimpleQueue[Happened | Work]()  # whose `put` may be called from a signal handler
        self._bell = Bell()
        self._lifelines: dict[int, str] = {}
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def watch(self, lifeline: int, who: str) -> None:
        """Give LifelineLost, once, when this descriptor can be read or its other end is closed. For the loop."""
        self._lifelines[lifeline] = who
        self._poll.register(lifeline, select.POLLIN)

    def close(self) -> None:
        """Let go of the descriptor; whoever still adds an event fails."""
        self._bell.close()

    def put(self, item: Happened | Work) -> None:
        """Add an event, or work; never waits."""
        self._events.put(item)
        self._bell.ring()

    def get(self, timeout: float | None) -> Happened | Work | None:
        """What comes next; None after `timeout` seconds without it. A cut lifeline comes before what else there is."""
        wait = 0.0 if not self._events.empty() else timeout
        for descriptor, _ in self._poll.poll(None if wait is None else math.ceil(wait * 1000)):
            if descriptor in self._lifelines:
                self._poll.unregister(descriptor)
                return LifelineLost(self._lifelines.pop(descriptor))
            self._bell.clear()
        with suppress(queue.Empty):
            return self._events.get_nowait()
        return None
