"""Decisions: what the machine decided in a run, for the journal and its readers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from clusterkit.words.distribution import Undistributed
from clusterkit.words.faults import FaultAction
from clusterkit.words.model import Tagged, Task
from clusterkit.words.outcome import Asked, Failure, RunResult
from clusterkit.words.outcome import AttemptEnded as AttemptEnded
from clusterkit.words.states import TaskState
from clusterkit.words.vitals import Vitals


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

    If it exited with code 0, that was `later` seconds ago, and has turned out to have been too early.
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
    """A task's program ended `seconds` ago, and its process still runs. It may wait for those that are `down`."""

    task: Task
    attempt: int
    seconds: float
    down: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainAlone(Tagged):
    """Tasks train, but not together. It is what is known so far: they may yet do so later."""

    found: Undistributed


@dataclass(frozen=True, slots=True)
class RestartPlanned(Tagged):
    """These tasks restart `delay` seconds from now. `charged` restarts of `budget` are used.

    Without a `cause`, the restart was requested, or comes because a `host` is about to leave, or because of a
    change of `files` of the program; then `step` is that of the newest checkpoint, 0 to train from the start. `same`
    are other tasks' own failures with the same error.
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
    """The job failed, for this reason, a clause. Its tasks are ended, and start again when the program changes."""

    reason: str
    program: str


@dataclass(frozen=True, slots=True)
class Shrunk(Tagged):
    """Workers are given up, and the job continues with those that are `left`, in the order of their new indices.

    `cause` is the failure that it was for, after so many `restarts`. `workers` is how many the job has when it is
    whole, `least` how many it needs. `restarting`: training stops for it, and resumes from the newest checkpoint, which
    is that of `step`.
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
    """Attempts failed on a host again, for reasons of its own; `why` is the last one, as a clause.

    `moves`: all tasks move to other hosts, and none is placed there as long as there are others. If not, there is none.
    """

    host: str
    why: str
    moves: bool


@dataclass(frozen=True, slots=True)
class RequestRefused(Tagged):
    """A request was refused, and why."""

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
class FaultHealed(Tagged):
    """An injected fault was healed, and why."""

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
    """No task has reported a step for `seconds`, and a look at the tasks has found no excuse.

    `text` is for people, `task` to blame, `vitals` what was seen of each live task, `report` where more of that is.
    """

    text: str
    task: Task | None
    seconds: float
    vitals: Mapping[Task, Vitals]
    report: str | None = None


class Slowness(enum.StrEnum):
    """Why a task is slower than its peers, as far as it can be seen from outside."""

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
    """A task that was slower than its peers is not any more, after `seconds`."""

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
