"""Text in a terminal: its width, where wide characters take two columns and combining ones none; and its lines."""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"
TIED = "\xa0"  # a space at which no line ends
_CODE = re.compile("`[^`]*`")


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


def at_words(text: str, width: int | None, indent: str = "") -> str:
    """The text in lines that end at words but not within `code`, if a width is given; the later lines are indented."""
    if width is None or len(text) <= width:
        return text.replace(TIED, " ")
    import textwrap  # 5 ms

    tied = _CODE.sub(lambda code: code[0].replace(" ", TIED), text)
    lines = textwrap.wrap(tied, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(TIED, " ")


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
