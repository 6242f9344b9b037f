"""Recoveries: what a run's failures and injected faults came to. All times in seconds since the run began."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.words.faults import FaultAction
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit


@dataclass(frozen=True, slots=True)
class Death:
    """An attempt that ended badly; `fault` is the number of the injected fault that accounts for it."""

    task: Task
    attempt: int
    at: float
    exit: Exit
    fault: int | None = None


@dataclass(frozen=True, slots=True)
class Return:
    """A task that starts again: when its process existed, and when it was heard of: its server up, or resumed."""

    task: Task
    attempt: int
    spawned: float | None = None
    up: float | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """Failures that one restart mended, a restart that was asked for, or a failure that was not mended.

    | field | meaning |
    | --- | --- |
    | at | of the injection that began it; else of the first death, or of the request |
    | asked | somebody asked for the restart, so it may have no cause |
    | same | deaths of other tasks, of themselves, in the same way as the cause's |
    | faults | the numbers of the injected faults that account for its deaths |
    | detected | the first failure was recorded; where a task was killed for a stall, the stall was warned of |
    | planned | the restart was decided; None where nothing starts again |
    | training | tasks that train start again, so that training stood still |
    | went_on | training did not stand still: two steps were reported before every task was back |
    | first_step | the first new step after the restart, or, where training went on without the tasks, None |
    | last_step | the last step that was reported before by the tasks that train and start again |
    | resumed_step, checkpoint | what they told of their resumption; None where they told nothing, or began anew |
    | lost | steps that had to be done again; at least so many where nothing was told of the resumption |
    | ended | the first new step; where no task that trains started again, the last of the tasks was up |
    """

    at: float
    asked: bool
    cause: Death | None
    collateral: tuple[Death, ...]
    faults: tuple[int, ...]
    detected: float | None
    planned: float | None
    returns: tuple[Return, ...]
    training: bool
    went_on: bool
    first_step: float | None
    last_step: int | None
    resumed_step: int | None
    checkpoint: str | None
    lost: int | None
    ended: float | None
    same: tuple[Death, ...] = ()

    @property
    def seconds(self) -> float | None:
        """How long it took, from its beginning; None where it did not end."""
        return None if self.ended is None else self.ended - self.at

    @property
    def up(self) -> float | None:
        """When the last of the restarted tasks was up."""
        times = [one.up for one in self.returns if one.up is not None]
        return max(times) if times and len(times) == len(self.returns) else None


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault that was injected, and what came of it.

    | field | meaning |
    | --- | --- |
    | number, fault, action, tasks, others, seconds, step | as in FaultInjected |
    | detail, done | what exactly was done, or why nothing could be |
    | healed, why | when it was over, and why; None while it lasts, and where there is nothing to heal |
    | detected | the first failure of it was recorded, or the stall that it made was warned of |
    | died | the tasks whose failures it accounts for |
    | went_on | nothing died, and training went on: two steps were reported between the injection and the heal |
    | first_step | nothing died, and training stood still: the first step that was reported after the heal |
    """

    number: int
    fault: str
    action: FaultAction
    tasks: tuple[Task, ...]
    others: tuple[Task, ...]
    seconds: float | None
    step: int | None
    injected: float
    detail: str = ""
    done: bool = True
    healed: float | None = None
    why: str = ""
    detected: float | None = None
    died: tuple[Task, ...] = ()
    went_on: bool = False
    first_step: float | None = None


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """Everything that went wrong in a run, on purpose or not, in the order of time."""

    recoveries: tuple[Recovery, ...] = ()
    faults: tuple[InjectedFault, ...] = ()
