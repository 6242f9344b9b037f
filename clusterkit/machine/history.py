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
    | last_event_at | the time of the last event |
    | allocations | the number of allocations so far: how often a supervisor began or continued the run |
    | seconds_spent | the total seconds of the previous allocations |
    | newest_attempts | the newest attempt of each task |
    | finished, unfinished | finished attempts; attempts that were unfinished when the journal ended |
    | fault_texts, open_faults, fault_count | texts of injected faults; unhealed faults; the highest fault number |
    | metrics | the newest metrics of each task |
    | successful_task | the task whose success made the job succeed |
    | stop_reason | the reason why the run was stopped for good |
    | result | the result of the last allocation, which may be a suspension |
    """

    began: float | None = None
    last_event_at: float = 0.0
    allocations: int = 0
    seconds_spent: float = 0.0
    newest_attempts: dict[Task, int] = field(default_factory=dict)
    finished: dict[Key, AttemptEnded] = field(default_factory=dict)
    unfinished: dict[Key, AttemptEnded] = field(default_factory=dict)
    restarts: int = 0
    checkpoint: tuple[int, str] | None = None
    step: int | None = None
    metrics: dict[Task, Mapping[str, float | None]] = field(default_factory=dict)
    fault_texts: set[str] = field(default_factory=set)
    open_faults: dict[int, FaultInjected] = field(default_factory=dict)
    fault_count: int = 0
    successful_task: Task | None = None
    stop_reason: str | None = None
    result: RunResult | None = None

    @property
    def final(self) -> RunResult | None:
        """Return the result if the run has ended; None if the run was only suspended."""
        return self.result if self.result is not None and self.result.final else None

    def lost_attempts(self) -> list[AttemptEnded]:
        """For each attempt whose end is not in the journal, return a record that marks the attempt as lost."""
        end = self.last_event_at - (self.began or 0.0)
        return [replace(self.unfinished[key], ended=end, exit=Exit(lost=True)) for key in sorted(self.unfinished)]
