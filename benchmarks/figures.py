"""Figures: medians of what was measured, ratios, and whether a target is met; pure."""

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
    """A row with its medians, its ratios (ours over each peer's) and verdicts. What is missing was not measured."""

    row: Row
    medians: dict[str, float]
    ratios: dict[str, float]
    verdicts: tuple[Verdict, ...]


def judge(row: Row, values: Values) -> Judged:
    """What a scenario's values say of a row."""
    measured = {name: found[row.figure] for name, found in values.items() if found.get(row.figure)}
    ours = measured.get(row.ours, ())
    ratios = {name: ratio(ours, theirs) for name, theirs in measured.items() if name != row.ours}
    return Judged(
        row,
        medians(values, row.figure),
        {name: found for name, found in ratios.items() if found is not None},
        tuple(verdict(target, ours, measured.get(target.peer, ())) for target in row.targets),
    )


def medians(values: Values, figure: str) -> dict[str, float]:
    """The median of each competitor that has the figure at all."""
    return {name: statistics.median(found[figure]) for name, found in values.items() if found.get(figure)}


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The median of each round's own ratio, which a machine that is slower in some rounds moves least.

    Of the medians, where one of the two failed in a round, so that it is not known which values belong together.
    """
    if not ours or not theirs or not all(theirs):
        return None
    if len(ours) == len(theirs):
        return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    return statistics.median(ours) / statistics.median(theirs)


def verdict(target: Target, ours: Sequence[float], theirs: Sequence[float]) -> Verdict:
    """Whether a target is met by these values, one a round."""
    reached = _reached(target.kind, ours, theirs)
    if reached is None:
        return Verdict(target, None, Word.UNKNOWN)
    good = reached >= target.bound if target.least else reached <= target.bound
    return Verdict(target, reached, Word.MET if good else Word.MISSED)


def _reached(kind: Kind, ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    if kind is Kind.RATIO:
        return ratio(ours, theirs)
    if not ours or (not theirs and kind is Kind.DIFFERENCE):
        return None
    return statistics.median(ours) - (statistics.median(theirs) if kind is Kind.DIFFERENCE else 0.0)
