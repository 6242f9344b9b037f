"""The columns of a text."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from clusterkit.text.columns import at_words, columns, fitted, fitted_end, padded


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("été", 3), ("e\u0301", 1), ("训练", 4), ("━─│…", 4), ("😀", 2), ("a\u200db", 2), ("ｗ", 2)],
)
def test_columns(text: str, width: int) -> None:
    """East Asian characters and emoji are wide, combining ones are on another."""
    assert columns(text) == width


@pytest.mark.parametrize(
    ("text", "width", "begin", "end"),
    [
        ("train.py", 8, "train.py", "train.py"),
        ("train.py", 5, "trai…", "…n.py"),
        ("训练.py", 6, "训练.…", "…练.py"),
        ("训练.py", 4, "训…", "….py"),  # no half character
        ("abc", 1, "…", "…"),
        ("abc", 0, "", ""),
    ],
)
def test_what_does_not_fit_is_cut(text: str, width: int, begin: str, end: str) -> None:
    """At its end, or at its beginning."""
    assert fitted(text, width) == begin
    assert fitted_end(text, width) == end


@seed(1)
@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])), st.integers(-1, 30))
def test_it_fits(text: str, width: int) -> None:
    """Any text into any width."""
    assert columns(fitted(text, width)) <= max(width, 0)
    assert columns(fitted_end(text, width)) <= max(width, 0)
    assert columns(padded(text, width)) == max(columns(text), width)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("a b c", None, ["a b c"]),
        ("a b c", 5, ["a b c"]),
        ("aa bb cc", 5, ["aa bb", "  cc"]),
        ("  aa bb-cc", 6, ["  aa", "  bb-cc"]),
        ("See /a/long/path now", 8, ["See", "  /a/long/path", "  now"]),
        ("Run `a b c` now", 8, ["Run", "  `a b c`", "  now"]),
        ("1\xa0of 2", 4, ["1 of", "  2"]),
        ("", 4, [""]),
    ],
)
def test_lines_end_at_words(text: str, width: int | None, lines: list[str]) -> None:
    """But not within code in backticks, nor at spaces that tie words; long words stay whole."""
    assert at_words(text, width, "  ").split("\n") == lines
