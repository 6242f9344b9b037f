"""A scenario: the same work for every competitor; each run of one gives named figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

Figures = dict[str, float]
Competitor = Callable[[Path], Figures]  # takes an empty directory; raises Overdue


@dataclass(frozen=True, slots=True)
class Scenario:
    """The competitors in the order in which they take turns. `missing` is why they can't be had on this machine."""

    name: str
    competitors: Mapping[str, Competitor]
    missing: str | None = None

    def among(self, names: Collection[str] | None) -> Scenario:
        """The same with these competitors alone; None for all."""
        kept = {name: each for name, each in self.competitors.items() if names is None or name in names}
        return replace(self, competitors=kept)
