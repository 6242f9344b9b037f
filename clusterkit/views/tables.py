"""Tables in the style of docker: columns of plain text, which people and `awk` can read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from clusterkit.words.durations import shown
from clusterkit.words.printable import printable

GAP = "   "


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns are as wide as their longest cell; the last one is not padded."""
    lines = [titles, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip_longest(*lines, fillvalue="")]
    return "".join(
        GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )


def size(count: int | None) -> str:
    """Bytes as text: `812 MiB`."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1000 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


def age(seconds: float | None) -> str:
    """An elapsed time as text: `12 s`."""
    return "-" if seconds is None else shown(max(0.0, seconds))


def number(value: float | int | None, digits: int = 0, unit: str = "") -> str:
    """A number, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}{unit}"
