"""Waiting for descriptors: a poller thread, and descriptors that wake a waiting thread."""

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

MANY = 4096  # the number of bytes to read at once; each signal writes one byte
LONGEST_WAIT = 86400.0  # seconds; the maximum wait; poll and epoll accept at most 24 days
READABLE, WRITABLE, ONCE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLONESHOT


class Wakeup:
    """A descriptor that is readable from the arrival of a signal until `clear`. Use one at a time, in the main thread.

    Python runs a handler between two instructions of the main thread. If a signal arrives after the last instruction
    and before the thread sleeps in the kernel, the handler runs only after another event ends the sleep: perhaps never.
    """

    def __init__(self) -> None:
        self._descriptor, self._written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._previous_fd = signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)

    def __enter__(self) -> Wakeup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._descriptor

    def clear(self) -> None:
        """Drain the descriptor. Handlers of signals that have already arrived run during this call."""
        with suppress(BlockingIOError):
            os.read(self._descriptor, MANY)

    def wait(self, descriptor: int, timeout: float | None = None) -> bool:
        """Wait until `descriptor` is readable or closed, and return whether it is. A signal also ends the wait."""
        poll = select.poll()
        for each in (self._descriptor, descriptor):
            poll.register(each, select.POLLIN)
        found = dict(poll.poll(None if timeout is None else timeout * 1000))
        self.clear()
        return descriptor in found

    def close(self) -> None:
        signal.set_wakeup_fd(self._previous_fd, warn_on_full_buffer=False)
        os.close(self._descriptor)
        os.close(self._written)


class Bell:
    """A descriptor that is readable from `ring` until `clear`. Any thread or signal handler may call `ring`."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._rung = False  # True if the bell was rung since `clear`; ringing again then needs no system call

    def fileno(self) -> int:
        return self._descriptor

    def ring(self) -> None:
        """Wake the waiting thread. Never blocks."""
        if not self._rung:
            self._rung = True
            os.eventfd_write(self._descriptor, 1)

    def clear(self) -> None:
        """Make the descriptor unreadable until the next ring. Call this before looking for announced work."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)
        self._rung = False  # last, since a ring before this line is superfluous, and a ring after it wakes the thread

    def close(self) -> None:
        """Close the descriptor. After that, `ring` fails."""
        os.close(self._descriptor)
        self._rung = False


class Poller:
    """A thread that calls the handlers of ready descriptors, and the functions passed to `do`.

    Before each wait, the thread calls `turn`, which returns the longest wait in seconds; None means no limit. An
    unhandled exception is posted as Crashed. The owner should create its Poller before anything that uses the Poller,
    and `start` it when everything that the handlers need has been set up.
    """

    def __init__(self, name: str, post: Callable[[Crashed], None], turn: Callable[[], float | None]) -> None:
        self._name, self._post, self._on_turn = name, post, turn
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._work = queue.SimpleQueue[Callable[[], None]]()
        self._stopped = False
        self._accepting = threading.Lock()
        self._accepts_work = True
        self._bell = Bell()
        self._epoll = select.epoll()
        self.watch(self._bell.fileno(), lambda _: self._do_work())

    def start(self) -> None:
        self._thread = start_thread(self._name, self._run, self._post)

    def do(self, work: Callable[[], None]) -> None:
        """Queue a function for the thread to call; after `stop`, do nothing. Any thread may call this. Never blocks."""
        with self._accepting:
            if self._accepts_work:
                self._work.put(work)
                self._bell.ring()

    def watch(self, descriptor: int, handler: Callable[[int], None], events: int = READABLE) -> None:
        """Call `handler` with the descriptor's events; with ONCE, only once until `rearm`. Any thread may call this."""
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, events)

    def rearm(self, descriptor: int, events: int) -> None:
        """Change the events to wait for on a watched descriptor."""
        self._epoll.modify(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor, which is about to be closed."""
        del self._handlers[descriptor]
        self._epoll.unregister(descriptor)

    def stop(self) -> None:
        """End the thread, and call the functions that are still queued. Raises ThreadStuck."""
        self._stopped = True
        self._bell.ring()
        join(self._thread)
        with self._accepting:
            self._accepts_work = False
        self._do_work()
        self._epoll.close()
        self._bell.close()

    def _run(self) -> None:
        while not self._stopped:
            turn = self._on_turn()
            for descriptor, events in self._epoll.poll(None if turn is None else min(turn, LONGEST_WAIT)):
                if (handler := self._handlers.get(descriptor)) is not None:  # None after `forget`
                    handler(events)

    def _do_work(self) -> None:
        self._bell.clear()
        while not self._work.empty():
            self._work.get()()
