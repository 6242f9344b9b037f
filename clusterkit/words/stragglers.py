"""Stragglers: the tasks that were persistently slower than their peers in a run."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.words.decided import Slowness
from clusterkit.words.model import Task


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
