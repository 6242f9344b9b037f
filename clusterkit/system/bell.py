"""The bell: wakes a thread that waits on descriptors."""

from __future__ import annotations

import os
from contextlib import suppress


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
