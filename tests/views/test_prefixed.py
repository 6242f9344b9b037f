"""What the console shows of chunks: by the chunk it is what it would be line by line."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st

from clusterkit.text import lines
from clusterkit.text.noise import NoiseFilter
from clusterkit.text.printable import COLOR, NO_STYLE, Chunk, printable
from clusterkit.text.redraws import TerminalLines, style_after
from clusterkit.views import prefixed
from clusterkit.views.prefixed import Prefixer, is_printable, without_colors
from clusterkit.views.repeats import Repeats

PREFIX = "worker:0 │ "
OPTIONS = b"I0000 00:00:1763700000.1 1 direct_session.cc:1] SessionOptions: device_count {\n"
NOISE = b"I0000 00:00:1763700000.1 1 port.cc:153] oneDNN custom operations are on.\n"


def shown(*chunks: bytes, noise: bool = False, color: bool = True) -> bytes:
    """What is shown of a whole stream that came in these chunks, all at one time."""
    prefixer = Prefixer(PREFIX, noise, color)
    texts = [text for chunk in chunks for text in prefixer.feed(chunk, 0.0)]
    return b"".join([*texts, *prefixer.flush(0.0)])


def shown_by_line(stream: bytes, noise: bool, color: bool) -> bytes:
    """The same by the way line by line alone."""
    terminal, hidden, repeats = TerminalLines(), NoiseFilter(), Repeats({})
    result = [line for line in terminal.feed(stream, 0.0) + terminal.flush() if noise or not hidden.is_noise(line)]
    if not noise:
        result = [shown for line in result for shown in repeats.feed(line)] + repeats.flush()
    texts, style = list[str](), ""
    for line in result:
        text, before = printable(line, color), style
        for sequence in re.findall(COLOR, text):
            style = style_after(style, sequence)
        texts.append(f"{PREFIX}{before}{text}{NO_STYLE if style else ''}\n")
    return "".join(texts).encode("utf-8", "replace")


PARTS = [
    b"\n", b"\n", b"\r", b"\r\n", b"\b", b"\b\b\b\r", b"\x1b[K", b"\x1b[2K",
    b"step 12 loss 0.5\n", b"a", b"\t", b"}", b"  key: 1\n", b"x {\n",
    b"Traceback (most recent call last):\n", b"  f\n", b"clusterkit: x\n", b"/v/site-packages/k.py:1: UserWarning: x\n",
    NOISE, OPTIONS, b"I", b"I1", b": I ", b"/job:worker/replica:0/task:0", b"TF-TRT Warning",
    b"2026-11-21 05:00:00.1: I tensorflow/core x\n", b"\x07", b"\x1b[32m", b"\x1b[0m", b"\x1b[2J", b"\x7f", b"\x00",
    "é €\n".encode(), "\x85".encode(), "\xa0".encode(), "\u202e".encode(), "\u2067".encode(), "\u2028".encode(),
    b"\xe2\x82", b"\xac", b"\xc2", b"\xf0", b"\xff", b"\xed\xa0\x80",
]  # fmt: skip
STREAMS = st.lists(st.sampled_from(PARTS), max_size=40).map(b"".join)


@pytest.mark.slow
@seed(1)
@settings(max_examples=1500)
@given(
    STREAMS, st.lists(st.integers(0, 400)), st.sampled_from([1, 30, 1 << 20]), st.sampled_from([4, 60]), st.booleans(),
    st.booleans(),
)  # fmt: skip
@example(b"\xc2\x1b[0m\xa0 no character\n", [], 1 << 20, 4, True, False)
@example(b"\x1b\x1b[0m[2J no color\n", [], 1 << 20, 4, True, False)
@example(OPTIONS + b"x: 1\n" + b"step 1\n" * 3, [], 1 << 20, 4, False, True)
def test_by_the_chunk_is_as_line_by_line(
    stream: bytes, cuts: list[int], longest: int, block: int, noise: bool, color: bool
) -> None:
    """For any text, wherever the pipe cut it, and however chunks are divided to be looked at."""
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "LONGEST", longest)
        patch.setattr(prefixed, "BLOCK", block)
        expected = shown_by_line(stream, noise, color)
        assert shown(stream, noise=noise, color=color) == expected
        assert shown(*(stream[a:b] for a, b in pairwise(edges)), noise=noise, color=color) == expected
        assert shown(*(bytes([byte]) for byte in stream), noise=noise, color=color) == expected


@seed(1)
@given(st.text() | st.lists(st.sampled_from(PARTS)).map(lambda parts: b"".join(parts).decode("utf-8", "replace")))
def test_what_is_printable_is_shown_as_it_is(text: str) -> None:
    """Text that passes as printable is text of which no character would be replaced."""
    whole = text.encode("utf-8", "surrogatepass")
    if is_printable(whole, without_colors(whole)):
        assert [printable(line, color=True) for line in text.split("\n")] == text.split("\n")
        assert printable(text.replace("\n", "")) == without_colors(whole).decode().replace("\n", "")


@pytest.mark.parametrize("color", [True, False])
def test_plain_lines_are_not_taken_apart(monkeypatch: pytest.MonkeyPatch, color: bool) -> None:
    """Neither are tabs, colors, text in UTF-8 and a half line before; noise costs its own neighbourhood only."""
    taken: list[int] = []
    feed = TerminalLines.feed

    def counted(terminal: TerminalLines, chunk: bytes, now: float) -> list[str]:
        taken.append(len(chunk))
        return feed(terminal, chunk, now)

    monkeypatch.setattr(TerminalLines, "feed", counted)
    prefixer = Prefixer(PREFIX, noise=False, color=color)
    plain = "INFO: loss\t\x1b[32m0.5\x1b[0m é\n".encode() * 1000
    for chunk in (b"half", plain, b"half", plain):
        prefixer.feed(chunk, 0.0)
    assert taken == []
    prefixer.feed(plain + NOISE + plain, 0.0)
    assert sum(taken) <= prefixed.BLOCK


def test_a_line_that_is_being_redrawn_is_shown_once_in_a_while() -> None:
    """Not with every state, and once more when nothing has come for long; a state that was shown is not repeated."""
    prefixer = Prefixer(PREFIX, noise=False, color=False)
    shown = list[tuple[float, str]]()

    def take(now: float, *texts: Chunk) -> None:
        shown.extend((now, text.decode().removeprefix(PREFIX).rstrip()) for text in map(bytes, texts))

    for percent in range(100):
        now = percent / 4
        take(now, *prefixer.feed(b"%d%%\b\b\b\r" % percent, now), *prefixer.due(now))
    assert prefixer.due_at == 30.5
    take(30.5, *prefixer.due(30.5), *prefixer.due(90.0))
    assert prefixer.due_at is None
    take(91.0, *prefixer.feed(b"\n", 91.0))
    assert shown == [(10.0, "40%"), (20.25, "81%"), (30.5, "99%")]


def test_a_color_over_several_lines_is_in_each_of_them() -> None:
    """The prefix ends it, and what comes from elsewhere is not colored; without colors nothing of it is shown."""
    text = b"\x1b[1m\x1b[31mone\ntwo\n\x1b[0mthree\n"
    bold = "\x1b[1m\x1b[31m"
    expected = [f"{bold}one{NO_STYLE}", f"{bold}two{NO_STYLE}", f"{bold}{NO_STYLE}three"]
    assert shown(text).decode().splitlines() == [PREFIX + line for line in expected]
    assert shown(text, color=False).decode().splitlines() == [PREFIX + line for line in ("one", "two", "three")]


def test_many_colors_without_an_end_take_little_room() -> None:
    """Of more than a program can mean, the last one counts."""
    text = "".join(f"\x1b[{30 + number % 8}m{number}\n" for number in range(1000)).encode()
    last = shown(text).decode().splitlines()[-1]
    assert last.endswith(f"\x1b[37m999{NO_STYLE}")
    assert len(last) < 120
