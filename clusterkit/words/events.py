"""Events: the state machine's input, which reports what happened, and the records of the state machine's decisions."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from clusterkit.words.decided import AttemptEnded as AttemptEnded
from clusterkit.words.decided import CannotExit as CannotExit
from clusterkit.words.decided import Changed as Changed
from clusterkit.words.decided import Decided as Decided
from clusterkit.words.decided import EditTrains as EditTrains
from clusterkit.words.decided import Failed as Failed
from clusterkit.words.decided import FaultHealed as FaultHealed
from clusterkit.words.decided import FaultInjected as FaultInjected
from clusterkit.words.decided import Finished as Finished
from clusterkit.words.decided import HostAvoided as HostAvoided
from clusterkit.words.decided import KeepsUp as KeepsUp
from clusterkit.words.decided import LeftEarly as LeftEarly
from clusterkit.words.decided import Paused as Paused
from clusterkit.words.decided import RequestRefused as RequestRefused
from clusterkit.words.decided import RestartPlanned as RestartPlanned
from clusterkit.words.decided import Shrunk as Shrunk
from clusterkit.words.decided import Slowness as Slowness
from clusterkit.words.decided import Stalled as Stalled
from clusterkit.words.decided import Stopping as Stopping
from clusterkit.words.decided import Straggling as Straggling
from clusterkit.words.decided import Succeeded as Succeeded
from clusterkit.words.decided import TrainAlone as TrainAlone
from clusterkit.words.decided import Verified as Verified
from clusterkit.words.decided import WaitsForChange as WaitsForChange
from clusterkit.words.decided import Warned as Warned
from clusterkit.words.model import AttemptEvent, Tagged, Task
from clusterkit.words.outcome import Exit
from clusterkit.words.reports import EDITOR as EDITOR
from clusterkit.words.reports import Checkpointed as Checkpointed
from clusterkit.words.reports import EditorAwaited as EditorAwaited
from clusterkit.words.reports import InDebugger as InDebugger
from clusterkit.words.reports import LeftDebugger as LeftDebugger
from clusterkit.words.reports import Look as Look
from clusterkit.words.reports import Pace as Pace
from clusterkit.words.reports import PhaseChanged as PhaseChanged
from clusterkit.words.reports import PhaseReached as PhaseReached
from clusterkit.words.reports import Profiled as Profiled
from clusterkit.words.reports import ProgramEnds as ProgramEnds
from clusterkit.words.reports import Progressed as Progressed
from clusterkit.words.reports import Reached as Reached
from clusterkit.words.reports import Ready as Ready
from clusterkit.words.reports import Repaired as Repaired
from clusterkit.words.reports import Resumed as Resumed
from clusterkit.words.reports import SigtermHandled as SigtermHandled
from clusterkit.words.reports import StepsTimed as StepsTimed
from clusterkit.words.reports import StepsUnreported as StepsUnreported
from clusterkit.words.reports import StepTimes as StepTimes
from clusterkit.words.reports import TrainsWith as TrainsWith
from clusterkit.words.reports import Vitals as Vitals
from clusterkit.words.surroundings import DashboardLost as DashboardLost
from clusterkit.words.surroundings import DashboardReady as DashboardReady
from clusterkit.words.surroundings import HostBack as HostBack
from clusterkit.words.surroundings import HostCut as HostCut
from clusterkit.words.surroundings import HostDraining as HostDraining
from clusterkit.words.surroundings import HostJoined as HostJoined
from clusterkit.words.surroundings import HostLost as HostLost
from clusterkit.words.surroundings import OfHost as OfHost
from clusterkit.words.surroundings import Placed as Placed
from clusterkit.words.surroundings import ProgramChanged as ProgramChanged
from clusterkit.words.surroundings import TensorBoardLost as TensorBoardLost
from clusterkit.words.surroundings import TensorBoardReady as TensorBoardReady
from clusterkit.words.verification import Verification

NEVER_STARTED = "it was ended before it had started"

# The events below are posted to the run's inbox by threads, by the backend, and on requests of the user.


class Began(Tagged):
    """A new run begins. `warnings` are about its program, `verification` is the verdict of --verify."""

    warnings: tuple[str, ...] = ()
    verification: Verification | None = None


class Continued(Tagged):
    """The run continues in the allocation with this number, under a new supervisor. Earlier live attempts are lost."""

    allocation: int


class Ticked(Tagged):
    """The state machine's next deadline has passed."""


class Spawned(AttemptEvent):
    """The process of an attempt exists. `where` describes the process, for example as `pid 4711`.

    `forked` is True for a warm start. In older journals, `checkpoint` is set, and CheckpointFound does not follow.
    """

    where: str = ""
    checkpoint: str | None = None
    forked: bool = False

    @property
    def pid(self) -> int | None:
        """Return the process id if the process runs on this machine, otherwise None."""
        kind, _, number = self.where.partition(" ")
        return int(number) if kind == "pid" and number.isdecimal() else None


class CheckpointFound(AttemptEvent):
    """The checkpoint from which an attempt will probably resume: the newest one at its start. Follows Spawned."""

    path: str


class SpawnFailed(AttemptEvent):
    """The attempt's process was not started: the start failed, a signal arrived first, or the `host` was lost.

    `unfit` is True if the cause is a condition of the host that may pass, such as a full disk. `unreached` are peers
    that the host can't reach. `crowded` is True if the remaining hosts have no room for all tasks.
    """

    error: str
    host: str | None = None
    unfit: bool = False
    unreached: tuple[Task, ...] = ()
    crowded: bool = False


class Noted(Tagged):
    """A message from the backend about its own work. `minor` is True if few users need the message."""

    text: str
    minor: bool = False


class Exited(AttemptEvent):
    """The attempt's first process ended. Other processes of its group may still run, until Swept.

    `reached` are the signals that clusterkit has sent to the running process, and that may have ended it.
    """

    exit: Exit
    reached: tuple[int, ...] = ()


class Swept(AttemptEvent):
    """Every process of the attempt is certainly dead, except those in `stuck`, which SIGKILL did not end.

    `left` is the number of processes that outlived the first one. `unseen` is the reason why the processes could not
    be listed; empty if they could.
    """

    left: int = 0
    stuck: tuple[int, ...] = ()
    unseen: str = ""


class Drained(AttemptEvent):
    """The attempt's output has ended. `tail` is the end of the log, and `exception` the last uncaught exception."""

    tail: tuple[str, ...] = ()
    exception: str | None = None


class Inspected(Tagged):
    """The answer to Inspect: the vitals of every live task. `report` is the path of a report on a stall or start-up."""

    vitals: Mapping[Task, Vitals]
    look: Look = Look.GLANCE
    report: str | None = None


class Interrupted(Tagged):
    """The supervisor received a signal that ends the run."""

    signal: int


class AllocationEnding(Tagged):
    """The engine is about to end the supervisor's allocation; `why` is a clause. Tasks have `grace` seconds to end."""

    why: str
    grace: float


class Verb(enum.StrEnum):
    """What a client can request of a live run."""

    KILL = "kill"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    RESTART = "restart"
    STACKS = "stacks"
    PROFILE = "profile"
    FAULT = "fault"
    HEAL = "heal"
    DOWN = "down"


class Requested(Tagged):
    """A client's request on the control socket. An Answer action with the same `request` answers the client.

    If `tasks` is empty, all tasks are meant. `signal` is for KILL; `force` skips the grace period of DOWN; `fault` is
    the text of a FAULT; `steps` and `seconds` limit a PROFILE. With `terminal`, PAUSE and UNPAUSE are for all tasks,
    also those that start in between, since the terminal has stopped (Ctrl-Z) or continued the command of the run.
    """

    request: int
    verb: Verb
    tasks: tuple[Task, ...] = ()
    signal: int = 9
    force: bool = False
    fault: str = ""
    steps: int = 20
    seconds: float = 30.0
    terminal: bool = False


class FaultTook(Tagged):
    """The backend's answer to Inject. `detail` is what the backend did or, if `done` is False, why it did nothing."""

    number: int
    detail: str
    done: bool = True
    file: str | None = None  # the path of the damaged file, relative to the checkpoint directory


class LifelineLost(Tagged):
    """A process that the run depends on is gone; all tasks are killed at once."""

    who: str = "clusterkit's guardian process"


class Impaired(Tagged):
    """A part of clusterkit works less well than usual. `what` is a sentence about this. The run continues."""

    what: str
    ends_steps: bool = False  # True if tasks may complete steps from now on that nobody sees


class Crashed(Tagged):
    """clusterkit itself failed; all tasks are killed. If a resource is used up, `lack` is a sentence about that."""

    where: str
    error: str
    traceback: str
    lack: str = ""

    @property
    def sentence(self) -> str:
        """Return a description of the failure for people, without a full stop."""
        return self.lack.rstrip(".") or f"clusterkit itself failed in {self.where} ({self.error})"


class StorageFailed(Tagged):
    """Writing to the run directory failed."""

    error: str


OfAttempt = (
    Spawned | CheckpointFound | SpawnFailed | Exited | Swept | Drained
    | Progressed | Checkpointed | Resumed | Ready | Reached | PhaseChanged | ProgramEnds | SigtermHandled | StepsTimed
    | TrainsWith | InDebugger | LeftDebugger | EditorAwaited | PhaseReached | StepsUnreported | Repaired
)  # fmt: skip
Happened = (
    OfAttempt | Began | Continued | AllocationEnding | Ticked | Profiled | Noted | TensorBoardReady | TensorBoardLost
    | DashboardReady | DashboardLost | ProgramChanged
    | Inspected | Interrupted | Requested | FaultTook | LifelineLost
    | Impaired | Crashed | StorageFailed | OfHost
)  # fmt: skip
Event = Happened | Decided
