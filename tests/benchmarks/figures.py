"""Figures: medians of what was measured, their ratios, and whether a target is met; pure."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Values = Mapping[str, Mapping[str, Sequence[float]]]  # competitor -> figure -> one value a run
OURS = "clusterkit"


class Kind(enum.Enum):
    """What a target looks at."""

    RATIO = "ratio"  # ours over the peer's
    DIFFERENCE = "difference"  # ours less the peer's
    ABSOLUTE = "absolute"  # ours


class Word(enum.StrEnum):
    """What came of a target."""

    MET = "met"
    MISSED = "missed"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Target:
    """A bound for our figure, `least` where more is better."""

    bound: float
    peer: str = ""
    kind: Kind = Kind.RATIO
    least: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a figure of a scenario for each competitor. `ours` names the competitor that is judged."""

    title: str
    scenario: str
    figure: str
    unit: str
    targets: tuple[Target, ...] = ()
    ours: str = OURS


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target, what was reached, and the word for it."""

    target: Target
    reached: float | None
    word: Word


@dataclass(frozen=True, slots=True)
class Judged:
    """A row with its medians, their ratios (ours over each peer's) and verdicts. What is missing was not measured."""

    row: Row
    medians: dict[str, float]
    ratios: dict[str, float]
    verdicts: tuple[Verdict, ...]


def judge(row: Row, values: Values) -> Judged:
    """What a scenario's values say of a row."""
    found = medians(values, row.figure)
    ours = found.get(row.ours)
    ratios = {peer: ours / theirs for peer, theirs in found.items() if peer != row.ours and ours is not None and theirs}
    return Judged(row, found, ratios, tuple(verdict(target, ours, found.get(target.peer)) for target in row.targets))


def medians(values: Values, figure: str) -> dict[str, float]:
    """The median of each competitor that has the figure at all."""
    return {name: statistics.median(found[figure]) for name, found in values.items() if found.get(figure)}


def verdict(target: Target, ours: float | None, theirs: float | None) -> Verdict:
    """Whether a target is met by these medians."""
    reached = _reached(target.kind, ours, theirs)
    if reached is None:
        return Verdict(target, None, Word.UNKNOWN)
    good = reached >= target.bound if target.least else reached <= target.bound
    return Verdict(target, reached, Word.MET if good else Word.MISSED)


def _reached(kind: Kind, ours: float | None, theirs: float | None) -> float | None:
    if ours is None or (theirs is None and kind is not Kind.ABSOLUTE):
        return None
    if kind is Kind.ABSOLUTE or theirs is None:
        return ours
    if kind is Kind.DIFFERENCE:
        return ours - theirs
    return ours / theirs if theirs else None
