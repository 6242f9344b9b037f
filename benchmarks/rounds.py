"""Rounds: every competitor of a scenario takes its turn, again and again, so that all meet the same machine."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.children import end_everything
from benchmarks.scenario import Competitor, Figures, Scenario
from benchmarks.table import number

ProgressPrinter = Callable[[str], None]
GIVE_UP = 2  # failures of a competitor, after which it is left out: each may take all of its time


@dataclass(slots=True)
class Record:
    """What the runs of all scenarios gave: scenario -> competitor -> figure -> values; and what went wrong."""

    values: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    rounds: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # scenario -> time on the clock


class Rounds:
    """All scenarios in each round; a round that would end past the limit is not begun, save the first."""

    def __init__(self, scenarios: Sequence[Scenario], base: Path, say: ProgressPrinter) -> None:
        self._scenarios = scenarios
        self._base = base
        self._say = say
        self._failures = Counter[tuple[str, str]]()
        self.record = Record()

    def play(self, runs: int, minutes: float) -> None:
        """Add to the record."""
        began, longest = time.monotonic(), 0.0
        for run in range(1, runs + 1):
            start = time.monotonic()
            if run > 1 and start - began + longest > minutes * 60:
                self._say(f"{run - 1} rounds are all that fit into {minutes:g} minutes on this machine.")
                return
            for scenario in self._scenarios:
                self._round(scenario, f"{run}/{runs} {scenario.name}")
            self.record.rounds = run
            longest = max(longest, time.monotonic() - start)

    def _round(self, scenario: Scenario, where: str) -> None:
        began = time.monotonic()
        values = self.record.values.setdefault(scenario.name, {})
        for name, competitor in scenario.competitors.items():
            if self._failures[scenario.name, name] >= GIVE_UP:
                continue
            try:
                figures = _turn(competitor, self._base)
            except Exception as error:  # whatever it is, the others go on
                self._failures[scenario.name, name] += 1
                self.record.errors.append(f"{where} {name}: {type(error).__name__}: {error}")
                self._say(f"{where} {name}: FAILED: {type(error).__name__}: {error}")
                continue
            for figure, value in figures.items():
                values.setdefault(name, {}).setdefault(figure, []).append(value)
            self._say(f"{where} {name}: " + ", ".join(f"{figure} {number(value)}" for figure, value in figures.items()))
        spent = self.record.seconds
        spent[scenario.name] = spent.get(scenario.name, 0.0) + time.monotonic() - began


def _turn(competitor: Competitor, base: Path) -> Figures:
    place = base / "turn"
    place.mkdir()
    try:
        return competitor(place)
    finally:
        end_everything()
        shutil.rmtree(place)
