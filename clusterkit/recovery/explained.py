"""Explained failures: which of them an injected fault accounts for, and which came of nothing that was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clusterkit.machine.blame import looks_collateral
from clusterkit.words.events import Event, Failed, FaultHealed, FaultInjected, RestartPlanned
from clusterkit.words.faults import ON_NETWORK, ON_STORAGE, FaultAction
from clusterkit.words.model import Task
from clusterkit.words.outcome import SIGKILL, Failure

SLACK = 15.0  # seconds after its heal for which a fault may show: a peer's patience has to run out first
_ONCE = frozenset({FaultAction.KILL, FaultAction.TERM})  # each ends one attempt of each of its tasks
# Their tasks live on, silent or slow, so it may be a peer that fails of them.
_ALIVE = ON_NETWORK | {FaultAction.STOP, FaultAction.SLOW, FaultAction.HANG_START}

Timed = Sequence[tuple[float, Event]]  # in seconds of one clock


@dataclass(slots=True)
class Hit:
    """A fault that was injected, and the failures that it accounts for."""

    fault: FaultInjected
    at: float
    until: float | None = None
    spent: set[Task] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)

    def strikes(self, failure: Failure, now: float) -> bool:
        """Whether the failure is of a task that it was injected into, and may come of it."""
        action, task = self.fault.action, failure.task
        if action in ON_STORAGE:
            return True  # any task may read or write there, now or at its next start
        if task not in (*self.fault.tasks, *self.fault.others):
            return False
        if action is FaultAction.KILL and failure.exit.signal != SIGKILL:
            return False  # it ended before the SIGKILL came, which was for its next attempt then
        return task not in self.spent if action in _ONCE else self._shows(now)

    def starves(self, failure: Failure, now: float) -> bool:
        """Whether the failure is of a peer that says that somebody is gone, while the fault keeps a task from it."""
        return self.fault.action in _ALIVE and self._shows(now) and looks_collateral(failure)

    def _shows(self, now: float) -> bool:
        until = self.at if self.until is None and self.fault.action is FaultAction.RESET else self.until
        return until is None or now <= until + SLACK


def hits(events: Timed) -> tuple[list[Hit], list[tuple[float, Failure]]]:
    """The faults that were injected, with what they account for, and the failures that none accounts for.

    A death accounts for one failure of a task, even where its signal came late; of several that may have been it, the
    first is taken.
    """
    found: dict[int, Hit] = {}
    unexplained = []
    for now, event in events:
        if isinstance(event, FaultInjected):
            found[event.number] = Hit(event, now)
        elif isinstance(event, FaultHealed) and event.number in found:
            found[event.number].until = now
        elif isinstance(event, Failed):
            failure = event.failure
            hit = _accounting(list(found.values()), failure, now)
            if hit is None:
                unexplained.append((now, failure))
            else:
                hit.spent.add(failure.task)
                hit.failures.append(failure)
    return list(found.values()), unexplained


def _accounting(found: Sequence[Hit], failure: Failure, now: float) -> Hit | None:
    """Deaths come first: a task that was killed while it was slowed died of being killed."""
    struck = [hit for hit in found if hit.strikes(failure, now)]
    deaths = [hit for hit in struck if hit.fault.action in _ONCE]
    starved = [hit for hit in found if hit.starves(failure, now)]
    return next(iter(deaths + struck + starved), None)


def wrong_causes(events: Timed) -> list[Failure]:
    """Failures that were named as the cause of a restart although no fault accounts for them."""
    _, unexplained = hits(events)
    strange = {(failure.task, failure.attempt) for _, failure in unexplained}
    causes = [event.cause for _, event in events if isinstance(event, RestartPlanned) and event.cause is not None]
    return [cause for cause in causes if (cause.task, cause.attempt) in strange]
