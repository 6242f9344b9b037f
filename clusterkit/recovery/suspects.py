"""Suspects: which of the injected faults accounts for a failure, if any does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from clusterkit.machine.blame import looks_collateral
from clusterkit.words.events import FaultInjected
from clusterkit.words.faults import ON_NETWORK, FaultAction
from clusterkit.words.model import Task
from clusterkit.words.outcome import SIGKILL, Failure

SOON = 15.0  # seconds for which a fault that is over may still show: a peer's patience has to run out first
_DEADLY = frozenset({FaultAction.KILL, FaultAction.TERM})  # each ends one attempt of each of its tasks, at once or late
_WEARING = ON_NETWORK | {FaultAction.STOP, FaultAction.SLOW, FaultAction.MEMORY}
# Their tasks live on, silent or slow, so it may be a peer that fails of them.
_STARVING = ON_NETWORK | {FaultAction.STOP, FaultAction.SLOW, FaultAction.HANG_START}


@dataclass(slots=True)
class Suspect:
    """An injected fault. `over` is when it was healed, or, where there is nothing to heal, when it was injected."""

    fault: FaultInjected
    at: float
    over: float | None = None
    spent: set[Task] = field(default_factory=set)  # the tasks whose failure it accounts for

    def _shows(self, at: float) -> bool:
        return self.over is None or at <= self.over + SOON

    def kills(self, failure: Failure) -> bool:
        """Whether the failure is the death that a signal was sent for."""
        exit_, sigkill = failure.exit, self.fault.action is FaultAction.KILL
        if self.fault.action not in _DEADLY or failure.task not in self.fault.tasks or failure.task in self.spent:
            return False
        if exit_.error is not None or exit_.asked is not None or exit_.out_of_memory:
            return False
        return exit_.signal == SIGKILL or not sigkill

    def wears(self, failure: Failure, at: float) -> bool:
        """Whether the failure is of a task that the fault hits and that may have died of it."""
        action, task = self.fault.action, failure.task
        if action not in _WEARING or task not in (*self.fault.tasks, *self.fault.others) or not self._shows(at):
            return False
        # What is done to a process ends with it: the next attempt's failure is another matter.
        return self.over is None or action in ON_NETWORK or task not in self.spent

    def starves(self, failure: Failure, at: float) -> bool:
        """Whether the failure is of a peer that says that somebody is gone, while the fault keeps a task from it."""
        return self.fault.action in _STARVING and self._shows(at) and looks_collateral(failure)

    def spoils(self, at: float, spawned: float) -> bool:
        """Whether the attempt, which was spawned then, may have failed of what was done to the checkpoints."""
        if self.fault.action is FaultAction.CORRUPT:
            return spawned > self.at
        return self.fault.action is FaultAction.DISK_FULL and self._shows(at)


def suspected(suspects: list[Suspect], failure: Failure, at: float, spawned: float) -> Suspect | None:
    """The suspect to blame, in the order of what is more certain; of several that are alike the newest.

    `suspects` are in the order of their injection, `at` is when the attempt ended, `spawned` when it began.
    """
    return next(_candidates(suspects, failure, at, spawned), None)


def _candidates(suspects: list[Suspect], failure: Failure, at: float, spawned: float) -> Iterator[Suspect]:
    newest_first = [one for one in reversed(suspects) if one.at <= at]
    yield from (one for one in suspects if one.kills(failure) and one.at <= at)  # signals come in order
    yield from (one for one in newest_first if one.wears(failure, at))
    yield from (one for one in newest_first if one.starves(failure, at))
    yield from (one for one in newest_first if one.spoils(at, spawned))
