"""Decisions: what the machine decided in a run, for the journal and its readers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from clusterkit.words.distribution import Undistributed
from clusterkit.words.faults import FaultAction
from clusterkit.words.model import Tagged, Task, TaskState
from clusterkit.words.outcome import Asked, Failure, RunResult
from clusterkit.words.outcome import AttemptEnded as AttemptEnded
from clusterkit.words.reports import Vitals


@dataclass(frozen=True, slots=True)
class Changed(Tagged):
    """A task moved to another state. `asked`: why it is being ended, if the state is STOPPING."""

    task: Task
    attempt: int
    state: TaskState
    asked: Asked | None = None


@dataclass(frozen=True, slots=True)
class Failed(Tagged):
    """An attempt failed: a restart, or the end of the run, will follow.

    `later`: seconds since it exited with code 0, if that has turned out to have been too early.
    """

    failure: Failure
    later: float = 0.0


@dataclass(frozen=True, slots=True)
class LeftEarly(Tagged):
    """A task exited with code 0 before the job was done, at the `step` that it had reported last."""

    task: Task
    attempt: int
    step: int | None = None


@dataclass(frozen=True, slots=True)
class CannotExit(Tagged):
    """A task's program ended `seconds` ago, but its process still runs. It may wait for the tasks in `down`."""

    task: Task
    attempt: int
    seconds: float
    down: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainAlone(Tagged):
    """Tasks train, but not together so far."""

    found: Undistributed


@dataclass(frozen=True, slots=True)
class RestartPlanned(Tagged):
    """These tasks restart `delay` seconds from now. `charged` restarts of `budget` are used.

    Without a `cause`, the restart was requested, a `host` is about to leave, or `files` of the program changed; then
    `step` is that of the newest checkpoint, 0 to train from the start. `same` are other tasks' failures with the same
    error.
    """

    tasks: tuple[Task, ...]
    cause: Failure | None
    collateral: tuple[Failure, ...]
    delay: float
    charged: int
    budget: int
    same: tuple[Failure, ...] = ()
    files: tuple[str, ...] = ()
    step: int | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class EditTrains(Tagged):
    """The changed program has made its first new step, `seconds` after the change was saved."""

    step: int
    seconds: float


@dataclass(frozen=True, slots=True)
class WaitsForChange(Tagged):
    """The job failed; `reason` is a clause. Its tasks end, and start again when the program changes."""

    reason: str
    program: str


@dataclass(frozen=True, slots=True)
class Shrunk(Tagged):
    """The job gives workers up and continues with the `left` ones, in the order of their new indices.

    `cause` is the last failure, after `restarts` restarts. `workers` is the full number of workers, `least` the
    smallest allowed. `restarting`: training stops, and resumes from the newest checkpoint, that of `step`.
    """

    tasks: tuple[Task, ...]
    left: tuple[Task, ...]
    cause: Failure
    restarts: int
    workers: int
    least: int
    restarting: bool
    step: int | None = None


@dataclass(frozen=True, slots=True)
class HostAvoided(Tagged):
    """Attempts failed repeatedly on a host for reasons of its own; `why` is the last reason, as a clause.

    `moves`: all tasks move to other hosts, and this one gets none while others have room. False: no other host exists.
    """

    host: str
    why: str
    moves: bool


@dataclass(frozen=True, slots=True)
class RequestRefused(Tagged):
    """A request was refused."""

    request: int
    problem: str


@dataclass(frozen=True, slots=True)
class Paused(Tagged):
    """A task was paused with SIGSTOP, or continues."""

    task: Task
    attempt: int
    paused: bool


@dataclass(frozen=True, slots=True)
class FaultInjected(Tagged):
    """The run's fault `number` was injected into `tasks`, for a network fault against `others`.

    `seconds` is its duration, None if it has no end of its own. `step` is the newest reported one.
    """

    number: int
    fault: str
    action: FaultAction
    tasks: tuple[Task, ...]
    others: tuple[Task, ...] = ()
    seconds: float | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class FaultHealed(Tagged):
    """An injected fault was healed."""

    number: int
    fault: str
    action: FaultAction
    tasks: tuple[Task, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Succeeded(Tagged):
    """The leader exited with code 0, so the job succeeded. `others` still run; empty in older journals."""

    task: Task
    others: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Stopping(Tagged):
    """The run is being ended. `tasks` get `grace` seconds at most; both are empty in older journals.

    `suspends`: it is to continue in another allocation. `interrupted`: by Ctrl-C, so that another one kills.
    """

    reason: str
    tasks: tuple[Task, ...] = ()
    grace: float = 0.0
    suspends: bool = False
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Warned(Tagged):
    """Something the user should know. The run continues."""

    text: str
    task: Task | None = None


@dataclass(frozen=True, slots=True)
class Stalled(Tagged):
    """No task has reported a step for `seconds`, and inspecting the tasks found no excuse.

    `text` is for people, `task` is the one to blame, `vitals` are those of each live task, `report` is the full
    report's path, `verdict` a clause about what holds the tasks up.
    """

    text: str
    task: Task | None
    seconds: float
    vitals: Mapping[Task, Vitals]
    report: str | None = None
    verdict: str = ""


class Slowness(enum.StrEnum):
    """Why a task is slower than its peers, as seen from outside."""

    STOPPED = "is stopped"  # by signals, again and again
    STARVED = "waits for a CPU"  # runnable, and not run
    BUSY = "works"  # while its peers wait
    STEPS = "takes longer for a step"  # of a coordinator's, as that measures it


@dataclass(frozen=True, slots=True)
class Straggling(Tagged):
    """A task is persistently slower than its peers: for `seconds` so far, by about this `factor`.

    `why` is what was measured, as a clause with the task as its subject. Ends with KeepsUp, or with the attempt.
    """

    task: Task
    attempt: int
    slowness: Slowness
    factor: float
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class KeepsUp(Tagged):
    """A task is no longer slower than its peers, after `seconds`."""

    task: Task
    attempt: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Finished(Tagged):
    """The run is over."""

    result: RunResult


Decided = (
    Changed | AttemptEnded | Failed | LeftEarly | CannotExit | TrainAlone | RestartPlanned | Shrunk | HostAvoided
    | RequestRefused | Paused | FaultInjected | FaultHealed | Succeeded | Stopping | Warned | Stalled | Straggling
    | KeepsUp | EditTrains | WaitsForChange | Finished
)  # fmt: skip
