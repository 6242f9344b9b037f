"""Actions: what the machine asks for. The backend carries out orders, and the loop the others."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.words.events import Decided, Look
from clusterkit.words.faults import Fault
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunResult


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start an attempt: Spawned or SpawnFailed. `reason` is what CLUSTERKIT_RESTART_REASON says.

    `restore` is the checkpoint that it has to wait for, since its host may not see it yet. Its cluster is without the
    workers that are `given_up`.
    """

    task: Task
    attempt: int
    reason: str
    restore: str | None = None
    given_up: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Signal:
    """Send a signal to every process in the attempt's group. One that is not started yet never is: SpawnFailed.

    With `grace`, the group has that many seconds to end: Exited comes when all of it has, not its first process alone.
    """

    task: Task
    attempt: int
    signal: int
    grace: float = 0.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """Kill what the attempt left behind, prove it dead, then reap; answered by Swept."""

    task: Task
    attempt: int


@dataclass(frozen=True, slots=True)
class CloseOutput:
    """Stop waiting for the end of the attempt's output; answered by Drained."""

    task: Task
    attempt: int


@dataclass(frozen=True, slots=True)
class Inspect:
    """Look at every live task from outside; answered by Inspected. `why` heads the report of more than a glance."""

    look: Look = Look.GLANCE
    why: str = ""


@dataclass(frozen=True, slots=True)
class DumpStacks:
    """Have live Python tasks write the stacks of their threads; without `tasks`, all of them."""

    why: str
    tasks: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class BeginProfile:
    """Have live tasks profile that many of their steps; without `steps`, whatever they do until EndProfile.

    No longer than `seconds` in either case. Each of them answers with Profiled.
    """

    request: int
    tasks: tuple[Task, ...]
    steps: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class EndProfile:
    """Have tasks end what they profile for this request."""

    request: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Inject:
    """Break something that signals can't; answered by FaultTook with the same `number`."""

    number: int
    fault: Fault
    tasks: tuple[Task, ...]
    others: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Heal:
    """Mend what Inject with this number has broken."""

    number: int


@dataclass(frozen=True, slots=True)
class HurrySteps:
    """Post each reported step at once, since a fault waits for one."""


@dataclass(frozen=True, slots=True)
class Avoid:
    """From now on, place tasks on these hosts, and on no more, only where no others can take them.

    It replaces the order before. What runs on a host that is new among them is being ended.
    """

    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refresh:
    """What is spawned next runs a changed program: drop what is kept of these files, relative to its directory.

    `fresh`: it trains from the start, so the checkpoints are moved aside.
    """

    files: tuple[str, ...]
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request: the tasks that it was carried out for, or why it was not."""

    request: int
    tasks: tuple[Task, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Put a decision in the journal and show it."""

    event: Decided


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do."""

    result: RunResult


Order = (
    Spawn | Signal | Sweep | CloseOutput | Inspect | DumpStacks | BeginProfile | EndProfile | Inject | Heal
    | HurrySteps | Avoid | Refresh
)  # fmt: skip
Action = Order | Answer | Record | Finish
