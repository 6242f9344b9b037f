"""Makes text safe to print, whatever a task, a file or a client wrote; measures its width, and wraps it at words."""

from __future__ import annotations

import re
import unicodedata

COLOR = r"\x1b\[[0-9;:]*m"  # matches colors and other styles, which do not change the text itself
NO_STYLE = "\x1b[0m"
Chunk = bytes | memoryview  # output that is ready to be written

_COLOR = re.compile(f"({COLOR})")
# Control characters except the tab, line ends that only Unicode defines, characters that change the direction of text
# and could disguise the text, and surrogates, which can't be encoded.
_HIDDEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
ELLIPSIS = "…"
_CODE = re.compile("`[^`]*`")
_TIED = "\xa0"  # a no-break space


def printable(line: str, color: bool = False) -> str:
    """Replace the control characters in a line by visible symbols. Tabs stay; colors stay only with `color`."""
    if line.isprintable() or not _HIDDEN.search(line):
        return line
    parts = _COLOR.split(line)  # every second part is a color
    parts[::2] = [_HIDDEN.sub(_picture, part) for part in parts[::2]]
    return "".join(parts if color else parts[::2])


def printable_lines(text: str, color: bool = False) -> str:
    """Apply `printable` to each line of a text. Untrusted parts of a line have to be made printable beforehand."""
    if text.isprintable():
        return text
    return "\n".join(printable(line, color) for line in text.split("\n"))


def encoded(lines: list[str]) -> list[Chunk]:
    """Return the lines as one chunk; an empty list if there are none."""
    return ["".join(lines).encode("utf-8", "replace")] if lines else []


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "\ufffd"


def columns(text: str) -> int:
    """Return the width in columns of a text without control characters."""
    return len(text) if text.isascii() else sum(map(_of_character, text))


def fitted(text: str, width: int) -> str:
    """Return the text, cut at its end to at most `width` columns."""
    if columns(text) <= width:
        return text
    return _cut(text, width - 1) + ELLIPSIS if width > 0 else ""


def fitted_end(text: str, width: int) -> str:
    """Return the text, cut at its beginning to at most `width` columns; for paths, whose ends matter."""
    if columns(text) <= width:
        return text
    return ELLIPSIS + _cut(text[::-1], width - 1)[::-1] if width > 0 else ""


def padded(text: str, width: int) -> str:
    """Return the text with spaces after it, at least `width` columns wide."""
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


def at_words(text: str, width: int | None, indent: str = "") -> str:
    """Wrap the text at words outside of `code`, if a width is given. All lines but the first are indented."""
    if width is None or len(text) <= width:
        return text
    import textwrap  # imported here, since the import takes 5 ms

    tied = _CODE.sub(lambda code: code[0].replace(" ", _TIED), text)
    lines = textwrap.wrap(tied, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(_TIED, " ")
