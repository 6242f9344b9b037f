"""A poller: a thread that waits for descriptors and also does work that other threads give it."""

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
    """Calls handlers of ready descriptors, and functions passed to `do`, in a thread of its own.

    Before each wait it calls `turn`, which returns the longest wait in seconds; None means no limit. An unhandled
    exception is posted as Crashed. Create it first, since its owner's handlers need it, and `start` it last.
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
        self._thread = start_thread(self._name, self._run, self._post)

    def do(self, work: Callable[[], None]) -> None:
        """Have the thread call functions in the order given; after `stop`, none. For any thread; never waits."""
        with self._accepting:
            if self._accepts:
                self._work.put(work)
                self._bell.ring()

    def watch(self, descriptor: int, handler: Callable[[int], None], events: int = READABLE) -> None:
        """Call `handler` with the descriptor's events; with ONCE, only once until `rearm`. For any thread."""
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, events)

    def rearm(self, descriptor: int, events: int) -> None:
        """From now on, wait for these events of a watched descriptor."""
        self._epoll.modify(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor, which is about to be closed."""
        del self._handlers[descriptor]
        self._epoll.unregister(descriptor)

    def stop(self) -> None:
        """End the thread, and do its remaining work. Raises ThreadStuck."""
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
                if (handler := self._handlers.get(descriptor)) is not None:  # an earlier handler may have forgotten it
                    handler(events)

    def _do_work(self) -> None:
        self._bell.clear()
        while not self._work.empty():
            self._work.get()()
