"""The account of a run: its recoveries, what its time went into, how it started up, and its stragglers.

All times are in seconds, those at which something was since the run began. `result.json` holds it.
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
    """A failed attempt, with the line of its exception; `fault` is the number of the fault that explains it."""

    task: Task
    attempt: int
    at: float
    exit: Exit
    fault: int | None = None
    exception: str | None = None


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


@dataclass(frozen=True, slots=True)
class TaskStart:
    """The first attempt of a task: when it reached each stage; None if it was not seen to.

    `forked`: from a process that had imported TensorFlow, so that `imported` follows `spawned` at once.
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
        """When the task reached a stage."""
        time: float | None = getattr(self, stage.value)
        return time


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A piece of the critical chain: from `begin` to `end`, the first step waited for the task to reach `stage`."""

    task: Task
    stage: Stage
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Startup:
    """The start-up of a run: each task's first attempt, and the critical chain.

    The links of the chain follow one another from the beginning of the run to its first step. It is empty until a step
    is reported.
    """

    tasks: tuple[TaskStart, ...] = ()
    chain: tuple[ChainLink, ...] = ()

    @property
    def seconds(self) -> float | None:
        """From the beginning of the run to its first step; None before that."""
        return self.chain[-1].end if self.chain else None


PER_SECOND = 1_000_000  # microseconds, in which parts are added up so that no rounding is left over


@dataclass(frozen=True, slots=True)
class Parts:
    """How a run's time divides. Each moment belongs to one part, so the parts sum to the duration.

    | part | what happened in it |
    | --- | --- |
    | startup | processes started, imported, connected and prepared, until the first step began |
    | compilation | by how much the first step took longer than a usual one |
    | training | training that counted: no later attempt computed these steps again |
    | lost | training whose steps a later attempt computed again |
    | checkpointing | training waited for a checkpoint |
    | evaluating | training waited for another phase that makes no steps, such as an evaluation |
    | recovering | training stood still from a failure, or a requested restart, until the next new step |
    | stalled | training stood still, without a failure |
    | stopped | training stood still because a task was paused |
    | ending | the time after the last step, or since the run was being ended |
    | unseen | tasks ran, but the run is over and none of them ever reported a step |
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
        """The parts from whole microseconds by their names."""
        return cls(**{name: count / PER_SECOND for name, count in microseconds.items()})

    def items(self) -> list[tuple[str, float]]:
        """Each part with its name, in the order above."""
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


@dataclass(frozen=True, slots=True)
class Goodput:
    """The split of a run's time, so far or at its end.

    | field | meaning |
    | --- | --- |
    | duration | of the run: the sum of the parts |
    | share | goodput, from 0 to 1: the share of training that counted; None if no step was reported |
    | parts | what the time went into |
    | seen | steps were reported; otherwise nothing is known of training |
    | costliest | the part that cost most beside training, `recovering` together with `lost`; empty if nothing did |
    | most | a sentence about that part with its cause, without a full stop; empty if nothing cost anything |
    """

    duration: float = 0.0
    share: float | None = None
    parts: Parts = Parts()
    seen: bool = False
    costliest: str = ""
    most: str = ""

    @classmethod
    def of(cls, microseconds: Mapping[str, int], seen: bool, costliest: str, most: str) -> Goodput:
        """The split from whole microseconds by the names of the parts."""
        total = sum(microseconds.values())
        share = microseconds.get("training", 0) / total if seen and total else None
        return cls(total / PER_SECOND, share, Parts.of(microseconds), seen, costliest, most)


@dataclass(frozen=True, slots=True)
class Straggler:
    """An attempt that was about `factor` times as slow as its peers; `why` says what was measured, about `it`.

    `at` and `until` are seconds since the run began; `until` is None if it still was when the run ended.
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
    """The recovery report with what the run's time went into. A result of an older version has only the former."""

    goodput: Goodput | None = None
    startup: Startup | None = None
    stragglers: tuple[Straggler, ...] = ()
