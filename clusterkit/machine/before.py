"""The history of a run that continues in another allocation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from clusterkit.words.events import FaultInjected
from clusterkit.words.model import Task
from clusterkit.words.outcome import AttemptEnded, Exit, RunResult

Key = tuple[Task, int]  # task, attempt


@dataclass(slots=True)
class Before:
    """The history of a run; empty for a new run. Times in seconds of the run's clock, which its allocations share.

    | field | meaning |
    | --- | --- |
    | began | when the run began; None if it did not |
    | last | when something happened last |
    | allocations | how often a supervisor began or continued it |
    | spent | seconds that it spent in allocations that are over |
    | newest | the newest attempt of each task |
    | ended, live | attempts that are over; and those that were not when the journal ended, as far as they are known |
    | faults, open, injected | the texts of injected faults, the faults not healed, and the highest number of a fault |
    | metrics | the newest of each task |
    | done | the task whose success was the job's |
    | stopped | why the run was being ended for good |
    | result | how it was ended, or suspended, in the last allocation |
    """

    began: float | None = None
    last: float = 0.0
    allocations: int = 0
    spent: float = 0.0
    newest: dict[Task, int] = field(default_factory=dict)
    ended: dict[Key, AttemptEnded] = field(default_factory=dict)
    live: dict[Key, AttemptEnded] = field(default_factory=dict)
    restarts: int = 0
    checkpoint: tuple[int, str] | None = None
    step: int | None = None
    metrics: dict[Task, Mapping[str, float | None]] = field(default_factory=dict)
    faults: set[str] = field(default_factory=set)
    open: dict[int, FaultInjected] = field(default_factory=dict)
    injected: int = 0
    done: Task | None = None
    stopped: str | None = None
    result: RunResult | None = None

    @property
    def final(self) -> RunResult | None:
        """The result with which the run ended; None if it was only suspended."""
        return self.result if self.result is not None and self.result.final else None

    def lost(self) -> list[AttemptEnded]:
        """The attempts whose end was not recorded."""
        over = self.last - (self.began or 0.0)
        return [replace(self.live[key], ended=over, exit=Exit(lost=True)) for key in sorted(self.live)]
