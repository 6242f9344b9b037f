"""The table: a line of medians a measure, and under it what was asked for and what came of it; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.figures import Judged, Kind, Verdict, Word

PEERS = ("cold", "shell", "honcho", "mpr", "torchrun", "limit")
HEADS = ("clusterkit", "its cold start", "shell", "honcho", "multi_process_runner", "torchrun", "physical limit")
NOTHING = "–"


def table(judged: Sequence[Judged]) -> str:
    """All of it, ready to be printed."""
    lines: list[tuple[str, ...]] = [("measure (medians)", "unit", *HEADS)]
    below: list[list[str]] = [[]]
    for row in judged:
        lines.append((row.row.title, row.row.unit, *cells(row)))
        below.append([sentence(verdict) for verdict in row.verdicts])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    shown = []
    for line, verdicts in zip(lines, below, strict=True):
        first, *rest = (
            cell.ljust(w) if n < 2 else cell.rjust(w) for n, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        shown.append("  ".join([first, *rest]).rstrip())
        shown += [f"    {verdict}" for verdict in verdicts]
    return "\n".join([*shown, "", summary(judged)])


def cells(judged: Judged) -> tuple[str, ...]:
    """Our figure and the peers', in the order of the columns."""
    return tuple(number(judged.medians.get(name)) for name in (judged.row.ours, *PEERS))


def sentence(verdict: Verdict) -> str:
    """`0.47 of honcho, asked for: at most 0.5: met`."""
    target = verdict.target
    asked = f"at {'least' if target.least else 'most'} {target.bound:g}"
    reached = number(verdict.reached)
    what = {
        Kind.RATIO: f"{reached} of {target.peer}",
        Kind.DIFFERENCE: f"{reached} more than {target.peer}",
        Kind.ABSOLUTE: reached,
    }[target.kind]
    return f"{what}, asked for: {asked}: {verdict.word}"


def summary(judged: Iterable[Judged]) -> str:
    """How many targets are met."""
    words = [verdict.word for row in judged for verdict in row.verdicts]
    counts = ", ".join(f"{words.count(word)} {word}" for word in Word if word in words)
    return f"targets: {counts or 'none'}"


def number(value: float | None) -> str:
    """Three digits or a little more; a dash for what there is not."""
    if value is None:
        return NOTHING
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
