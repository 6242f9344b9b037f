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
    """The result of the run without faults, which every trial has to match. Times in seconds.

    `checkpoints` are the steps of its checkpoints; `saving` has, for some of them, the time from the report of the step
    to that of the checkpoint; `metrics` has the last value of each metric.
    """

    duration: float
    last_step: int | None = None
    checkpoints: tuple[int, ...] = ()
    saving: tuple[tuple[int, float], ...] = ()
    metrics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a campaign as it was drawn: its faults and its seed."""

    number: int
    seed: int
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """Whether, and how fast, the job recovered from one injected fault.

    `types` are the types of the tasks that it hit, empty for a fault of the checkpoints. `seconds` is the duration of
    the recovery; None if nothing had to restart, or the run ended first.
    """

    fault: str
    action: FaultAction
    types: tuple[TaskType, ...]
    recovered: bool
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trial: `violations` are sentences, empty if it passed; `pinned` are its faults as injected.

    `directory` is the run's, and `record` an excerpt of its result.json. An `interrupted` trial, which the end of the
    campaign cut short, proves nothing about the job.
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
