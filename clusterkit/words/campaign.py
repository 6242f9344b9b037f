"""Records of campaigns: the job, the end of each run, and the duration of recoveries."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from clusterkit.words import wire
from clusterkit.words.job import JobSpec

_GREATEST = 1e100
_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)
_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BaselineRecord:
    """The campaign's run without faults: its duration in seconds, its checkpoints' steps, and its last metrics."""

    duration: float
    last_step: int | None = None
    checkpoints: tuple[int, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyRow:
    """Counts for one kind of fault: how often it was injected, and how often a run recovered from it.

    `type` is a task type, or None for all types. `p50`, `p90` and `p100` are percentiles of the recovery seconds.
    """

    action: str
    type: str | None = None
    injected: int
    recovered: int
    restarts: int  # the number of recoveries whose duration is known
    p50: float | None = None
    p90: float | None = None
    p100: float | None = None


@dataclass(frozen=True, slots=True)
class InjectionRecord:
    """Whether a run recovered from an injected fault, and in how many seconds.

    `types` are the types of the tasks that the fault hit; empty for a fault of the checkpoints. `seconds` is None if
    nothing had to restart, or the run ended before the recovery.
    """

    fault: str
    action: str
    types: tuple[str, ...]
    recovered: bool
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RecoveryRecord:
    """When a recovery began and ended, in seconds since the run began, and the number of steps that were lost."""

    at: float
    ended: float | None = None
    lost: int | None = None


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """The parts of a run's result.json that a campaign needs."""

    state: str = ""
    reason: str = ""
    restarts: int = 0
    last_step: int | None = None
    recoveries: tuple[RecoveryRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class ShrunkRecord:
    """The smallest set of faults that the search has found to make the run fail."""

    faults: tuple[str, ...]
    violations: tuple[str, ...]
    runs: int
    replay: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A finished run. `directory` is set only if the run failed or was interrupted: then its directory is kept."""

    run: int
    run_id: str
    seed: int
    faults: tuple[str, ...]
    duration: float
    violations: tuple[str, ...]
    replay: str
    injected: tuple[str, ...] = ()
    directory: str | None = None
    shrunk: ShrunkRecord | None = None
    injections: tuple[InjectionRecord, ...] = ()
    result: ResultRecord = ResultRecord()


@dataclass(frozen=True, slots=True)
class RunningRecord:
    """A run that is still running."""

    run: int
    run_id: str
    seed: int
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """A campaign.

    `begun` and `ended` are wall times. Faults are drawn from the kinds in `used`. `actions` has a row for each kind,
    `recovery_times` a row for each kind and task type. `state` is running, passed, failed, stopped, or lost (the
    campaign's process was killed). `problem` is the reason why the campaign can't continue.
    """

    campaign: str
    state: str
    begun: float
    seed: int
    asked_for: int
    used: tuple[str, ...]
    clusterkit: str = ""
    problem: str = ""
    ended: float | None = None
    command: str = ""
    cwd: str = ""
    rate: float = 0.0
    parallel: int = 1
    metric: str | None = None
    tolerance: float | None = None
    job: JobSpec | None = None
    platform: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    baseline: BaselineRecord | None = None
    runs: tuple[RunRecord, ...] = ()
    interrupted: tuple[RunRecord, ...] = ()  # runs that were cut short when the campaign ended
    running: tuple[RunningRecord, ...] = ()
    actions: tuple[TallyRow, ...] = ()
    recovery_times: tuple[TallyRow, ...] = ()

    @property
    def failing(self) -> tuple[RunRecord, ...]:
        return tuple(run for run in self.runs if run.violations)


def campaign_record(document: Mapping[str, Any], campaign_id: str) -> CampaignRecord:
    """Decode the record of a campaign. Raises ValueError, whose text is a clause, if the record is invalid."""
    try:
        _check_numbers(document)
        record: CampaignRecord = wire.decode(CampaignRecord, {**document, "job": None})
        with suppress(*_DAMAGED):  # the job may have options that this version does not know
            record = replace(record, job=wire.decode(JobSpec, document["job"]))
    except _DAMAGED as error:
        raise ValueError(f"it is damaged ({error})"[:300]) from None
    times = [record.begun, *([] if record.ended is None else [record.ended])]
    if record.campaign != campaign_id or not all(0 <= at < wire.LATEST for at in times):
        raise ValueError("it is damaged")
    return record


def _check_numbers(value: Any) -> None:
    """Raise ValueError for a number that is not finite, or is too large to calculate with."""
    if isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            _check_numbers(item)
    elif isinstance(value, int | float) and not -_GREATEST < value < _GREATEST:
        raise ValueError("a number is too large")
