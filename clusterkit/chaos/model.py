"""The values of a campaign: its baseline, its trials, and how they went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from clusterkit.words.events import Event
from clusterkit.words.faults import Fault, FaultAction
from clusterkit.words.model import TaskType

Timed = Sequence[tuple[float, Event]]  # a run's events with their times, in seconds of one clock


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the job comes to without faults. Every trial has to match it.

    `checkpoints` are the steps of its checkpoints; `saving` has, for some of them, the time from the report of the step
    to that of the checkpoint; `metrics` has the last value of each metric. Times in seconds.
    """

    duration: float
    last_step: int | None = None
    checkpoints: tuple[int, ...] = ()
    saving: tuple[tuple[int, float], ...] = ()
    metrics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a campaign before it begins: its faults and its seed."""

    number: int
    seed: int
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """What came of one injected fault.

    `types` are those of the tasks that were hit, none for a fault of the checkpoints. `seconds` is how long the
    recovery took; None if nothing had to restart, or the run ended before the recovery did.
    """

    fault: str
    action: FaultAction
    types: tuple[TaskType, ...]
    recovered: bool
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial went: `violations` are sentences, none if it passed; `pinned` are its faults as they were injected.

    `directory` is the run's, `record` what result.json says of the run. One that the campaign's end interrupted says
    nothing about the job.
    """

    trial: Trial
    run_id: str
    directory: str
    duration: float
    violations: tuple[str, ...]
    injections: tuple[FaultOutcome, ...]
    pinned: tuple[Fault, ...]
    record: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest schedule found that fails as a trial did, what it violates, and how many runs the search took."""

    trial: Trial
    violations: tuple[str, ...]
    runs: int
