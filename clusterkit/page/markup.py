"""Elements of Markdown. Text from tasks, files and users goes into code spans and blocks, where it is inert."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clusterkit.text.printable import printable

LONGEST_LINE = 400  # characters
_TICKS = re.compile("`+")


def code(text: str, longest: int = LONGEST_LINE) -> str:
    """A code span, delimited by more backticks than the text has in a row."""
    line = _cut(" ".join(text.split("\n")), longest)
    if not line.strip():
        return ""
    fence = "`" * (_longest_run(line) + 1)
    space = " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}"


def block(lines: Iterable[str], language: str = "text") -> str:
    """A code block, whose fence is longer than any in its lines."""
    body = [_cut(line) for text in lines for line in text.split("\n")]
    fence = "`" * max(3, max(map(_longest_run, body), default=0) + 1)
    return "\n".join([f"{fence}{language}", *body, fence])


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, whose cells are Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def few(rows: Sequence[Sequence[str]], most: int) -> tuple[Sequence[Sequence[str]], str]:
    """The first rows, and a sentence that counts the others."""
    left = len(rows) - most
    return rows[:most], f"\n\n{left} more rows are left out." if left > 0 else ""


def _cut(line: str, longest: int = LONGEST_LINE) -> str:
    line = printable(line)
    return line if len(line) <= longest else f"{line[:longest]}…"


def _longest_run(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
