"""Events that a task reports through its progress channel, and observations of a task from outside its processes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from clusterkit.words.distribution import Training
from clusterkit.words.faults import Phase
from clusterkit.words.model import AttemptEvent, Task


class Stage(enum.StrEnum):
    """The stages of a task's start-up, in order. Not every task reaches or reports every stage."""

    BEGUN = "begun"  # the start was requested
    SPAWNED = "spawned"  # the process exists
    IMPORTED = "imported"  # TensorFlow is imported
    SERVING = "serving"  # the task's own server listens on its port
    CONNECTED = "connected"  # the strategy is created, so the task is connected to its peers
    PREPARED = "prepared"  # model, data and checkpoint are loaded, and the first step begins
    STEPPED = "stepped"  # the first step is reported


class Look(enum.StrEnum):
    """The kind of an inspection: brief (GLANCE), with samples (PACE), or with a report on what blocks the run."""

    GLANCE = "glance"
    PACE = "pace"
    STALL = "stall"
    STARTUP = "startup"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Pace:
    """How an attempt spent its time. Of `samples` samples, it was stopped in `stopped`, and busy in `busy`.

    In the `seconds` since the previous inspection, its threads together used `cpu` seconds of CPU time, and waited
    `delayed` seconds for a CPU.
    """

    samples: int
    stopped: int
    busy: int
    seconds: float
    cpu: float
    delayed: float


@dataclass(frozen=True, slots=True)
class Vitals:
    """Observations of a live attempt from outside its processes. `state` is the letter in /proc/PID/stat.

    An inspection with Look.PACE sets `pace` but not `listening`. Inspections with a report set five more fields:
    `doing` is what the main thread does, such as "waits in Server.join", or empty;
    `own` is True if the main thread runs the program's own code, so that the task does not wait for other tasks;
    `connects` is True if the main thread creates a strategy, which waits for the other tasks of its cluster;
    `error` is the exception with which the attempt's log ends, although the process lives, or empty. An exception that
    only reports a lost peer does not count;
    `growth` says how the attempt's memory has grown, such as "grew from 412 MB to 3100 MB within 40 s", or is empty.
    """

    attempt: int
    listening: bool
    state: str
    doing: str = ""
    own: bool = False
    connects: bool = False
    pace: Pace | None = None
    error: str = ""
    growth: str = ""


MOST_METRICS = 100  # the maximum number of metrics of a task
EDITOR = "an editor"  # the text shown instead of a line of code for a task to which an editor is attached


class Progressed(AttemptEvent):
    """The task reported a step. `total` is the step at which training will end, or None if unknown."""

    step: int
    metrics: Mapping[str, float | None] = field(default_factory=lambda: MappingProxyType({}))
    total: int | None = None

    def added_to(self, before: Mapping[str, float | None]) -> Mapping[str, float | None]:
        """Return the metrics `before`, updated with those of this report.

        A report may contain only some metrics. The last MOST_METRICS metrics are kept.
        """
        if not self.metrics:
            return before
        older = {name: value for name, value in before.items() if name not in self.metrics}
        return dict([*older.items(), *self.metrics.items()][-MOST_METRICS:])


def metrics_of_first(tasks: Mapping[Task, Mapping[str, float | None]]) -> Mapping[str, float | None]:
    """Return the metrics of the first task that has any. The order is: chief, workers, parameter servers, evaluator."""
    return next((metrics for _, metrics in sorted(tasks.items()) if metrics), {})


class Checkpointed(AttemptEvent):
    """The task has completed a checkpoint."""

    step: int
    path: str


class Resumed(AttemptEvent):
    """The program restored the checkpoint `path` of `step`. Without one, `step` is 0 and `path` None."""

    step: int
    path: str | None


class Ready(AttemptEvent):
    """The task's server is up."""


class Reached(AttemptEvent):
    """The task reached a stage of its start-up."""

    stage: Stage


class PhaseChanged(AttemptEvent):
    """The program began or ended a long phase without steps, such as an evaluation."""

    phase: str
    begun: bool


class PhaseReached(AttemptEvent):
    """The task reached a phase at which a fault may be injected, for the `number`th time in this attempt."""

    phase: Phase
    number: int


class ProgramEnds(AttemptEvent):
    """The program has ended, and its process is about to exit. If `begun` is False, the program continues after all."""

    begun: bool = True


class TrainsWith(AttemptEvent):
    """How the program trains. The task's runtime posts the event again after each change.

    `strategies` are the names of the program's strategies. `cluster` is the number of tasks in the TensorFlow
    cluster that the task joined, or 0. `distributed` is True once several tasks have trained together. `outside` is
    where the program called `fit` of a model that was created outside every scope, as in `train.py, line 14`, or "".
    """

    strategies: tuple[str, ...]
    cluster: int
    distributed: bool
    training: Training
    outside: str = ""


class Profiled(AttemptEvent):
    """The task's answer to BeginProfile: the profile's path and number of steps, or the reason why profiling failed.

    `steps` is None for a server, which reports no steps.
    """

    request: int
    path: str | None
    steps: int | None = None
    why: str = ""


class InDebugger(AttemptEvent):
    """The task is waiting in the debugger at a line. `error` is the exception raised there, or empty at a breakpoint.

    If `editor` is True, an editor is attached, and the task may be running.
    """

    file: str = ""
    line: int = 0
    function: str = ""
    error: str = ""
    editor: bool = False

    @property
    def place(self) -> str:
        """Describe the place for people, such as `train.py:31 in step()`."""
        code = self.function.startswith("<")  # True for a code object without a function's name, such as <lambda>
        of = "" if self.function in ("", "<module>") else f" in {self.function}{'' if code else '()'}"
        return EDITOR if self.editor else f"{self.file}:{self.line}{of}"


class LeftDebugger(AttemptEvent):
    """The task left the debugger, and continues or ends."""


class EditorAwaited(AttemptEvent):
    """The task runs debugpy at `address`. If `waits` is True, its program begins only when an editor is attached."""

    address: str
    waits: bool = False


class SigtermHandled(AttemptEvent):
    """Whether the task handles SIGTERM.

    TensorFlow's preemption notifier counts as a handler only if the program uses it.
    """

    handled: bool


class Repaired(AttemptEvent):
    """A repair has taken effect in the task: it has changed something for the program. See words/repairs.py."""

    repair: str


class StepsUnreported(AttemptEvent):
    """The program has imported clusterkit.training, and has trained for `seconds` without reporting a step."""

    seconds: int


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The number of steps that a worker has finished, and their total duration in seconds."""

    count: int
    seconds: float


class StepsTimed(AttemptEvent):
    """A coordinator's report on the steps that its workers have finished since its previous report."""

    workers: Mapping[Task, StepTimes]
