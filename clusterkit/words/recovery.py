"""Recoveries: how a run recovered from failures and injected faults. All times in seconds since the run began."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.words.faults import FaultAction
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit


@dataclass(frozen=True, slots=True)
class Death:
    """A failed attempt; `fault` is the number of the injected fault that explains it."""

    task: Task
    attempt: int
    at: float
    exit: Exit
    fault: int | None = None


@dataclass(frozen=True, slots=True)
class Return:
    """A restarted task: when its process existed, and when its first report showed that it was up."""

    task: Task
    attempt: int
    spawned: float | None = None
    up: float | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """Failures that one restart repaired, a requested restart, or a failure that was not repaired.

    | field | meaning |
    | --- | --- |
    | at | of the injection that began it; else of the first death, or of the request |
    | asked | the restart was requested, so it may have no cause |
    | allocation | it is that with which the run continued in this allocation; then there is no cause |
    | same | deaths of other tasks, on their own, with the same error as the cause |
    | faults | the numbers of the injected faults that explain its deaths |
    | detected | when the first failure was recorded; or the warning of a stall, if a task was killed for it |
    | planned | when the restart was decided; None if nothing restarts |
    | training | training tasks restart, so that training stood still |
    | went_on | training continued: two steps were reported before every task was back |
    | first_step | the first new step after the restart; None if training continued without the tasks |
    | last_step | the last step that the restarted training tasks had reported before |
    | resumed_step, checkpoint | where they reported to have resumed; None if they did not, or began anew |
    | lost | steps that had to be repeated; at least so many if no resumption was reported |
    | ended | when the first new step was made; if no training task restarted, when the last task was up |
    | files | the program's files whose change was the reason, with --watch |
    | host | the host that was about to leave, which was the reason |
    | given_up, left | the workers that were given up for it; how many are left then, None if none was given up |
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
    allocation: int | None = None
    files: tuple[str, ...] = ()
    given_up: tuple[Task, ...] = ()
    left: int | None = None
    host: str | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took; None if it did not end."""
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
    | detail, done | what exactly was done; or that it could not be injected, and why |
    | healed, why | when it was healed, and why; None while it lasts, and if there is nothing to heal |
    | detected | when the first failure that it explains was recorded, or a stall was warned of |
    | died | the tasks whose failures it explains |
    | went_on | no task died, and training continued: two steps were reported before the heal |
    | first_step | no task died, and training stood still: when the first step after the heal was reported |
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
    """Every recovery and every injected fault of a run, in order of time."""

    recoveries: tuple[Recovery, ...] = ()
    faults: tuple[InjectedFault, ...] = ()
