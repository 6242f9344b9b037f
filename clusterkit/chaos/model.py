"""The data of a campaign: its baseline, its trials and their outcomes, and a tally of the outcomes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any

from clusterkit.ledger.ledger import ledger_of
from clusterkit.words.campaign import BaselineRecord, InjectionRecord, TallyRow
from clusterkit.words.events import Event
from clusterkit.words.faults import Fault, FaultAction
from clusterkit.words.job import JobSpec
from clusterkit.words.model import TaskType

Timed = Sequence[tuple[float, Event]]  # the events of a run, each as (time in seconds, event)


@dataclass(frozen=True, slots=True)
class Baseline(BaselineRecord):
    """The result of the run without faults, which every trial must match.

    `saving` contains pairs: the step of a checkpoint, and the seconds from the report of the step to that of the
    checkpoint.
    """

    saving: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """A planned run of a campaign: its randomly drawn faults and its seed."""

    number: int
    seed: int
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trial.

    `violations` contains a sentence for each violated invariant; it is empty if the trial passed. `pinned` contains the
    injected faults, with the tasks that were hit as their targets. `directory` is the run directory, and `record` is an
    excerpt of result.json. An `interrupted` trial was ended early with the campaign, and proves nothing about the job.
    """

    trial: Trial
    run_id: str
    directory: str
    duration: float
    violations: tuple[str, ...]
    injections: tuple[InjectionRecord, ...]
    pinned: tuple[Fault, ...]
    record: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class SmallestSchedule:
    """The smallest schedule found that fails like a trial, its violations, and the number of runs needed to find it."""

    trial: Trial
    violations: tuple[str, ...]
    runs: int


def fault_outcomes(job: JobSpec, events: Timed, passed: bool) -> tuple[InjectionRecord, ...]:
    """Return whether the run recovered from each injected fault: it did if it passed, or if the recovery completed."""
    report = ledger_of(job, events).incidents.report()
    times = {number: one.seconds for one in reversed(report.recoveries) for number in one.faults}
    return tuple(
        InjectionRecord(
            fault.fault,
            fault.action,
            tuple(dict.fromkeys(task.type for task in fault.tasks)),
            passed or times.get(fault.number) is not None,
            times.get(fault.number),
        )
        for fault in report.faults
        if fault.done
    )


def by_action(outcomes: Iterable[Outcome]) -> list[TallyRow]:
    """Count how often each action was injected, and how often the job recovered from it."""
    return _tally((one, (None,)) for one in _each_injection(outcomes))


def by_type(outcomes: Iterable[Outcome]) -> list[TallyRow]:
    """Count like `by_action`, but separately for each type of task. Rows without a completed recovery are omitted."""
    return [row for row in _tally((one, one.types) for one in _each_injection(outcomes)) if row.restarts]


def _each_injection(outcomes: Iterable[Outcome]) -> list[InjectionRecord]:
    return [one for outcome in outcomes for one in outcome.injections]


def _tally(counted: Iterable[tuple[InjectionRecord, Sequence[str | None]]]) -> list[TallyRow]:
    found = defaultdict[tuple[str, str | None], list[InjectionRecord]](list)
    for one, kinds in counted:
        for kind in kinds:
            found[one.action, kind].append(one)
    rows = []
    for action, of in product(FaultAction, (None, *TaskType)):
        if ones := found.get((action, of)):
            seconds = sorted(one.seconds for one in ones if one.seconds is not None)
            row = TallyRow(
                action=action,
                type=of,
                injected=len(ones),
                recovered=sum(one.recovered for one in ones),
                restarts=len(seconds),
                p50=nearest_rank(seconds, 50),
                p90=nearest_rank(seconds, 90),
                p100=nearest_rank(seconds, 100),
            )
            rows.append(row)
    return rows


def nearest_rank(seconds: Sequence[float], share: int) -> float | None:
    """Return the time within which `share` percent of these recoveries were complete. `seconds` is sorted."""
    return seconds[-(-share * len(seconds) // 100) - 1] if seconds else None
