"""The tally of a campaign: how often each fault was injected and recovered from, and how long recoveries took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clusterkit.chaos.model import FaultOutcome, Outcome, Timed
from clusterkit.ledger.ledger import ledger_of
from clusterkit.words.faults import FaultAction
from clusterkit.words.job import JobSpec
from clusterkit.words.model import TaskType

PERCENTILES = (50, 90, 100)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the tally: for an action, or for an action and the type of task that it hit."""

    action: FaultAction
    type: TaskType | None
    injected: int
    recovered: int
    seconds: tuple[float, ...]  # of each recovery, the shortest first

    def percentile(self, share: int) -> float | None:
        """Return the time within which `share` percent of the recoveries were complete."""
        if not self.seconds:
            return None
        return self.seconds[min(len(self.seconds) - 1, max(0, -(-share * len(self.seconds) // 100) - 1))]


def fault_outcomes(job: JobSpec, events: Timed, passed: bool) -> tuple[FaultOutcome, ...]:
    """Return the outcome of each injected fault. It counts as recovered if the run passed or the recovery completed."""
    report = ledger_of(job, events).incidents.report()
    times = {number: one.seconds for one in reversed(report.recoveries) for number in one.faults}
    return tuple(
        FaultOutcome(
            fault.fault,
            fault.action,
            tuple(dict.fromkeys(task.type for task in fault.tasks)),
            passed or times.get(fault.number) is not None,
            times.get(fault.number),
        )
        for fault in report.faults
        if fault.done
    )


def by_action(outcomes: Iterable[Outcome]) -> list[Row]:
    """Count how often each action was injected and recovered from."""
    found = defaultdict[FaultAction, list[FaultOutcome]](list)
    for one in _all(outcomes):
        found[one.action].append(one)
    return [_row(action, None, found[action]) for action in FaultAction if action in found]


def by_type(outcomes: Iterable[Outcome]) -> list[Row]:
    """Count the same for each type of task that was hit; leave out actions after which nothing had to restart."""
    found = defaultdict[tuple[FaultAction, TaskType], list[FaultOutcome]](list)
    for one in _all(outcomes):
        for kind in one.types:
            found[one.action, kind].append(one)
    rows = [_row(a, kind, found[a, kind]) for a in FaultAction for kind in TaskType if (a, kind) in found]
    return [row for row in rows if row.seconds]


def _all(outcomes: Iterable[Outcome]) -> list[FaultOutcome]:
    return [one for outcome in outcomes for one in outcome.injections]


def _row(action: FaultAction, kind: TaskType | None, ones: Sequence[FaultOutcome]) -> Row:
    seconds = sorted(one.seconds for one in ones if one.seconds is not None)
    return Row(action, kind, len(ones), sum(one.recovered for one in ones), tuple(seconds))
