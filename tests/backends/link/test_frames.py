"""Frames: whatever the bytes are, and however they are cut up, they are frames or an error."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.backends.link.frames import (
    JSON,
    LONGEST_BODY,
    LONGEST_HEADER,
    BadFrame,
    Frame,
    FrameParser,
    as_text,
    frame,
    numbered,
)

STREAMS = 20_000
KINDS = ("hello", "welcome", "refused", "message", "close", "ack", "beat", "echo")
WORDS = ("kind", "size", "seq", "ack", "message", "why", "hello", "", "\udc80", "n1")


def parse(*chunks: bytes) -> list[Frame]:
    """The frames of a stream that came in these chunks."""
    parser = FrameParser()
    return [found for chunk in chunks for found in parser.feed(chunk)]


def test_a_frame_comes_back_as_it_was_sent() -> None:
    """With and without a body, with whatever JSON can say in its header."""
    message: dict[str, JSON] = {"text": "\n\udc80€", "list": [1, 0.5, None, True, {}], "size": 7}
    text = as_text({"kind": "message", "message": message})
    assert parse(frame({"kind": "ack", "ack": 3}) + numbered(5, 4, text, b"\n{}\n")) == [
        Frame({"kind": "ack", "ack": 3, "size": 0}),
        Frame({"seq": 5, "ack": 4, "size": 4, "kind": "message", "message": message}, b"\n{}\n"),
    ]


@given(bodies=st.lists(st.binary(max_size=40), max_size=8), cuts=st.lists(st.integers(0, 600), max_size=12))
def test_it_does_not_matter_how_the_stream_is_cut_up(bodies: Sequence[bytes], cuts: Sequence[int]) -> None:
    """The same frames, in the same order."""
    stream = b"".join(numbered(n, 0, as_text({"kind": "message"}), body) for n, body in enumerate(bodies))
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert [found.body for found in parse(*chunks)] == bodies


@pytest.mark.parametrize(
    "stream",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\n",
        b"[]\n",
        b"null\n",
        b"{}\n",
        b'{"size":-1}\n',
        b'{"size":true}\n',
        b'{"size":1.0}\n',
        b'{"size":"1"}\n',
        b'{"size":1048577}\n',
        b'{"size":' + b"9" * 5000 + b"}\n",
        b'{"size":0,"x":NaN}\n',
        b'{"size":0,"x":-Infinity}\n',
        b'{"size":0,"x":1e999}\n',
        b'{"size":0} {}\n',
        b'{"size":0,"x":"\xff"}\n',
        '{"size":0}\n'.encode("utf-16"),
        b'{"size":0,"x":' + b"[" * 100_000 + b"\n",
        b"{" + b" " * LONGEST_HEADER,
    ],
)
def test_what_is_no_frame_is_an_error(stream: bytes) -> None:
    """At once, without waiting for more."""
    with pytest.raises(BadFrame):
        parse(stream)


def test_the_longest_frame_is_one() -> None:
    """A header and a body at their limits, in small pieces."""
    header = frame({"x": ""})
    stream = numbered(1, 1, as_text({"x": "y" * (LONGEST_HEADER - len(header) - 30)}), b"b" * LONGEST_BODY)
    chunks = [stream[at : at + 65_536] for at in range(0, len(stream), 65_536)]
    assert [len(found.body) for found in parse(*chunks)] == [LONGEST_BODY]


def test_frames_before_an_error_count() -> None:
    """They were sent properly."""
    found = FrameParser().feed(frame({"kind": "ack"}) + b"garbage\n")
    assert next(found).kind == "ack"
    with pytest.raises(BadFrame):
        next(found)


@pytest.mark.parametrize("value", [None, True, -1, 0.5, "1", [], {}])
def test_a_number_is_a_count(value: JSON) -> None:
    """Nothing else is taken for one."""
    with pytest.raises(BadFrame, match="wrong 'seq'"):
        Frame({"seq": value}).number("seq")


@pytest.mark.parametrize("value", [None, True, -1, 1e300, "1", [], {}])
def test_a_time_is_a_number_of_seconds(value: JSON) -> None:
    """Not below 0, and not beyond any clock."""
    with pytest.raises(BadFrame, match="wrong 'time'"):
        Frame({"time": value}).seconds("time")


def test_a_field_that_is_missing_is_named() -> None:
    """Of each kind."""
    for read in (Frame({}).text, Frame({}).number, Frame({}).seconds, Frame({}).truth, Frame({}).object):
        with pytest.raises(BadFrame, match="no 'x'"):
            read("x")


def anything(draw: random.Random, depth: int = 0) -> JSON:
    """A value of JSON."""
    kind = draw.randrange(4 if depth > 2 else 6)
    if kind == 0:
        return draw.choice([None, True, False, 0, -1, 7, 2**70, 0.5])
    if kind < 4:
        return draw.choice(WORDS)
    if kind == 4:
        return [anything(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {draw.choice(WORDS): anything(draw, depth + 1) for _ in range(draw.randrange(4))}


def hostile(draw: random.Random) -> bytes:
    """Noise, JSON that is no frame, a frame that is nearly right, or one with a few bytes of damage."""
    kind = draw.randrange(4)
    if kind == 0:
        return draw.randbytes(draw.randrange(200)) + b"\n"
    if kind == 1:
        return json.dumps(anything(draw)).encode() + b"\n"
    header = {draw.choice((*WORDS, "time", "received", "timeout")): anything(draw) for _ in range(5)}
    stream = bytearray(
        numbered(draw.randrange(9), 0, as_text({"kind": draw.choice(KINDS), **header}), draw.randbytes(5))
    )
    if kind == 3:
        stream[draw.randrange(len(stream))] = draw.randrange(256)
    return bytes(stream)


def test_any_bytes_are_frames_or_an_error() -> None:
    """Whatever comes, also where the parser waits for more after it; nothing else gets out, and little is kept."""
    number = 5
    print(f"seed {number}")
    draw, frames, errors = random.Random(number), 0, 0
    for _ in range(STREAMS):
        stream = hostile(draw)
        try:
            frames += len(parse(stream))
        except BadFrame:
            errors += 1
        except Exception as error:
            raise AssertionError(f"{stream!r}: {error!r}") from error
    assert frames > 1000
    assert errors > 1000
