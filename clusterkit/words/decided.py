"""Decisions: the machine's own account of a run, for the journal and the views."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.words.faults import FaultAction
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, Failure, RunResult
from clusterkit.words.outcome import AttemptEnded as AttemptEnded
from clusterkit.words.states import TaskState


@dataclass(frozen=True, slots=True)
class Changed:
    """A task moved to another state; `asked` is why it is being ended, while it is STOPPING."""

    task: Task
    attempt: int
    state: TaskState
    asked: Asked | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt ended badly and has to be dealt with."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class RestartPlanned:
    """These tasks start again `delay` seconds from now. `charged` restarts of `budget` are used.

    Without a cause, because somebody asked for it. `same` are tasks that failed of themselves as the cause did.
    """

    tasks: tuple[Task, ...]
    cause: Failure | None
    collateral: tuple[Failure, ...]
    delay: float
    charged: int
    budget: int
    same: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """What was asked for with this request was not done, and why."""

    request: int
    problem: str


@dataclass(frozen=True, slots=True)
class Paused:
    """A task was stopped, or goes on again, because somebody asked for it."""

    task: Task
    attempt: int
    paused: bool


@dataclass(frozen=True, slots=True)
class FaultInjected:
    """A fault was injected, the run's `number`th: into these tasks, for a network fault against `others`.

    `seconds` is how long it lasts, None where it has no end of its own. `step` is the newest that was reported.
    """

    number: int
    fault: str
    action: FaultAction
    tasks: tuple[Task, ...]
    others: tuple[Task, ...] = ()
    seconds: float | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class FaultHealed:
    """An injected fault is over, and why."""

    number: int
    fault: str
    action: FaultAction
    tasks: tuple[Task, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The leader's exit code was 0: the job is over, well."""

    task: Task


@dataclass(frozen=True, slots=True)
class Stopping:
    """The run is being ended."""

    reason: str


@dataclass(frozen=True, slots=True)
class Warned:
    """Something the user should know; the run goes on."""

    text: str
    task: Task | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over."""

    result: RunResult


Decided = (
    Changed | AttemptEnded | Failed | RestartPlanned | Refused | Paused | FaultInjected | FaultHealed | Succeeded
    | Stopping | Warned | Finished
)  # fmt: skip
