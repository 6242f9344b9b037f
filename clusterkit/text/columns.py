"""The width of text in a terminal: wide characters take two columns, combining ones none."""

from __future__ import annotations

import unicodedata

ELLIPSIS = "…"


def columns(text: str) -> int:
    """The columns of a text without control characters."""
    return len(text) if text.isascii() else sum(map(_of_character, text))


def fitted(text: str, width: int) -> str:
    """The text, cut at its end to at most so many columns."""
    if columns(text) <= width:
        return text
    return _cut(text, width - 1) + ELLIPSIS if width > 0 else ""


def fitted_end(text: str, width: int) -> str:
    """The text, cut at its beginning; for paths, whose ends matter."""
    if columns(text) <= width:
        return text
    return ELLIPSIS + _cut(text[::-1], width - 1)[::-1] if width > 0 else ""


def padded(text: str, width: int) -> str:
    """The text with spaces after it, at least so many columns in all."""
    return text + " " * (width - columns(text))


def _cut(text: str, width: int) -> str:
    used = 0
    for number, character in enumerate(text):
        used += _of_character(character)
        if used > width:
            return text[:number]
    return text


def _of_character(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
