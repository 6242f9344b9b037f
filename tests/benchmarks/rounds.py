"""Rounds: every competitor of a scenario takes its turn, again and again, so that all meet the same machine."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.children import Overdue, end_everything
from tests.benchmarks.scenario import Competitor, Figures, Scenario
from tests.benchmarks.table import number

Say = Callable[[str], None]
GIVE_UP = 2  # failures of a competitor, after which it is left out: each may take all of its time


@dataclass(slots=True)
class Record:
    """What the runs of all scenarios gave: scenario -> competitor -> figure -> values; and what went wrong."""

    values: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # scenario -> time on the clock


def play(scenario: Scenario, runs: int, base: Path, record: Record, say: Say) -> None:
    """Run a scenario, and add to the record."""
    began = time.monotonic()
    failures = dict.fromkeys(scenario.competitors, 0)
    values = record.values.setdefault(scenario.name, {})
    for run in range(1, runs + 1):
        for name, competitor in scenario.competitors.items():
            if failures[name] >= GIVE_UP:
                continue
            where = f"{scenario.name} {run}/{runs} {name}"
            try:
                figures = _turn(competitor, base)
            except (Overdue, OSError, ValueError, ArithmeticError, AssertionError, LookupError, StopIteration) as error:
                failures[name] += 1
                record.errors.append(f"{where}: {error!s}")
                say(f"{where}: FAILED: {error!s}")
                continue
            for figure, value in figures.items():
                values.setdefault(name, {}).setdefault(figure, []).append(value)
            say(f"{where}: " + ", ".join(f"{figure} {number(value)}" for figure, value in figures.items()))
    record.seconds[scenario.name] = time.monotonic() - began


def _turn(competitor: Competitor, base: Path) -> Figures:
    place = base / "turn"
    place.mkdir()
    try:
        return competitor(place)
    finally:
        end_everything()
        shutil.rmtree(place)
