"""The account of a run: its recoveries, how its time was spent, how it started up, and its stragglers.

Durations are in seconds; points in time are in seconds since the run began. `result.json` stores the account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from clusterkit.words.decided import Slowness
from clusterkit.words.faults import FaultAction
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit
from clusterkit.words.reports import Stage


@dataclass(frozen=True, slots=True)
class Death:
    """A failed attempt. `fault` is the number of the injected fault that explains the failure, or None.

    `exception` is the last uncaught exception. `requested` is True if the cause was a signal that a client requested.
    """

    task: Task
    attempt: int
    at: float
    exit: Exit
    fault: int | None = None
    exception: str | None = None
    requested: bool = False


@dataclass(frozen=True, slots=True)
class Return:
    """The return of a restarted task: when its new process was created, and when the task first reported."""

    task: Task
    attempt: int
    spawned: float | None = None
    up: float | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """A restart with the failures that it repaired, a requested restart, or a failure that no restart repaired.

    | field | meaning |
    | --- | --- |
    | at | the time of the injection that caused the failure; or else of the first death or of the request |
    | asked | True if the restart was requested; `cause` may be None then |
    | allocation | the number of the new allocation, if the run continued in another one; `cause` may be None then |
    | same | other tasks' independent failures with the same error as the cause |
    | faults | the numbers of the injected faults that explain the deaths |
    | detected | when the first failure was recorded, or the stall warning after which a task was killed |
    | planned | when the restart was decided; None if nothing restarts |
    | training | True if training tasks restart, so that training stops meanwhile |
    | went_on | True if training continued: two steps were reported before all restarted tasks were up |
    | first_step | the first new step after the restart; None if training continued without the tasks |
    | last_step | the last step that the restarted training tasks reported before the restart |
    | resumed_step, checkpoint | the reported step and checkpoint at which training resumed; None if unreported |
    | lost | the number of repeated steps; if `resumed_step` is None, at least this number was repeated |
    | ended | when the first new step was reported; if no training task restarted, when the last restarted task was up |
    | files | with --watch: the files of the program that were changed, which caused the restart |
    | host | the host that was about to leave, which caused the restart |
    | given_up, left | the workers without which the job continues, and the number of other workers (None: all) |
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
        return None if self.ended is None else self.ended - self.at

    @property
    def up(self) -> float | None:
        """Return the time at which the last restarted task was up; None unless all restarted tasks were up."""
        times = [one.up for one in self.returns if one.up is not None]
        return max(times) if times and len(times) == len(self.returns) else None


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault that was injected, and its effects.

    | field | meaning |
    | --- | --- |
    | number, fault, action, tasks, others, seconds, step | as in FaultInjected |
    | detail, done | what the injection did or, if `done` is False, why the fault could not be injected |
    | healed, why | when and why the fault was healed; None while the fault lasts, or if it needs no healing |
    | detected | when the first effect was recorded: a stall warning, or a failure that the fault explains |
    | died | the tasks whose failures the fault explains |
    | went_on | True if no task died and training continued: two steps were reported before the heal |
    | first_step | if no task died and training stopped: when the first step after the heal was reported |
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

    def beginnings(self) -> tuple[list[tuple[Recovery, list[InjectedFault]]], list[InjectedFault]]:
        """Return each recovery with the faults that caused it, and the faults that caused no recovery."""
        left = {fault.number: fault for fault in self.faults}
        begun = [(one, [left.pop(number) for number in one.faults if number in left]) for one in self.recoveries]
        return begun, list(left.values())


@dataclass(frozen=True, slots=True)
class TaskStart:
    """The times at which the first attempt of a task reached each stage; None for a stage that was not observed.

    `forked` is True if the process was forked from a process that had imported TensorFlow. Then `imported` is reached
    right after `spawned`.
    """

    task: Task
    forked: bool = False
    begun: float | None = None
    spawned: float | None = None
    imported: float | None = None
    serving: float | None = None
    connected: float | None = None
    prepared: float | None = None
    stepped: float | None = None

    def at(self, stage: Stage) -> float | None:
        time: float | None = getattr(self, stage.value)
        return time


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A part of the critical chain: from `begin` to `end`, the run's first step had to wait for `stage` of the task."""

    task: Task
    stage: Stage
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Startup:
    """The start-up of a run: each task's first attempt, and the critical chain, which determined the duration.

    The links of the chain follow each other from the beginning of the run to its first step. The chain is empty until a
    step is reported.
    """

    tasks: tuple[TaskStart, ...] = ()
    chain: tuple[ChainLink, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Return the time from the beginning of the run to its first step; None before the first step."""
        return self.chain[-1].end if self.chain else None


PER_SECOND = 1_000_000  # microseconds; times are added up in whole microseconds to avoid rounding errors


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a run's time. Each moment belongs to exactly one part, so the parts sum to the duration.

    | part | what happened during this time |
    | --- | --- |
    | startup | processes started, imported, connected and prepared, until the first step began |
    | compilation | the first step took this much longer than a usual step |
    | training | training whose steps no later attempt had to repeat |
    | lost | training whose steps a later attempt repeated |
    | checkpointing | training waited for a checkpoint |
    | evaluating | training waited for another phase without steps, such as an evaluation |
    | recovering | training had stopped because of a failure or a requested restart, until the next new step |
    | stalled | training had stopped without a failure |
    | stopped | training had stopped because a task was paused |
    | ending | the job had finished its last step, or the run was ending after a failure or a request to stop |
    | unseen | tasks ran, but no task reported a step in the whole run |
    """

    startup: float = 0.0
    compilation: float = 0.0
    training: float = 0.0
    lost: float = 0.0
    checkpointing: float = 0.0
    evaluating: float = 0.0
    recovering: float = 0.0
    stalled: float = 0.0
    stopped: float = 0.0
    ending: float = 0.0
    unseen: float = 0.0

    @classmethod
    def of(cls, microseconds: Mapping[str, int]) -> Parts:
        """Return the parts in seconds, given the microseconds of each part by name."""
        return cls(**{name: count / PER_SECOND for name, count in microseconds.items()})

    def items(self) -> list[tuple[str, float]]:
        """Return each part with its name, in the order of the table."""
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


@dataclass(frozen=True, slots=True)
class Goodput:
    """How a run has spent its time so far or, if the run has ended, in total.

    | field | meaning |
    | --- | --- |
    | duration | the duration of the run: the sum of the parts |
    | share | the goodput: the share (0 to 1) of the time spent in `training`; None if no step was reported |
    | parts | how the time was spent |
    | seen | True if steps were reported; otherwise nothing is known about training |
    | costliest | the longest part besides `training` (`recovering` includes `lost`); empty if all others are 0 |
    | most | a sentence about the costliest part and its cause, without a full stop; may be empty |
    """

    duration: float = 0.0
    share: float | None = None
    parts: Parts = Parts()
    seen: bool = False
    costliest: str = ""
    most: str = ""

    @classmethod
    def of(cls, microseconds: Mapping[str, int], seen: bool, costliest: str, most: str) -> Goodput:
        total = sum(microseconds.values())
        share = microseconds.get("training", 0) / total if seen and total else None
        return cls(total / PER_SECOND, share, Parts.of(microseconds), seen, costliest, most)


@dataclass(frozen=True, slots=True)
class Straggler:
    """An attempt that was about `factor` times as slow as its peers.

    `why` is the measurement as a phrase that follows the task's name, such as `works 90 % of the time`. `at` and
    `until` are seconds since the run began; `until` is None if the attempt was still slow when the run ended.
    """

    task: Task
    attempt: int
    at: float
    slowness: Slowness
    factor: float
    why: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Account(RecoveryReport):
    """The recovery report and the run's use of time. Results of older versions contain only the recovery report."""

    goodput: Goodput | None = None
    startup: Startup | None = None
    stragglers: tuple[Straggler, ...] = ()
