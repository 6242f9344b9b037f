"""A subscriber's place in the journal, which it gets at its own pace and of which a chunk is in memory at most."""

from __future__ import annotations

import os

CHUNK = 1 << 16
# The event is in the journal as JSON already; it goes out as it is, before its offset.
_BEFORE, _AFTER = b'{"jsonrpc":"2.0","method":"event","params":{"event":', b',"offset":%d}}\n'


class Subscription:
    """Turns the journal from an offset on into messages. Methods raise OSError where it can't be read."""

    def __init__(self, journal: int, offset: int) -> None:
        self._journal = journal  # a descriptor
        self._offset = offset  # where the next event begins
        self._rest: range | None = None  # what has to be sent of an event that is longer than a chunk

    @property
    def in_an_event(self) -> bool:
        """Whether a message has begun and not ended, so that no other may come now."""
        return self._rest is not None

    def go_to(self, offset: int) -> None:
        """Read on from another offset, once the message that has begun is over."""
        self._offset = offset

    def next(self) -> bytes:
        """What has to be sent next: whole messages, or a piece of one; empty where no other event is complete."""
        if self._rest is not None:
            return self._piece(self._rest)
        chunk = os.pread(self._journal, CHUNK, self._offset)
        *lines, _ = chunk.split(b"\n")
        if not lines:
            return self._begin_long() if len(chunk) == CHUNK else b""
        parts = []
        for line in lines:
            self._offset += len(line) + 1
            parts += [_BEFORE, line, _AFTER % self._offset]
        return b"".join(parts)

    def _begin_long(self) -> bytes:
        place = self._offset + CHUNK
        while chunk := os.pread(self._journal, CHUNK, place):
            if (length := chunk.find(b"\n")) >= 0:
                self._rest = range(self._offset, place + length)
                self._offset = self._rest.stop + 1
                return _BEFORE
            place += len(chunk)
        return b""

    def _piece(self, rest: range) -> bytes:
        piece = os.pread(self._journal, min(CHUNK, len(rest)), rest.start)
        if not piece:
            raise OSError("The journal became shorter.")
        left = rest[len(piece) :]
        self._rest = left if left else None
        return piece if left else piece + _AFTER % (rest.stop + 1)


def begins_event(journal: int, offset: int) -> bool:
    """Whether an event begins at that offset, or the next one will. Raises OSError."""
    return offset == 0 or os.pread(journal, 1, offset - 1) == b"\n"
