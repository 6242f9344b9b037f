"""Wakes a thread that waits on descriptors, and the main thread when a signal comes just before it sleeps."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

MANY = 4096  # bytes, one for each signal


class Wakeup:
    """A descriptor that is readable once a signal has come, until `clear`. For the main thread; one at a time.

    Python runs a handler between two instructions of the main thread. If the signal comes after the last one of them,
    and before the thread sleeps in the kernel, the handler runs when something else ends the sleep: perhaps never.
    """

    def __init__(self) -> None:
        self._descriptor, self._written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before = signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)

    def __enter__(self) -> Wakeup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor, for a poll object."""
        return self._descriptor

    def clear(self) -> None:
        """Forget the signals so far; their handlers run before the next instruction."""
        with suppress(BlockingIOError):
            os.read(self._descriptor, MANY)

    def wait(self, descriptor: int, timeout: float | None = None) -> bool:
        """Wait until something can be read from another descriptor, or it is at its end; return whether it is so.

        Handlers run meanwhile, and a signal ends the wait, as does the end of `timeout` seconds.
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
    """A descriptor that is readable from `ring`, which any thread or signal handler may call, until `clear`."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._rung = False  # since it was cleared; to ring again takes no call of the system

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._descriptor

    def ring(self) -> None:
        """Wake whoever waits. Never waits itself."""
        if not self._rung:
            self._rung = True
            os.eventfd_write(self._descriptor, 1)

    def clear(self) -> None:
        """Forget the rings so far; who clears looks at what they were for after that."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)
        self._rung = False  # last: a ring before this is not needed, one after it is heard

    def close(self) -> None:
        """Close the descriptor; whoever rings after that fails."""
        os.close(self._descriptor)
        self._rung = False
