"""The columns of a text."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from clusterkit.text.printable import columns, fitted, fitted_end, padded


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
