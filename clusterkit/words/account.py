"""The account of a run, as `result.json` holds it: recovery report, goodput, start-up and stragglers."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.words.decided import Slowness
from clusterkit.words.goodput import Goodput
from clusterkit.words.model import Task
from clusterkit.words.recovery import RecoveryReport
from clusterkit.words.startup import Startup


@dataclass(frozen=True, slots=True)
class Straggler:
    """An attempt that was about `factor` times as slow as its peers; `why` says what was measured, about `it`.

    `at` and `until` are seconds since the run began; `until` is None if it still was when the run ended.
    """

    task: Task
    attempt: int
    at: float
    slowness: Slowness
    factor: float
    why: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Account(RecoveryReport):
    """The recovery report with what the run's time went into. A result of an older version has only the former."""

    goodput: Goodput | None = None
    startup: Startup | None = None
    stragglers: tuple[Straggler, ...] = ()
