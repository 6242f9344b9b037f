"""Frames: the protocol between agent and supervisor. A frame is a line of JSON, followed by a body.

The line contains the size of the body.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from clusterkit import __version__
from clusterkit.words.errors import ClusterkitError

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
LONGEST_HEADER = 1 << 20  # the maximum size of a header in bytes, without the line break
LONGEST_BODY = 1 << 20  # the maximum size of a body in bytes
PROTOCOL = 2  # increased when frames change; the frame "refused" and a hello's version fields must never change
_SESSION = re.compile("[0-9a-f]{32}")
_LONGEST_NAME = 255


class BadFrame(ValueError):
    """Raised if the peer has sent an invalid frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A header and a body. Each method returns a field of the header, or raises BadFrame if the field is invalid."""

    header: Mapping[str, JSON]
    body: bytes = b""
    length: int = field(default=0, compare=False)  # the size of the whole encoded frame, in bytes

    @property
    def kind(self) -> str:
        return self.text("kind")

    def text(self, name: str) -> str:
        if isinstance(value := self.header.get(name), str):
            return value
        raise self._bad(name)

    def number(self, name: str) -> int:
        """Return a field whose value is an integer of at least 0."""
        value = self.header.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise self._bad(name)

    def seconds(self, name: str) -> float:
        """Return a field whose value is a time or a duration of at least 0, in seconds."""
        value = self.header.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
            return float(value)
        raise self._bad(name)

    def truth(self, name: str) -> bool:
        if isinstance(value := self.header.get(name), bool):
            return value
        raise self._bad(name)

    def object(self, name: str) -> Mapping[str, JSON]:
        if isinstance(value := self.header.get(name), dict):
            return value
        raise self._bad(name)

    def _bad(self, name: str) -> BadFrame:
        return BadFrame(f"a frame with {'a wrong' if name in self.header else 'no'} {name!r}")


class FrameParser:
    """Splits a stream of bytes, in chunks of any size, into frames. Buffers at most a frame and the rest of a chunk."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._searched = 0  # the number of leading bytes of _data that are known to contain no newline
        self._header: Mapping[str, JSON] | None = None
        self._header_length = self._size = 0  # the sizes of the header and body, in bytes

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete. Raises BadFrame; the parser can't be used after that."""
        self._data += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        if self._header is None:
            self._header = self._next_header()
        if self._header is None or len(self._data) < self._size:
            return None
        frame = Frame(self._header, bytes(self._data[: self._size]), self._header_length + self._size)
        del self._data[: self._size]
        self._header = None
        return frame

    def _next_header(self) -> Mapping[str, JSON] | None:
        end = self._data.find(b"\n", self._searched, LONGEST_HEADER + 1)
        if end < 0:
            if len(self._data) > LONGEST_HEADER:
                raise BadFrame(f"a header of more than {LONGEST_HEADER} bytes")
            self._searched = len(self._data)
            return None
        header = _parse(bytes(self._data[:end]))
        self._size = Frame(header).number("size")
        if self._size > LONGEST_BODY:
            raise BadFrame(f"a body of {self._size} bytes")
        del self._data[: end + 1]
        self._searched = 0
        self._header_length = end + 1
        return header


def frame(header: Mapping[str, JSON]) -> bytes:
    """Encode a frame without a body."""
    return as_text({**header, "size": 0}) + b"\n"


def numbered(number: int, acknowledged: int, text: bytes, body: bytes) -> bytes:
    """Encode a numbered frame of the stream. `text` is the rest of its header, encoded earlier by `as_text`."""
    return b'{"seq":%d,"ack":%d,"size":%d,%b\n%b' % (number, acknowledged, len(body), text[1:], body)


def as_text(header: Mapping[str, JSON]) -> bytes:
    """Encode a header as JSON. Raises TypeError or ValueError if the header can't be written as JSON."""
    return json.dumps(header, separators=(",", ":"), allow_nan=False).encode()


def _parse(line: bytes) -> Mapping[str, JSON]:
    try:
        header = json.loads(line.decode(), parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        raise BadFrame(f"no header of JSON: {line[:40]!r}") from None
    if isinstance(header, dict):
        return header
    raise BadFrame(f"a header that is not an object: {line[:40]!r}")


def _finite(text: str) -> float:
    if math.isfinite(value := float(text)):
        return value
    raise ValueError(text)


class AgentRefused(ClusterkitError):
    """Raised if the supervisor refuses an agent; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Hello:
    """An agent's greeting."""

    host: str
    session: str  # an id chosen by the agent, so that a repeated hello is not mistaken for a second agent
    welcomed: bool  # True once the supervisor has answered in this session
    attempt: int  # the number of the agent's connection, which reveals a delayed older hello
    received: int  # the number of the last message received
    time: float  # the time by the agent's clock, as in a heartbeat
    protocol: int = PROTOCOL
    version: str = __version__

    def encode(self) -> bytes:
        return frame({"kind": "hello", **dataclasses.asdict(self)})


@dataclass(frozen=True, slots=True)
class Welcome:
    """The supervisor's answer to a hello."""

    received: int  # the number of the last message received
    time: float  # the time in the hello that this welcome answers
    timeout: float  # seconds; the supervisor's timeout, which applies to both sides

    def encode(self) -> bytes:
        return frame({"kind": "welcome", **dataclasses.asdict(self)})


def parse_hello(greeting: Frame) -> Hello:
    """Parse an agent's greeting. Raises BadFrame, and AgentRefused if the agent uses another protocol version."""
    if greeting.kind != "hello":
        raise BadFrame(f"{greeting.kind!r:.40} instead of a hello")
    protocol, version = greeting.number("protocol"), greeting.text("version")
    host = greeting.text("host")
    if not (host + version).isprintable() or not 0 < len(host) <= _LONGEST_NAME:
        raise BadFrame("a hello with a name that can't be printed")
    if protocol != PROTOCOL:
        raise AgentRefused(
            f"The agent on {host} is clusterkit {version:.40} (protocol {protocol}), the supervisor is clusterkit "
            f"{__version__} (protocol {PROTOCOL}): install the same version on both."
        )
    session = greeting.text("session")
    if not _SESSION.fullmatch(session):
        raise BadFrame("a hello without a session")
    attempt, received = greeting.number("attempt"), greeting.number("received")
    return Hello(host, session, greeting.truth("welcomed"), attempt, received, greeting.seconds("time"))


def parse_welcome(answer: Frame) -> Welcome:
    """Parse the answer to a hello. Raises BadFrame, and AgentRefused if the supervisor refused the agent."""
    if answer.kind == "refused":
        raise AgentRefused(answer.text("why"))
    if answer.kind != "welcome":
        raise BadFrame(f"{answer.kind!r:.40} instead of a welcome")
    timeout = answer.seconds("timeout")
    if timeout <= 0:
        raise BadFrame("a welcome without a timeout")
    return Welcome(answer.number("received"), answer.seconds("time"), timeout)


def refusal(why: str) -> bytes:
    return frame({"kind": "refused", "why": why})
