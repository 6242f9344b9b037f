"""Events by which the state machine records its decisions in the journal."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from clusterkit.words.distribution import Undistributed
from clusterkit.words.faults import FaultAction
from clusterkit.words.model import AttemptEvent, Tagged, Task, TaskState
from clusterkit.words.outcome import Asked, Failure, RunResult
from clusterkit.words.outcome import AttemptEnded as AttemptEnded
from clusterkit.words.reports import Vitals
from clusterkit.words.verification import Verification


class Changed(AttemptEvent):
    """A task entered a new state. If the state is STOPPING, `asked` is the reason why the task is being ended."""

    state: TaskState
    asked: Asked | None = None


class Failed(Tagged):
    """An attempt failed; a restart or the end of the run will follow.

    `later` is the number of seconds since the exit, if the attempt exited prematurely with code 0.
    """

    failure: Failure
    later: float = 0.0


class LeftEarly(AttemptEvent):
    """A task exited with code 0 before the job was done. `step` is the last step that the task had reported."""

    step: int | None = None


class CannotExit(AttemptEvent):
    """A task's program ended `seconds` ago, but its process still runs, perhaps to wait for the tasks in `down`."""

    seconds: float
    down: tuple[Task, ...] = ()


class TrainAlone(Tagged):
    """Several tasks train, but so far each trains by itself."""

    found: Undistributed


class RestartPlanned(Tagged):
    """These tasks restart `delay` seconds from now. So far, `charged` of `budget` restarts are used.

    If `cause` is None, the restart was requested, a `host` is about to leave, or `files` of the program changed. If
    files changed, `step` is the step of the newest checkpoint, or 0 to train from the start; otherwise, `step` is None.
    `same` are other tasks' independent failures with the same error. `free` is True if this restart is not charged.
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
    free: bool = False


class EditTrains(Tagged):
    """The changed program has finished its first new step, `seconds` after the change was saved."""

    step: int
    seconds: float


class WaitsForChange(Tagged):
    """The job failed; `reason` is a clause. Its tasks end, and start again when the program is changed."""

    reason: str
    program: str


class Shrunk(Tagged):
    """The job continues without the workers in `tasks`. `left` are the remaining workers, in their new order.

    `cause` is the last failure, after `restarts` restarts. `workers` is the full number of workers, `least` the
    smallest allowed number. If `restarting` is True, training stops, and resumes from the newest checkpoint (`step`).
    """

    tasks: tuple[Task, ...]
    left: tuple[Task, ...]
    cause: Failure
    restarts: int
    workers: int
    least: int
    restarting: bool
    step: int | None = None


class HostAvoided(Tagged):
    """A host is avoided, since its conditions caused repeated failures. `why` is the last reason, as a clause.

    `moves` is True if other hosts can take over the host's tasks, and False if there is no other healthy host.
    """

    host: str
    why: str
    moves: bool


class RequestRefused(Tagged):
    """A client's request was refused."""

    request: int
    problem: str


class Paused(AttemptEvent):
    """A task was paused with SIGSTOP (`paused` is True), or continued with SIGCONT.

    `terminal` is True if the reason is that the user's terminal has stopped or continued the whole run.
    """

    paused: bool
    terminal: bool = False


class FaultInjected(Tagged):
    """A fault was injected into `tasks` or, if it is a network fault, between `tasks` and `others`.

    `number` identifies the fault. `seconds` is the fault's duration; None if the fault does not end by itself. `step`
    is the newest reported step.
    """

    number: int
    fault: str
    action: FaultAction
    tasks: tuple[Task, ...]
    others: tuple[Task, ...] = ()
    seconds: float | None = None
    step: int | None = None


class FaultHealed(Tagged):
    """An injected fault was healed."""

    number: int
    fault: str
    action: FaultAction
    tasks: tuple[Task, ...]
    why: str


class Succeeded(Tagged):
    """The leader exited with code 0, so the job succeeded. `others` still run. Older journals lack `others`."""

    task: Task
    others: tuple[Task, ...] = ()


class Stopping(Tagged):
    """The run is being ended. The live `tasks` have at most `grace` seconds to end. Older journals lack both fields.

    `suspends` is True if the run is to continue in another allocation. `interrupted` is True for Ctrl-C: a second
    Ctrl-C kills the tasks.
    """

    reason: str
    tasks: tuple[Task, ...] = ()
    grace: float = 0.0
    suspends: bool = False
    interrupted: bool = False


class Warned(Tagged):
    """A message that the user should see. The run continues."""

    text: str
    task: Task | None = None


class Stalled(Tagged):
    """No task has reported a step for `seconds`, and an inspection of the tasks has found no legitimate reason.

    `text` is the message for people, and `task` is the task to blame. `vitals` are the observations of each live task.
    `report` is the path of the full report, and `verdict` is a clause about what blocks the tasks.
    """

    text: str
    task: Task | None
    seconds: float
    vitals: Mapping[Task, Vitals]
    report: str | None = None
    verdict: str = ""


class Slowness(enum.StrEnum):
    """Why a task is slower than its peers, as seen from outside."""

    STOPPED = "is stopped"  # signals stop the task's processes repeatedly
    STARVED = "waits for a CPU"  # the task's threads are runnable, but get no CPU
    BUSY = "works"  # the task computes while its peers wait
    STEPS = "takes longer for a step"  # the coordinator measured longer steps for this worker


class Straggling(AttemptEvent):
    """A task has been about `factor` times as slow as its peers for `seconds` so far.

    `why` is the measurement, as a phrase that follows the task's name. KeepsUp follows when the task has caught up.
    """

    slowness: Slowness
    factor: float
    seconds: float
    why: str


class KeepsUp(AttemptEvent):
    """A task that was slower than its peers for `seconds` has caught up."""

    seconds: float


class Verified(Tagged):
    """The job's first steps were compared with those of one process before the job began (--verify)."""

    verdict: Verification


class Finished(Tagged):
    """The run is over."""

    result: RunResult


Decided = (
    Changed | AttemptEnded | Failed | LeftEarly | CannotExit | TrainAlone | RestartPlanned | Shrunk | HostAvoided
    | RequestRefused | Paused | FaultInjected | FaultHealed | Succeeded | Stopping | Warned | Stalled | Straggling
    | KeepsUp | EditTrains | WaitsForChange | Verified | Finished
)  # fmt: skip
