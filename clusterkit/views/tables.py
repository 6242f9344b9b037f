"""Tables in the style of docker: columns of plain text, which people and `awk` can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterkit.text.durations import shown
from clusterkit.text.printable import columns, fitted, fitted_end, padded, printable

GAP = 3
_NARROW_GAP = 2
_EMPTY = frozenset({"", "-"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, and how the column adapts to a terminal that is too narrow for the whole table.

    Cells may be cut to the width `least`, at their end or, if `is_path` is set, at their beginning. `dropped` is the
    column's place in the order in which columns are left out; 0 if the column is never left out.
    """

    title: str
    dropped: int = 0
    least: int | None = None
    is_path: bool = False
    right: bool = False


def table(kinds: Sequence[Column | str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    return "".join(f"{line}\n" for line in table_lines(kinds, rows, width))


def table_lines(
    kinds: Sequence[Column | str], rows: Sequence[Sequence[str]], width: int | None = None, gap: int = GAP
) -> list[str]:
    """Return the lines of a table, the titles first. `width` is the maximum width; None if the width is not limited.

    If the table is too wide, the gaps become narrower, then columns without a value are left out, then cells are cut,
    and then columns are left out in the order of `dropped`.
    """
    all_kinds = [kind if isinstance(kind, Column) else Column(kind) for kind in kinds]
    cells = [[printable(cell) for cell in row] for row in rows]
    kept = list(range(len(all_kinds)))
    lines = [[kind.title for kind in all_kinds], *cells]
    widths = natural = [max(columns(line[n]) for line in lines) for n in kept]
    if width is not None and _sum(natural, kept, gap) > width:
        gap = _NARROW_GAP
        kept, widths = _fitting(all_kinds, cells, natural, width)
    drawn = [(" " * gap).join(_cell(all_kinds[n], line[n], widths[n]) for n in kept).rstrip() for line in lines]
    return drawn if width is None else [fitted(line, width) for line in drawn]


def _fitting(
    kinds: Sequence[Column], cells: Sequence[Sequence[str]], natural: Sequence[int], width: int
) -> tuple[list[int], list[int]]:
    """Return the numbers of the columns that are kept, and the widths of all columns."""
    kept = list(range(len(kinds)))
    in_order = sorted((n for n in kept if kinds[n].dropped), key=lambda n: kinds[n].dropped)
    empty = [n for n in in_order if all(row[n] in _EMPTY for row in cells)]
    for gone in (*empty, *in_order):
        if _sum(natural, kept, _NARROW_GAP) <= width:
            return kept, list(natural)
        if gone not in empty and _sum(widths := _cut(kinds, natural, kept, width), kept, _NARROW_GAP) <= width:
            return kept, widths
        kept = [n for n in kept if n != gone]
    return kept, _cut(kinds, natural, kept, width)


def _cut(kinds: Sequence[Column], natural: Sequence[int], kept: Sequence[int], width: int) -> list[int]:
    """Return the column widths after narrowing the columns, rightmost first, as far as needed and allowed."""
    widths = list(natural)
    for n in reversed(kept):
        least = kinds[n].least
        if least is not None:
            excess = max(0, _sum(widths, kept, _NARROW_GAP) - width)
            widths[n] = max(min(least, natural[n]), natural[n] - excess)
    return widths


def _sum(widths: Sequence[int], kept: Sequence[int], gap: int) -> int:
    return sum(widths[n] for n in kept) + gap * (len(kept) - 1)


def _cell(kind: Column, text: str, width: int) -> str:
    text = fitted_end(text, width) if kind.is_path and text != kind.title else fitted(text, width)
    return " " * (width - columns(text)) + text if kind.right else padded(text, width)


def size(count: int | None) -> str:
    """Format a number of bytes: `812 MiB`."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1000 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


def age(seconds: float | None) -> str:
    """Format an elapsed time: `12 s`."""
    return "-" if seconds is None else shown(max(0.0, seconds))


def number(value: float | int | None, digits: int = 0, unit: str = "") -> str:
    return "-" if value is None else f"{value:.{digits}f}{unit}"
