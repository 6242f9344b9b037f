"""Reports: what a task says of itself through its progress channel, as events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from clusterkit.words.distribution import Training
from clusterkit.words.model import Tagged, Task
from clusterkit.words.startup import Stage

EDITOR = "an editor"  # what debugs the task, if it is not at a prompt


@dataclass(frozen=True, slots=True)
class Progressed(Tagged):
    """The newest step that the task reported; `total`: how many steps it will make in all, if it knows."""

    task: Task
    attempt: int
    step: int
    metrics: Mapping[str, float | None] = field(default_factory=lambda: MappingProxyType({}))
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpointed(Tagged):
    """A checkpoint is complete."""

    task: Task
    attempt: int
    step: int
    path: str


@dataclass(frozen=True, slots=True)
class Resumed(Tagged):
    """The program restored a checkpoint; step 0 and no path if it began anew."""

    task: Task
    attempt: int
    step: int
    path: str | None


@dataclass(frozen=True, slots=True)
class Ready(Tagged):
    """The task's server is up."""

    task: Task
    attempt: int


@dataclass(frozen=True, slots=True)
class Reached(Tagged):
    """The task has come so far in its start-up: it has imported TensorFlow, serves, is connected, or is prepared."""

    task: Task
    attempt: int
    stage: Stage


@dataclass(frozen=True, slots=True)
class PhaseChanged(Tagged):
    """The program began something long that makes no steps, such as an evaluation, or has ended it."""

    task: Task
    attempt: int
    phase: str
    begun: bool


@dataclass(frozen=True, slots=True)
class ProgramEnds(Tagged):
    """The program has nothing left to do, and its process is about to exit; if not `begun`, it continues after all."""

    task: Task
    attempt: int
    begun: bool = True


@dataclass(frozen=True, slots=True)
class TrainsWith(Tagged):
    """How the program trains, as far as its runtime sees; sent again when that changes.

    `strategies` are those that it has made, `cluster` is how many tasks are in the cluster that TensorFlow has joined,
    0 for none. `distributed`: several tasks have trained something together.
    """

    task: Task
    attempt: int
    strategies: tuple[str, ...]
    cluster: int
    distributed: bool
    training: Training


@dataclass(frozen=True, slots=True)
class Profiled(Tagged):
    """The task's answer to a request for a profile: where it is and over how many steps, or why there is none.

    `steps` is None for a server, which makes none of its own.
    """

    task: Task
    attempt: int
    request: int
    path: str | None
    steps: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class InDebugger(Tagged):
    """The task waits in the debugger, at a line of a function; `error` is what it raised there, empty at a breakpoint.

    `editor`: an editor is attached to it instead, and it may run.
    """

    task: Task
    attempt: int
    file: str = ""
    line: int = 0
    function: str = ""
    error: str = ""
    editor: bool = False

    @property
    def place(self) -> str:
        """`train.py:31 in step()`."""
        code = self.function.startswith("<")  # <module>, <lambda>
        of = "" if self.function in ("", "<module>") else f" in {self.function}{'' if code else '()'}"
        return EDITOR if self.editor else f"{self.file}:{self.line}{of}"


@dataclass(frozen=True, slots=True)
class LeftDebugger(Tagged):
    """The task has left the debugger, and continues or ends."""

    task: Task
    attempt: int


@dataclass(frozen=True, slots=True)
class EditorAwaited(Tagged):
    """The task runs debugpy, for an editor to connect to; `waits`: its program begins when one is attached."""

    task: Task
    attempt: int
    address: str
    waits: bool = False


@dataclass(frozen=True, slots=True)
class SigtermHandled(Tagged):
    """Whether anything in the task handles SIGTERM, apart from TensorFlow's own notifier if nothing waits for it."""

    task: Task
    attempt: int
    handled: bool


@dataclass(frozen=True, slots=True)
class StepTimes:
    """How many steps a worker has finished, and how many seconds they took together."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StepsTimed(Tagged):
    """A coordinator's report on the steps that its workers have finished since its last one."""

    task: Task
    attempt: int
    workers: Mapping[Task, StepTimes]
