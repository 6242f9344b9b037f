"""Curves of any length in bounded memory: points in buckets of time, which become wider when there are too many."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

FINEST = 0.05  # seconds of a bucket at first
MOST_BUCKETS = 2048  # of a curve
FEWEST_BUCKETS = 64  # of a curve, where there are very many of them
BUDGET = 400_000  # buckets of all curves of a run
MOST_CURVES = 4000
LONGEST_NAME = 200  # characters

Points = dict[str, list[float]]


class Curve:
    """One series. Of each bucket it keeps the time and value of the last point, the lowest and the highest value."""

    def __init__(self) -> None:
        self.count = 0
        self.last: float | None = None
        self._width = FINEST
        self._times, self._values = array("d"), array("d")
        self._lows, self._highs = array("d"), array("d")

    def __len__(self) -> int:
        return len(self._times)

    def add(self, at: float, value: float, most: int = MOST_BUCKETS) -> None:
        """Add a point; a time before the last one counts as that one."""
        self.count += 1
        self.last = value
        if self._times:
            at = max(at, self._times[-1])
            if math.floor(at / self._width) == math.floor(self._times[-1] / self._width):
                self._times[-1], self._values[-1] = at, value
                self._lows[-1], self._highs[-1] = min(self._lows[-1], value), max(self._highs[-1], value)
                return
        for column, one in zip(self._columns, (at, value, value, value), strict=True):
            column.append(one)
        self.shrink(most)

    def shrink(self, most: int) -> None:
        """Double the width of the buckets until there are no more than that."""
        while len(self._times) > most:
            self._width *= 2
            self._merge()

    def points(self, begin: float, end: float, most: int) -> Points:
        """The points between two times and one on each side of them, as `most` buckets at most."""
        span = [number for number, at in enumerate(self._times) if begin <= at <= end]
        first, last = (span[0], span[-1]) if span else (0, -1)
        if not span:
            first = next((number for number, at in enumerate(self._times) if at > end), len(self._times))
            last = first - 1
        chosen = range(max(0, first - 1), min(len(self._times), last + 2))
        step = max(1, math.ceil(len(chosen) / max(1, most)))
        groups = [chosen[number : number + step] for number in range(0, len(chosen), step)]
        return {
            "t": [round(self._times[group[-1]], 3) for group in groups],
            "v": [self._values[group[-1]] for group in groups],
            "low": [min(self._lows[number] for number in group) for group in groups],
            "high": [max(self._highs[number] for number in group) for group in groups],
        }

    @property
    def _columns(self) -> tuple[array[float], ...]:
        return self._times, self._values, self._lows, self._highs

    def _merge(self) -> None:
        times, values, lows, highs = (array("d") for _ in range(4))
        bucket = -math.inf
        for at, value, low, high in zip(*self._columns, strict=True):
            if math.floor(at / self._width) == bucket:
                times[-1], values[-1] = at, value
                lows[-1], highs[-1] = min(lows[-1], low), max(highs[-1], high)
                continue
            bucket = math.floor(at / self._width)
            for column, one in zip((times, values, lows, highs), (at, value, low, high), strict=True):
                column.append(one)
        self._times, self._values, self._lows, self._highs = times, values, lows, highs


@dataclass(slots=True)
class Curves:
    """The curves of a run by name and task, such as `loss/worker:1`. All of them together are bounded, too."""

    _curves: dict[tuple[str, str], Curve] = field(default_factory=dict)
    _most: int = MOST_BUCKETS
    _buckets: int = 0

    def add(self, name: str, task: str, at: float, value: float) -> bool:
        """Add a point; return whether there is such a curve, which there is not for names beyond MOST_CURVES."""
        if not math.isfinite(value):
            return False
        key = (name[:LONGEST_NAME], task)
        if (curve := self._curves.get(key)) is None:
            if len(self._curves) >= MOST_CURVES:
                return False
            curve = self._curves[key] = Curve()
        before = len(curve)
        curve.add(at, value, self._most)
        self._buckets += len(curve) - before
        if self._buckets > BUDGET and self._most > FEWEST_BUCKETS:
            self._narrow()
        return True

    def get(self, name: str, task: str) -> Curve | None:
        return self._curves.get((name[:LONGEST_NAME], task))

    def keys(self) -> Iterator[tuple[str, str]]:
        return iter(self._curves)

    def _narrow(self) -> None:
        self._most //= 2
        for curve in self._curves.values():
            curve.shrink(self._most)
        self._buckets = sum(map(len, self._curves.values()))
