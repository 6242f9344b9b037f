"""The actions that the state machine decides on. The backend executes each Order, the supervisor's loop the others."""

from __future__ import annotations

from clusterkit.words.events import Decided, Look
from clusterkit.words.faults import Fault
from clusterkit.words.model import Tagged, Task
from clusterkit.words.outcome import RunResult


class Spawn(Tagged):
    """Start an attempt. The backend answers with the event Spawned or SpawnFailed.

    `reason` becomes CLUSTERKIT_RESTART_REASON. The attempt waits until the checkpoint `restore` is visible on its host.
    The cluster spec of the attempt omits the `given_up` workers.
    """

    task: Task
    attempt: int
    reason: str
    restore: str | None = None
    given_up: tuple[Task, ...] = ()


class Signal(Tagged):
    """Send a signal to every process in the attempt's group. If there is no process yet, SpawnFailed is posted.

    With `grace`, Exited is posted when all processes of the group have ended, or after this many seconds.
    """

    task: Task
    attempt: int
    signal: int
    grace: float = 0.0


class Sweep(Tagged):
    """Kill the remaining processes of the attempt, check that they are dead, and reap them. Answered by Swept."""

    task: Task
    attempt: int


class CloseOutput(Tagged):
    """Stop reading the attempt's output. The backend answers with the event Drained."""

    task: Task
    attempt: int


class Inspect(Tagged):
    """Inspect every live task from outside its processes. Answered by Inspected. `why` is the report's heading."""

    look: Look = Look.GLANCE
    why: str = ""


class DumpStacks(Tagged):
    """Make live Python tasks write the stacks of their threads. If `tasks` is empty, this applies to all tasks."""

    why: str
    tasks: tuple[Task, ...] = ()


class BeginProfile(Tagged):
    """Make live tasks profile their next `steps` steps or, if `steps` is None, everything until EndProfile.

    A profile lasts at most `seconds`. Each task answers with Profiled.
    """

    request: int
    tasks: tuple[Task, ...]
    steps: int | None
    seconds: float


class EndProfile(Tagged):
    """Make tasks end the profile that this request began."""

    request: int
    tasks: tuple[Task, ...]


class Inject(Tagged):
    """Inject a fault that is not just a signal. The backend answers with FaultTook and the same `number`."""

    number: int
    fault: Fault
    tasks: tuple[Task, ...]
    others: tuple[Task, ...] = ()


class Heal(Tagged):
    """Heal the fault with this number."""

    number: int


class HurrySteps(Tagged):
    """From now on, post each reported step and phase without delay, since a fault waits for a step or phase."""


class Avoid(Tagged):
    """Place tasks on these hosts only if no other host can take the tasks.

    Each Avoid replaces the previous one. Tasks on a newly avoided host are already being ended.
    """

    hosts: tuple[str, ...]


class Refresh(Tagged):
    """Drop the caches of changed program files, so that later attempts run the new program.

    `files` are relative to the program's directory. If `fresh` is True, move the checkpoints away, to begin at step 0.
    """

    files: tuple[str, ...]
    fresh: bool = False


class Answer(Tagged):
    """Answer a client's request with the tasks that it has affected, or with the reason why it was refused."""

    request: int
    tasks: tuple[Task, ...] = ()
    problem: str | None = None


class Record(Tagged):
    """Write an event that records a decision to the journal, and show the event to the user."""

    event: Decided


class Finish(Tagged):
    """End the run with this result."""

    result: RunResult


Order = (
    Spawn | Signal | Sweep | CloseOutput | Inspect | DumpStacks | BeginProfile | EndProfile | Inject | Heal
    | HurrySteps | Avoid | Refresh
)  # fmt: skip
Action = Order | Answer | Record | Finish
