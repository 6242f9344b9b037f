"""Frames: what travels between an agent and the supervisor. Each is a line of JSON, and the bytes that it announces."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
LONGEST_HEADER = 1 << 20  # bytes, without the end of the line
LONGEST_BODY = 1 << 20


class BadFrame(ValueError):
    """The other side sent what this protocol does not have."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A header and a body. Its methods read fields of the header, and raise BadFrame."""

    header: Mapping[str, JSON]
    body: bytes = b""
    length: int = field(default=0, compare=False)  # bytes that it took

    @property
    def kind(self) -> str:
        """What the frame is for."""
        return self.text("kind")

    def text(self, name: str) -> str:
        """A field that is a string."""
        if isinstance(value := self.header.get(name), str):
            return value
        raise self._bad(name)

    def number(self, name: str) -> int:
        """A field that counts something, from 0 on."""
        value = self.header.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise self._bad(name)

    def seconds(self, name: str) -> float:
        """A field that is a time or a duration, not below 0."""
        value = self.header.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
            return float(value)
        raise self._bad(name)

    def truth(self, name: str) -> bool:
        """A field that is true or false."""
        if isinstance(value := self.header.get(name), bool):
            return value
        raise self._bad(name)

    def object(self, name: str) -> Mapping[str, JSON]:
        """A field that is an object."""
        if isinstance(value := self.header.get(name), dict):
            return value
        raise self._bad(name)

    def _bad(self, name: str) -> BadFrame:
        return BadFrame(f"a frame with {'a wrong' if name in self.header else 'no'} {name!r}")


class FrameParser:
    """Finds the frames in a stream of bytes, however it is cut up. Keeps no more than one frame and what follows it."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._searched = 0  # bytes of _data that have no end of a line
        self._header: Mapping[str, JSON] | None = None
        self._header_length = self._size = 0  # bytes

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete. Raises BadFrame; after that, the stream is of no use."""
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
    """A frame without a body, as bytes."""
    return as_text({**header, "size": 0}) + b"\n"


def numbered(number: int, acknowledged: int, text: bytes, body: bytes) -> bytes:
    """A frame of the stream, as bytes; `text` is the rest of its header, which `as_text` made earlier."""
    return b'{"seq":%d,"ack":%d,"size":%d,%b\n%b' % (number, acknowledged, len(body), text[1:], body)


def as_text(header: Mapping[str, JSON]) -> bytes:
    """A header as JSON. Raises TypeError or ValueError if it can't be."""
    return json.dumps(header, separators=(",", ":"), allow_nan=False).encode()


def _parse(line: bytes) -> Mapping[str, JSON]:
    try:
        header = json.loads(line.decode(), parse_constant=_reject, parse_float=_finite)
    except (ValueError, RecursionError):
        raise BadFrame(f"no header of JSON: {line[:40]!r}") from None
    if isinstance(header, dict):
        return header
    raise BadFrame(f"a header that is no object: {line[:40]!r}")


def _reject(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(text: str) -> float:
    if math.isfinite(value := float(text)):
        return value
    raise ValueError(text)
