"""Redrawn lines: tables, bytes of Keras's progress bars, and random bytes beside a plain model of a terminal."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st

from clusterkit.text import lines
from clusterkit.text.printable import printable
from clusterkit.text.redraws import SHOW_EVERY, TerminalLines

SAMPLES = Path(__file__).parent / "samples"  # the bytes of an epoch of `fit`, as it writes them into a pipe


def shown(*chunks: bytes) -> list[str]:
    """The lines of a whole stream that came in these chunks."""
    terminal = TerminalLines()
    return [line for chunk in chunks for line in terminal.feed(chunk, 0.0)] + terminal.flush()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", []),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"10%\r20%\r30%\n", ["30%"]),
        (b"10%\r20%\r", ["20%"]),
        (b"100%\r99%\n", ["99%%"]),  # as on a terminal: who overwrites less leaves the rest
        (b"100%\r99% \n", ["99%"]),
        (b"100%\r\x1b[K99%\n", ["99%"]),
        (b"100%\r99%\x1b[K\n", ["99%"]),
        (b"100%\x1b[2K99%\n", ["99%"]),
        (b"|\b/\b-\b\\\n", ["\\"]),
        (b"step 1\b2\b3\n", ["step 3"]),
        (b"a\b\b\b\b\bb\n", ["b"]),
        (b"100%\r    \rnext\n", ["next"]),
        (b"100%\r    \r", []),  # a bar that removes itself leaves no empty line
        (b"kept \nspaces  \n", ["kept ", "spaces  "]),
        (b"1\r2\n3\r4\n", ["2", "4"]),
        (b"\x1b[31mred\x1b[0m\n", ["\x1b[31mred\x1b[0m"]),
        (b"\x1b[31mred\rb\n", ["\x1b[31mbed\x1b[0m"]),
        (b"\x1b[31mred\x1b[0m\rb\n", ["b\x1b[31med\x1b[0m"]),
        (b"\x1b[1m\x1b[32mok\x1b[m no\x1b[1;7m\b\bOK\n", ["\x1b[1m\x1b[32mok\x1b[0m \x1b[1;7mOK\x1b[0m"]),
        (b"\x1b[31;1mab\b\x1b[0;4mc\n", ["\x1b[31;1ma\x1b[0m\x1b[0;4mc\x1b[0m"]),
        ("été\b\b\bEE\n".encode(), ["EEé"]),
        (b"up\x1b[Aand\b\b\bAND\n", ["up\x1b[AAND"]),  # nothing else that moves a cursor is followed
    ],
)
def test_a_line_is_what_a_terminal_shows_of_it(stream: bytes, expected: list[str]) -> None:
    """In its last state, wherever the pipe cut the stream."""
    assert shown(stream) == expected
    assert shown(*(bytes([byte]) for byte in stream)) == expected


@pytest.mark.parametrize(
    ("sample", "bar"),
    [
        (
            "keras3_fit.bin",
            "32/32 ━━━━━━━━━━━━━━━━━━━━ 4s 64ms/step - loss: 3.9477 - mae: 1.5469 - val_loss: 2.4594 - val_mae: 1.2318",
        ),
        (
            "keras2_fit.bin",
            "32/32 [==============================] - 4s 86ms/step - loss: 8.4378 - mae: 2.2721 - val_loss: 4.8165"
            " - val_mae: 1.7637",
        ),
    ],
)
def test_a_keras_progress_bar_is_one_line(sample: str, bar: str) -> None:
    """Recorded bytes: backspaces, carriage returns, colors; any state in between is a line too."""
    stream = (SAMPLES / sample).read_bytes()
    assert stream.count(b"\b") > 500
    assert [printable(line) for line in shown(stream)] == ["Epoch 1/2", bar]
    for at in range(0, len(stream), 61):
        terminal = TerminalLines()
        terminal.feed(stream[:at], 0.0)
        state = printable(terminal.due(SHOW_EVERY) or "")
        assert state == "" or re.match(r" ?\d+/32 [━\[]", state)
        assert not re.search("[␀-␟]", state)


def model(line: str) -> str:
    """What a terminal shows of a line without colors: a cell for each character, one after the other."""
    cells, at = list[str](), 0
    for part in re.findall(r"\x1b\[[02]?K|.", line, re.DOTALL):
        if part == "\r" or part == "\x1b[2K":
            at, cells = 0, [] if part != "\r" else cells
        elif part == "\b":
            at = max(at - 1, 0)
        elif part[-1] == "K" and len(part) > 1:
            cells = cells[:at]
        else:
            cells[at : at + 1], at = [part], at + 1
    return "".join(cells).rstrip(" ") if re.search(r"[\r\x08]|\x1b\[[02]?K", line) else line


PARTS = ["\r", "\n", "\b", "\b\b\b", "a", "bc", " ", "€", "\x1b[K", "\x1b[2K", "\x1b", "[", "K", "\x00"]
STREAMS = st.lists(st.sampled_from(PARTS)).map("".join)


@seed(1)
@settings(max_examples=600)
@given(STREAMS)
def test_any_stream_is_what_the_model_shows(stream: str) -> None:
    """The last line may be gone, if nothing is left of it."""
    expected = [model(line) for line in re.split(r"\r?\n", stream)]
    found = shown(stream.encode())
    assert found == (expected if len(found) == len(expected) else expected[:-1])
    assert len(found) >= len(expected) - (expected[-1] == "")


@seed(1)
@settings(max_examples=400)
@given(
    STREAMS.map(str.encode) | st.binary(max_size=80) | st.lists(st.sampled_from([b"\x1b[3", b"1m", b"\b", b"x", b"\r"])
                                                                 ).map(b"".join),
    st.lists(st.integers(0, 80)),
    st.sampled_from([1, 3, 1 << 20]),
)  # fmt: skip
@example(b"\x1b[31m\rx", [4], 1 << 20)
def test_any_chunking_gives_the_same_lines(stream: bytes, cuts: list[int], longest: int) -> None:
    """For any bytes, whoever asks for the state of the last line meanwhile."""
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "LONGEST", longest)
        assert shown(*(stream[a:b] for a, b in pairwise(edges))) == shown(stream)
        terminal = TerminalLines()
        for byte in stream:
            terminal.feed(bytes([byte]), 0.0)
            state = terminal._state()
            assert "\n" not in state
            assert "\x08" not in state


@pytest.mark.parametrize(
    "unit", [b"x\b", b"x\r", b"xx\b\b\b", b"\x1b[K", b"a\x1b[2Kb", b"\x1b[31m", b"\x1b[1m\b", b"\r", b"\x1b[3"]
)
@pytest.mark.timeout(20)
def test_the_time_grows_with_the_bytes(unit: bytes) -> None:
    """A long line that is then overwritten again and again does not stop clusterkit."""
    stream = b"x" * 500_000 + unit * 200_000 + b"\n"
    assert sum(len(line) for line in shown(stream)) < 3 * len(stream)


def test_a_style_does_not_grow() -> None:
    """A task that only switches colors on fills no memory."""
    (line,) = shown(b"".join(b"\x1b[%dmx\b" % number for number in range(3000)) + b"\n")
    assert len(line) < 100
