"""What is safe to print, and whether it has colors."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from clusterkit.text.printable import printable, printable_lines
from clusterkit.views.screen import wants_color

# What no terminal may get: it moves the cursor, talks to the terminal, or makes text read as what it is not.
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain é 😀", "plain é 😀"),
        ("tab\tand \x1b[31mcolor\x1b[0m", "tab\tand color"),
        ("\x00\x07\x08\x0b", "␀␇␈␋"),
        ("two\nlines\r\n", "two␊lines␍␊"),
        ("rubout\x7f", "rubout␡"),
        ("clear\x1b[2J up\x1b[A and \x9b2J", "clear␛[2J up␛[A and \ufffd2J"),
        ("\x1b]0;title\x07\x1b]52;c;Y29weQ==\x1b\\", "␛]0;title␇␛]52;c;Y29weQ==␛\\"),
        ("\x1bP1;2|q\x1b\\", "␛P1;2|q␛\\"),
        ("\x1b\x1b[0m[2J", "␛[2J"),  # without the color in the midst
        ("a\u202eb\u2066c\u2028d", "a\ufffdb\ufffdc\ufffdd"),
        ("half \ud83d and \udcff", "half \ufffd and \ufffd"),
        ("שלום \u200f", "שלום \u200f"),  # a mark of one character's direction, which people write
    ],
)
def test_control_characters_are_shown_as_pictures(line: str, shown: str) -> None:
    """A task can't ring the bell, erase what others wrote, set a title or forge a line; tabs stay."""
    assert printable(line) == shown
    assert printable_lines(line) == shown.replace("␊", "\n")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\x1b[31mred\x1b[0m \x1b[38;5;9m\x1b[m", "\x1b[31mred\x1b[0m \x1b[38;5;9m\x1b[m"),
        ("\x1b[31mred\x1b[2J", "\x1b[31mred␛[2J"),
        ("\x1b[?25l\x1b[3", "␛[?25l␛[3"),
    ],
)
def test_colors_are_let_through_on_demand(line: str, shown: str) -> None:
    """Colors and other styles, and no other sequence."""
    assert printable(line, color=True) == shown


@seed(1)
@given(st.text(st.sampled_from("a\x1b[0;31mJ\x9b\x07\n\r\t\x85\u202e\ud800é") | st.characters()), st.booleans())
def test_nothing_that_acts_is_left(text: str, color: bool) -> None:
    """Of any text, and doing it twice is doing it once."""
    for shown in (printable(text, color), printable_lines(text, color)):
        assert not ACTS.search(re.sub(r"\x1b\[[0-9;:]*m", "", shown) if color else shown)
        assert printable_lines(shown, color) == shown
    assert "\n" not in printable(text, color)


@pytest.mark.parametrize(
    ("asked", "environment", "is_terminal", "wants"),
    [
        (None, {}, True, True),
        (None, {}, False, False),
        (True, {"NO_COLOR": "1", "TERM": "dumb"}, False, True),
        (False, {"FORCE_COLOR": "1"}, True, False),
        (None, {"NO_COLOR": "1"}, True, False),
        (None, {"NO_COLOR": ""}, True, True),
        (None, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        (None, {"FORCE_COLOR": "1"}, False, True),
        (None, {"FORCE_COLOR": ""}, False, False),
        (None, {"FORCE_COLOR": "3", "TERM": "dumb"}, False, True),
        (None, {"CLICOLOR_FORCE": "1"}, False, True),
        (None, {"CLICOLOR_FORCE": "0"}, False, False),
        (None, {"TERM": "dumb"}, True, False),
        (None, {"TERM": "xterm"}, True, True),
        (None, {"TERM": "xterm-color", "PAGER": "cat", "GIT_PAGER": "cat", "FORCE_COLOR": "1"}, True, False),
        (True, {"TERM": "xterm-color", "PAGER": "cat", "GIT_PAGER": "cat"}, True, True),
        (None, {"TERM": "xterm-color", "PAGER": "less", "FORCE_COLOR": "1"}, True, True),
    ],
)
def test_who_decides_on_colors(asked: bool | None, environment: dict[str, str], is_terminal: bool, wants: bool) -> None:
    """The flag, then NO_COLOR, then a notebook, then FORCE_COLOR, then the terminal."""
    assert wants_color(asked, environment, is_terminal) is wants
