"""A poller: a thread that waits for descriptors, and that other threads can give work and stop."""

from __future__ import annotations

import queue
import select
import threading
from collections.abc import Callable

from clusterkit.system.barrier import join, start_thread
from clusterkit.system.wakeup import Bell
from clusterkit.words.events import Crashed

LONGEST_WAIT = 86400.0  # seconds; poll and epoll take no more than 24 days
READABLE, WRITABLE, ONCE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLONESHOT


class Poller:
    """Calls functions in a thread of its own: handlers of descriptors that are ready, and what `do` is given.

    Before each wait it calls `turn`, which returns the longest wait in seconds; None means no limit. An exception that
    leaves the thread is posted as Crashed. Create it first, since its owner's handlers need it, and `start` it last.
    """

    def __init__(self, name: str, post: Callable[[Crashed], None], turn: Callable[[], float | None]) -> None:
        self._name, self._post, self._turn = name, post, turn
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._work = queue.SimpleQueue[Callable[[], None]]()
        self._stopped = False
        self._accepting = threading.Lock()
        self._accepts = True
        self._bell = Bell()
        self._epoll = select.epoll()
        self.watch(self._bell.fileno(), lambda _: self._do_work())

    def start(self) -> None:
        """Start the thread."""
        self._thread = start_thread(self._name, self._run, self._post)

    def do(self, work: Callable[[], None]) -> None:
        """Call a function in the thread, in the order in which they are given. For any thread; never waits.

        Nothing is done after `stop`.
        """
        with self._accepting:
            if self._accepts:
                self._work.put(work)
                self._bell.ring()

    def watch(self, descriptor: int, handler: Callable[[int], None], events: int = READABLE) -> None:
        """Call `handler` with the events whenever there are any; with ONCE, only once until `rearm`. For any thread."""
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, events)

    def rearm(self, descriptor: int, events: int) -> None:
        """Wait for these events of a watched descriptor from now on."""
        self._epoll.modify(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor, which is about to be closed."""
        del self._handlers[descriptor]
        self._epoll.unregister(descriptor)

    def stop(self) -> None:
        """End the thread, and do the work that it has left. Raises ThreadStuck."""
        self._stopped = True
        self._bell.ring()
        join(self._thread)
        with self._accepting:
            self._accepts = False
        self._do_work()
        self._epoll.close()
        self._bell.close()

    def _run(self) -> None:
        while not self._stopped:
            turn = self._turn()
            for descriptor, events in self._epoll.poll(None if turn is None else min(turn, LONGEST_WAIT)):
                if (handler := self._handlers.get(descriptor)) is not None:  # not forgotten by the one before
                    handler(events)

    def _do_work(self) -> None:
        self._bell.clear()
        while not self._work.empty():
            self._work.get()()
