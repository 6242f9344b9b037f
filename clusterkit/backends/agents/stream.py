"""The stream: messages in both directions, each delivered once and in order, through any number of connections."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import PurePath

from clusterkit.backends.agents.frames import BadFrame

WINDOW = 1 << 20  # bytes on their way without acknowledgment, beyond which no further message is sent
ACKNOWLEDGE_AFTER = WINDOW // 4  # bytes received; fewer are acknowledged together with what is sent anyway


@dataclass(frozen=True, slots=True)
class FileRange:
    """A part of a file. It is read when it is sent, maybe more than once, so it must not change until then."""

    path: PurePath
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A message that the other side has not acknowledged. `text` is its header, without what the stream adds."""

    number: int
    text: bytes
    body: bytes | FileRange

    @property
    def size(self) -> int:
        """Roughly the bytes that it takes."""
        return len(self.text) + size_of(self.body)


class Stream:
    """One side's part: keeps what is sent until it is acknowledged, and counts what is received."""

    def __init__(self) -> None:
        self.received = 0  # the number of the last message that was delivered
        self._sent = deque[Kept]()  # in this connection
        self._unsent = deque[Kept]()
        self._on_way = 0  # bytes in _sent
        self._acknowledged = 0
        self._highest_sent = 0  # in any connection
        self._last = 0
        self._owed = 0  # bytes received that were not acknowledged

    def put(self, text: bytes, body: bytes | FileRange) -> None:
        """Add a message."""
        self._last += 1
        self._unsent.append(Kept(self._last, text, body))

    def next(self) -> Kept | None:
        """The message to send now; None if there is none or too much is on its way."""
        if not self._unsent or self._on_way >= WINDOW:
            return None
        kept = self._unsent.popleft()
        self._sent.append(kept)
        self._on_way += kept.size
        self._highest_sent = max(self._highest_sent, kept.number)
        return kept

    def acknowledge(self, number: int) -> None:
        """Forget the messages up to this one, which the other side has received. Raises BadFrame."""
        newest = self._sent[-1].number if self._sent else self._acknowledged
        if not self._acknowledged <= number <= newest:
            raise BadFrame(f"an acknowledgment of message {number}, not of {self._acknowledged} to {newest}")
        while self._sent and self._sent[0].number <= number:
            self._on_way -= self._sent.popleft().size
        self._acknowledged = number

    def resume(self, number: int) -> None:
        """Begin a connection to one who has received the messages up to this one. Raises BadFrame."""
        if not self._acknowledged <= number <= self._highest_sent:
            raise BadFrame(f"a resumption after message {number}, not {self._acknowledged} to {self._highest_sent}")
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()
        self._on_way = self._owed = 0
        while self._unsent and self._unsent[0].number <= number:
            self._unsent.popleft()
        self._acknowledged = number

    def forget(self) -> None:
        """Drop every message that is kept."""
        self._sent.clear()
        self._unsent.clear()

    def take(self, number: int, size: int) -> bool:
        """Whether a message is new, and so to be delivered. Raises BadFrame if one before it is missing."""
        if number > self.received + 1:
            raise BadFrame(f"message {number} after message {self.received}")
        if number <= self.received:
            return False
        self.received = number
        self._owed += size
        return True

    def acknowledgment(self) -> int:
        """What a frame that is sent now acknowledges."""
        self._owed = 0
        return self.received

    @property
    def owes_acknowledgment(self) -> bool:
        """Whether enough was received that it is to be acknowledged now."""
        return self._owed >= ACKNOWLEDGE_AFTER

    @property
    def is_empty(self) -> bool:
        """Whether everything was acknowledged."""
        return not self._sent and not self._unsent


def size_of(body: bytes | FileRange) -> int:
    """The bytes of a body."""
    return body.size if isinstance(body, FileRange) else len(body)
