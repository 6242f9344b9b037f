"""The actions that the state machine decides on. The backend carries out each Order, the loop every other action."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.words.events import Decided, Look
from clusterkit.words.faults import Fault
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunResult


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start an attempt; answered by Spawned or SpawnFailed.

    `reason` becomes CLUSTERKIT_RESTART_REASON. The attempt waits until its host sees the checkpoint `restore`. The
    cluster spec of the attempt omits the `given_up` workers.
    """

    task: Task
    attempt: int
    reason: str
    restore: str | None = None
    given_up: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Signal:
    """Send a signal to every process in the attempt's group. Without a process, the answer is SpawnFailed.

    With `grace`, the whole group has that many seconds to end, and Exited is posted only when
    all its processes have ended.
    """

    task: Task
    attempt: int
    signal: int
    grace: float = 0.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """Kill the remaining processes of the attempt, prove them dead, then reap; answered by Swept."""

    task: Task
    attempt: int


@dataclass(frozen=True, slots=True)
class CloseOutput:
    """Stop reading the attempt's output; answered by Drained."""

    task: Task
    attempt: int


@dataclass(frozen=True, slots=True)
class Inspect:
    """Inspect every live task from outside its processes; answered by Inspected. `why` is the heading of the report."""

    look: Look = Look.GLANCE
    why: str = ""


@dataclass(frozen=True, slots=True)
class DumpStacks:
    """Have live Python tasks write the stacks of their threads; no `tasks` means all."""

    why: str
    tasks: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class BeginProfile:
    """Have live tasks profile their next `steps` steps or, if `steps` is None, everything until EndProfile.

    A profile lasts `seconds` at most. Each task answers with Profiled.
    """

    request: int
    tasks: tuple[Task, ...]
    steps: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class EndProfile:
    """Have tasks end the profile that this request began."""

    request: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Inject:
    """Inject a fault that takes more than a signal; answered by FaultTook with the same `number`."""

    number: int
    fault: Fault
    tasks: tuple[Task, ...]
    others: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Heal:
    """Heal the fault with this number."""

    number: int


@dataclass(frozen=True, slots=True)
class HurrySteps:
    """Post each reported step and phase without delay, since a fault waits for a step or phase."""


@dataclass(frozen=True, slots=True)
class Avoid:
    """Place tasks on these hosts only if no other host can take the tasks.

    Each Avoid replaces the previous one. Tasks on a newly avoided host are already being ended.
    """

    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refresh:
    """Drop the caches of changed program files, so that later attempts run the new program.

    `files` are relative to the program's directory. `fresh`: move the checkpoints aside to train from step 0.
    """

    files: tuple[str, ...]
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request: the tasks that it affected, or why it failed."""

    request: int
    tasks: tuple[Task, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Write a decision to the journal and show it."""

    event: Decided


@dataclass(frozen=True, slots=True)
class Finish:
    """End the run: nothing is left to do."""

    result: RunResult


Order = (
    Spawn | Signal | Sweep | CloseOutput | Inspect | DumpStacks | BeginProfile | EndProfile | Inject | Heal
    | HurrySteps | Avoid | Refresh
)  # fmt: skip
Action = Order | Answer | Record | Finish
