"""Sentences in lines that end at words."""

from __future__ import annotations

import pytest

from clusterkit.text.printable import at_words


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("a b c", None, ["a b c"]),
        ("a b c", 5, ["a b c"]),
        ("aa bb cc", 5, ["aa bb", "  cc"]),
        ("  aa bb-cc", 6, ["  aa", "  bb-cc"]),
        ("See /a/long/path now", 8, ["See", "  /a/long/path", "  now"]),
        ("Run `a b c` now", 8, ["Run", "  `a b c`", "  now"]),
        ("", 4, [""]),
    ],
)
def test_lines_end_at_words(text: str, width: int | None, lines: list[str]) -> None:
    """But not within code in backticks; long words stay whole."""
    assert at_words(text, width, "  ").split("\n") == lines
