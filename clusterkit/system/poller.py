"""Waits for descriptors: the poller, a thread that does so, and the means to wake a waiting thread."""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

from clusterkit.system.barrier import join, start_thread
from clusterkit.words.events import Crashed

MANY = 4096  # bytes, one for each signal
LONGEST_WAIT = 86400.0  # seconds; poll and epoll take no more than 24 days
READABLE, WRITABLE, ONCE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLONESHOT


class Wakeup:
    """A descriptor that is readable from the arrival of a signal until `clear`. For the main thread; one at a time.

    Python runs a handler between two instructions of the main thread. If the signal arrives after the last of them,
    and before the thread sleeps in the kernel, the handler runs only when something else ends the sleep: perhaps never.
    """

    def __init__(self) -> None:
        self._descriptor, self._written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before = signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)

    def __enter__(self) -> Wakeup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._descriptor

    def clear(self) -> None:
        """Forget the signals so far; their handlers run before the next instruction."""
        with suppress(BlockingIOError):
            os.read(self._descriptor, MANY)

    def wait(self, descriptor: int, timeout: float | None = None) -> bool:
        """Return whether another descriptor is readable or closed; a signal or `timeout` seconds end the wait."""
        poll = select.poll()
        for each in (self._descriptor, descriptor):
            poll.register(each, select.POLLIN)
        found = dict(poll.poll(None if timeout is None else timeout * 1000))
        self.clear()
        return descriptor in found

    def close(self) -> None:
        signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
        os.close(self._descriptor)
        os.close(self._written)


class Bell:
    """A descriptor that is readable from `ring` until `clear`. Any thread or signal handler may ring."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._rung = False  # whether it was rung since `clear`; then ringing again needs no system call

    def fileno(self) -> int:
        return self._descriptor

    def ring(self) -> None:
        """Wake the thread that waits. Never blocks."""
        if not self._rung:
            self._rung = True
            os.eventfd_write(self._descriptor, 1)

    def clear(self) -> None:
        """Forget the rings so far. Call this before looking at the work that they announced."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)
        self._rung = False  # last: a ring before this line is superfluous, and one after it wakes the thread

    def close(self) -> None:
        """Close the descriptor; after that, `ring` fails."""
        os.close(self._descriptor)
        self._rung = False


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
