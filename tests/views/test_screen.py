"""The screen: bytes for a terminal, and what they come to there."""

from __future__ import annotations

import os
import random
import select
from collections.abc import Iterator

import pytest

from clusterkit.views import screen as screen_module
from clusterkit.views.screen import FREE, Screen, is_screen
from tests.terminal import Terminal, resize


class Pair:
    """A screen on a terminal of 40 columns; `lowest` is what its lowest line says."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        resize(self.slave, 40)
        self.lowest = "1 running"
        self.widths: list[int] = []
        self.screen = Screen(self.slave, self.says, group=1)

    def says(self, width: int) -> str:
        """What is shown in so many columns."""
        self.widths.append(width)
        return self.lowest[: max(width, 0)]

    def written(self) -> str:
        """What was written since the last call."""
        data = b""
        while select.select([self.master], [], [], 0)[0]:
            data += os.read(self.master, 1 << 16)
        return data.decode().replace("\r\n", "\n")


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A screen that looks at its lowest line each time."""
    monkeypatch.setattr(screen_module, "REFRESH", 0.0)
    made = Pair()
    yield made
    os.close(made.master)
    os.close(made.slave)


def test_the_lowest_line_is_erased_before_lines_and_drawn_after_them(pair: Pair) -> None:
    """It is written over where it changes alone, and not written where it does not."""
    pair.screen.write([])
    assert pair.written() == "\r1 running\x1b[K"
    pair.screen.write([b"a\n", b"b\n"])
    assert pair.written() == "\r\x1b[Ja\nb\n1 running"
    pair.screen.write([])
    assert pair.written() == ""
    pair.lowest = "2 down"
    pair.screen.write([])
    assert pair.written() == "\r2 down\x1b[K"
    pair.lowest = ""
    pair.screen.write([])
    assert pair.written() == "\r\x1b[J"
    pair.screen.write([b"c\n"])
    assert pair.written() == "c\n"


def test_nothing_is_left_of_it_at_the_end(pair: Pair) -> None:
    """And nothing is drawn after that."""
    pair.screen.write([b"a\n"])
    pair.screen.end([b"b\n"])
    pair.screen.write([b"c\n"])
    pair.screen.end()
    assert pair.written() == "a\n1 running\r\x1b[Jb\nc\n"
    assert pair.screen.patience is None


def test_it_has_the_width_that_the_terminal_has_now(pair: Pair) -> None:
    """There is room for ^C; what a narrower terminal has wrapped is erased as well; one without a width has 80."""
    pair.lowest = "x" * 100
    pair.screen.write([])
    assert pair.written() == f"\r{'x' * 36}\x1b[K"
    resize(pair.slave, 10)
    pair.screen.write([])
    assert pair.written() == f"\r\x1b[3A\x1b[J{'x' * 6}"
    for columns in (3, 0):
        resize(pair.slave, columns)
        pair.screen.write([])
    assert pair.widths == [40 - FREE, 10 - FREE, 3 - FREE, 80 - FREE]


def test_a_command_in_the_background_draws_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are written; the prompt that is there now is not erased."""
    pair.screen.write([b"a\n"])
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: 2)
    pair.screen.write([b"b\n"])
    pair.screen.write([])
    assert pair.written() == "a\n1 runningb\n"
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: 1)
    pair.screen.write([b"c\n"])
    assert pair.written() == "c\n1 running"


def test_a_pipe_gets_lines_alone() -> None:
    """Also where a lowest line is asked for."""
    source, sink = os.pipe()
    screen = Screen(sink, lambda width: "never", group=1)
    screen.write([b"a\n"])
    screen.end([b"b\n"])
    os.close(sink)
    assert os.read(source, 100) == b"a\nb\n"
    os.close(source)


def test_whatever_comes_the_lines_are_whole_and_the_lowest_line_is_below(pair: Pair) -> None:
    """Random lines and states, on a terminal that wraps; a ^C is typed now and then."""
    rng, terminal, expected = random.Random(3), Terminal(40), list[str]()
    for number in range(500):
        lines = [f"line {number} {'y' * rng.randrange(90)}." for _ in range(rng.choice((0, 0, 1, 3)))]
        pair.lowest = rng.choice(("", "4 running", "━" * 60, "x" * rng.randrange(100)))
        pair.screen.write([f"{line}\n".encode() for line in lines])
        terminal.write(pair.written())
        expected += [line[at : at + 40] for line in lines for at in range(0, len(line), 40)]
        assert terminal.lines() == [*expected, *([pair.lowest[:36]] if pair.lowest else [])]
        if pair.lowest and rng.random() < 0.2:
            terminal.write("^C")
            pair.lowest = f"!{pair.lowest}"
            pair.screen.write([])
            terminal.write(pair.written())
    pair.screen.end()
    terminal.write(pair.written())
    assert terminal.lines() == expected


@pytest.mark.parametrize(
    ("variables", "can"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm-color", "PAGER": "cat", "GIT_PAGER": "cat"}, False),  # `!` in a notebook
        ({"TERM": "xterm-color", "PAGER": "less"}, True),
    ],
)
def test_not_every_terminal_can_redraw(
    variables: dict[str, str], can: bool, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TERM says so, and a notebook in its own way; a file never can."""
    for name in ("TERM", "PAGER", "GIT_PAGER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with os.fdopen(os.dup(pair.slave), "w") as terminal, open(os.devnull, "w") as file:  # noqa: PTH123
        assert is_screen(terminal) is can
        assert not is_screen(file)
