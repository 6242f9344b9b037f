"""The stream: delivers messages in both directions, once each and in order, over any number of connections."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import PurePath

from clusterkit.backends.link.frames import BadFrame

WINDOW = 1 << 20  # bytes; no further message is sent while this many are unacknowledged
LONGEST_PART = 1 << 19  # bytes; the largest part of a file in one message
LONG_BACKLOG = 1024  # the number of unsent messages from which on `put` may extend an older message of the same file
ACKNOWLEDGE_AFTER = WINDOW // 4  # bytes; after receiving this many, send a frame that only acknowledges


@dataclass(frozen=True, slots=True)
class FileRange:
    """A part of a file, which is read again for each transmission, so its bytes must not change."""

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
        """Return the approximate size of the frame in bytes."""
        return len(self.text) + size_of(self.body)


class Stream:
    """One side of a stream: keeps sent messages until they are acknowledged, and counts received messages."""

    def __init__(self) -> None:
        self.received = 0  # the number of the last message that was delivered
        self._sent = deque[UnacknowledgedMessage]()  # messages sent in this connection and not acknowledged
        self._unsent = deque[UnacknowledgedMessage]()
        self._growing: dict[PurePath, UnacknowledgedMessage] = {}  # unsent messages that can be extended, by file
        self._in_flight = 0  # bytes of the messages in _sent
        self._acknowledged = 0
        self._highest_sent = 0  # the highest number sent in any connection
        self._last_number = 0
        self._to_acknowledge = 0  # received bytes that are not acknowledged yet

    def put(self, text: bytes, body: bytes | FileRange) -> None:
        """Add a message, or extend an unsent message that already has the previous part of the same growing file.

        While the backlog is short, only the newest message is extended, so that parts of different files stay in order.
        """
        if isinstance(body, FileRange) and body.grows and self._extend(body):
            return
        self._last_number += 1
        message = UnacknowledgedMessage(self._last_number, text, body)
        self._unsent.append(message)
        if isinstance(body, FileRange) and body.grows:
            self._growing[body.path] = message

    def next(self) -> UnacknowledgedMessage | None:
        """Return the message to send now; None if no message is waiting or too many bytes are unacknowledged."""
        if not self._unsent or self._in_flight >= WINDOW:
            return None
        message = self._unsent.popleft()
        if isinstance(message.body, FileRange) and self._growing.get(message.body.path) is message:
            del self._growing[message.body.path]
        self._sent.append(message)
        self._in_flight += message.size
        self._highest_sent = max(self._highest_sent, message.number)
        return message

    def skip(self, text: bytes) -> UnacknowledgedMessage:
        """Replace the content of the message last returned by `next`, whose file can't be read; return the message."""
        message = self._sent[-1]
        self._in_flight -= message.size
        message.text, message.body = text, b""
        self._in_flight += message.size
        return message

    def acknowledge(self, number: int) -> None:
        """Drop the messages up to this number, which the peer has received. Raises BadFrame."""
        newest = self._sent[-1].number if self._sent else self._acknowledged
        if not self._acknowledged <= number <= newest:
            raise BadFrame(f"an acknowledgment of message {number}, not of {self._acknowledged} to {newest}")
        while self._sent and self._sent[0].number <= number:
            self._in_flight -= self._sent.popleft().size
        self._acknowledged = number

    def resume(self, number: int) -> None:
        """Continue over a new connection, after the last message that the peer has received. Raises BadFrame."""
        if not self._acknowledged <= number <= self._highest_sent:
            raise BadFrame(f"a resumption after message {number}, not {self._acknowledged} to {self._highest_sent}")
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()
        self._in_flight = self._to_acknowledge = 0
        while self._unsent and self._unsent[0].number <= number:
            self._unsent.popleft()
        self._acknowledged = number

    def forget(self) -> None:
        self._sent.clear()
        self._unsent.clear()
        self._growing.clear()

    def accept(self, number: int, size: int) -> bool:
        """Return whether a message is new and has to be delivered. Raises BadFrame if an earlier message is missing."""
        if number > self.received + 1:
            raise BadFrame(f"message {number} after message {self.received}")
        if number <= self.received:
            return False
        self.received = number
        self._to_acknowledge += size
        return True

    def acknowledgment(self) -> int:
        """Return the number of the last received message, for a frame that is sent now."""
        self._to_acknowledge = 0
        return self.received

    @property
    def owes_acknowledgment(self) -> bool:
        return self._to_acknowledge >= ACKNOWLEDGE_AFTER

    @property
    def is_empty(self) -> bool:
        return not self._sent and not self._unsent

    def _extend(self, more: FileRange) -> bool:
        message = self._growing.get(more.path)
        if message is None or not (message is self._unsent[-1] or len(self._unsent) >= LONG_BACKLOG):
            return False
        body = message.body
        assert isinstance(body, FileRange)
        if body.offset + body.size != more.offset or body.size + more.size > LONGEST_PART:
            return False
        message.body = FileRange(more.path, body.offset, body.size + more.size, grows=True)
        return True


def size_of(body: bytes | FileRange) -> int:
    return body.size if isinstance(body, FileRange) else len(body)
