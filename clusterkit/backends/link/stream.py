"""The stream: delivers messages in both directions, once each and in order, over any number of connections."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import PurePath

from clusterkit.backends.link.frames import BadFrame

WINDOW = 1 << 20  # bytes; while so many are unacknowledged, no further message is sent
LONGEST_PART = 1 << 19  # bytes; the largest part of a file in one message
LINED_UP = 1024  # messages; if this many wait, a file's new part joins its waiting message at any position
ACKNOWLEDGE_AFTER = WINDOW // 4  # bytes received; fewer bytes are acknowledged with the next message or heartbeat


@dataclass(frozen=True, slots=True)
class FileRange:
    """A part of a file. It is read whenever it is sent, maybe repeatedly, so the bytes must not change."""

    path: PurePath
    offset: int
    size: int
    grows: bool = False  # True if later parts of the file may be added to the same message


@dataclass(slots=True, eq=False)
class UnacknowledgedMessage:
    """A message that the peer has not acknowledged."""

    number: int
    text: bytes  # the header, without the fields that the stream adds
    body: bytes | FileRange  # a range may grow until it is sent for the first time

    @property
    def size(self) -> int:
        """The approximate size of the frame in bytes."""
        return len(self.text) + size_of(self.body)


class Stream:
    """One side of a stream: keeps sent messages until they are acknowledged, and counts received messages."""

    def __init__(self) -> None:
        self.received = 0  # the number of the last message that was delivered
        self._sent = deque[UnacknowledgedMessage]()  # sent in this connection, and not acknowledged
        self._unsent = deque[UnacknowledgedMessage]()
        self._growing: dict[PurePath, UnacknowledgedMessage] = {}  # unsent messages, to be extended
        self._on_way = 0  # bytes of the messages in _sent
        self._acknowledged = 0
        self._highest_sent = 0  # the highest number sent in any connection
        self._last = 0
        self._owed = 0  # received bytes that are not acknowledged yet

    def put(self, text: bytes, body: bytes | FileRange) -> None:
        """Add a message. If an earlier part of the same growing file is still unsent, extend that message instead.

        While the backlog is short, only the newest message is extended, so that output of several files stays in order.
        """
        if isinstance(body, FileRange) and body.grows and self._joins(body):
            return
        self._last += 1
        kept = UnacknowledgedMessage(self._last, text, body)
        self._unsent.append(kept)
        if isinstance(body, FileRange) and body.grows:
            self._growing[body.path] = kept

    def next(self) -> UnacknowledgedMessage | None:
        """Return the message to send now; None if no message waits or too many bytes are unacknowledged."""
        if not self._unsent or self._on_way >= WINDOW:
            return None
        kept = self._unsent.popleft()
        if isinstance(kept.body, FileRange) and self._growing.get(kept.body.path) is kept:
            del self._growing[kept.body.path]
        self._sent.append(kept)
        self._on_way += kept.size
        self._highest_sent = max(self._highest_sent, kept.number)
        return kept

    def skip(self, text: bytes) -> UnacknowledgedMessage:
        """Replace the message returned last, whose file can't be read, with this text; return the message."""
        kept = self._sent[-1]
        self._on_way -= kept.size
        kept.text, kept.body = text, b""
        self._on_way += kept.size
        return kept

    def acknowledge(self, number: int) -> None:
        """Drop the messages up to this number, which the peer has received. Raises BadFrame."""
        newest = self._sent[-1].number if self._sent else self._acknowledged
        if not self._acknowledged <= number <= newest:
            raise BadFrame(f"an acknowledgment of message {number}, not of {self._acknowledged} to {newest}")
        while self._sent and self._sent[0].number <= number:
            self._on_way -= self._sent.popleft().size
        self._acknowledged = number

    def resume(self, number: int) -> None:
        """Continue over a new connection, after the last message that the peer has received. Raises BadFrame."""
        if not self._acknowledged <= number <= self._highest_sent:
            raise BadFrame(f"a resumption after message {number}, not {self._acknowledged} to {self._highest_sent}")
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()
        self._on_way = self._owed = 0
        while self._unsent and self._unsent[0].number <= number:
            self._unsent.popleft()
        self._acknowledged = number

    def forget(self) -> None:
        self._sent.clear()
        self._unsent.clear()
        self._growing.clear()

    def take(self, number: int, size: int) -> bool:
        """Return whether a message is new and has to be delivered. Raises BadFrame if an earlier message is missing."""
        if number > self.received + 1:
            raise BadFrame(f"message {number} after message {self.received}")
        if number <= self.received:
            return False
        self.received = number
        self._owed += size
        return True

    def acknowledgment(self) -> int:
        """Return the number of the last received message, for a frame that is sent now."""
        self._owed = 0
        return self.received

    @property
    def owes_acknowledgment(self) -> bool:
        return self._owed >= ACKNOWLEDGE_AFTER

    @property
    def is_empty(self) -> bool:
        return not self._sent and not self._unsent

    def _joins(self, more: FileRange) -> bool:
        kept = self._growing.get(more.path)
        if kept is None or not (kept is self._unsent[-1] or len(self._unsent) >= LINED_UP):
            return False
        body = kept.body
        assert isinstance(body, FileRange)
        if body.offset + body.size != more.offset or body.size + more.size > LONGEST_PART:
            return False
        kept.body = FileRange(more.path, body.offset, body.size + more.size, grows=True)
        return True


def size_of(body: bytes | FileRange) -> int:
    return body.size if isinstance(body, FileRange) else len(body)
