"""The history of a run that continues in another allocation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from clusterkit.words.events import FaultInjected
from clusterkit.words.model import Task
from clusterkit.words.outcome import AttemptEnded, Exit, RunResult

Key = tuple[Task, int]  # task, attempt


@dataclass(slots=True)
class RunHistory:
    """The history of a run; empty for a new run. Times are in seconds of the run's clock, which all allocations share.

    | field | meaning |
    | --- | --- |
    | began | when the run began; None if it has not begun |
    | last | the time of the last event |
    | allocations | the number of allocations so far: how often a supervisor began or continued the run |
    | spent | the total seconds of the previous allocations |
    | newest | the newest attempt of each task |
    | ended, live | finished attempts; attempts that were unfinished when the journal ended |
    | faults, open, injected | the texts of injected faults, the unhealed faults, and the highest fault number |
    | metrics | the newest metrics of each task |
    | done | the task whose success made the job succeed |
    | stopped | the reason for which the run was ended for good |
    | result | the result of the last allocation: final, or that of a suspension |
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
        """Return the result if the run has ended; None if the run was only suspended."""
        return self.result if self.result is not None and self.result.final else None

    def lost(self) -> list[AttemptEnded]:
        """Return the attempts whose end was not recorded, as lost attempts."""
        over = self.last - (self.began or 0.0)
        return [replace(self.live[key], ended=over, exit=Exit(lost=True)) for key in sorted(self.live)]
