"""Wakes a thread that waits on descriptors: for another thread, or for a signal that arrives just before the wait."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

MANY = 4096  # bytes, one for each signal


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
        """Wait until another descriptor is readable or closed; return whether it is.

        Signal handlers run meanwhile. A signal ends the wait, and so do `timeout` seconds.
        """
        poll = select.poll()
        for each in (self._descriptor, descriptor):
            poll.register(each, select.POLLIN)
        found = dict(poll.poll(None if timeout is None else timeout * 1000))
        self.clear()
        return descriptor in found

    def close(self) -> None:
        """Close the descriptor."""
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
