"""Campaigns: many runs of one job, each with faults of its own, beside one run without any."""

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
    """What the job does where nothing is broken: what every run of the campaign has to come to.

    `checkpoints` are the steps at which it wrote one, `saving` some of them with the time from the report of the step
    to that of the checkpoint, `metrics` are the last value of each. Times in seconds.
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
    """What came of one fault that was injected.

    `types` are those of the tasks that were hit, none for a fault of the checkpoints. `seconds` is how long the
    recovery took, None where nothing had to restart, or the run did not live to see it.
    """

    fault: str
    action: FaultAction
    types: tuple[TaskType, ...]
    recovered: bool
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial went: `violations` are sentences, none where the run passed; `pinned` are its faults as they fell.

    `directory` is the run's, `record` what result.json says of the run.
    """

    trial: Trial
    run_id: str
    directory: str
    duration: float
    violations: tuple[str, ...]
    injections: tuple[FaultOutcome, ...]
    pinned: tuple[Fault, ...]
    record: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest schedule found that still fails as a trial did, what it violates, and the runs that it took."""

    trial: Trial
    violations: tuple[str, ...]
    runs: int
