"""Tasks with their states, and programs, as frozen values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
class Tagged:
    """The base of events, actions and messages: frozen dataclasses that are encoded with the name of their class."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__
        dataclass(frozen=True)(cls)


class TaskType(enum.StrEnum):
    """TensorFlow's task types, in their usual order."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


TYPE_ORDER = tuple(TaskType)


def number_of(kind: str, count: int) -> str:
    """Format a number of tasks or processes, as `2 workers`, `1 chief`, `2 ps` or `2 processes`."""
    plural = "" if count == 1 or kind == TaskType.PS else "es" if kind.endswith("s") else "s"
    return f"{count} {kind}{plural}"


@dataclass(frozen=True, slots=True)
class Task:
    """One member of the job, written `worker:1`."""

    type: TaskType
    index: int

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"

    def __lt__(self, other: Task) -> bool:
        return (TYPE_ORDER.index(self.type), self.index) < (TYPE_ORDER.index(other.type), other.index)

    @property
    def trains(self) -> bool:
        """Return whether the task trains or coordinates: it is neither a ps nor an evaluator."""
        return self.type in (TaskType.CHIEF, TaskType.WORKER)

    @classmethod
    def parse(cls, text: str) -> Task:
        """Parse a task such as `worker:1`. Raises ValueError, whose text is a sentence, if the text is not a task."""
        name, _, index = text.partition(":")
        if name not in set(TaskType) or not (index.isascii() and index.isdecimal()):
            raise ValueError(f"{text!r} is not a task. Write a task type and an index, such as worker:1.")
        return cls(TaskType(name), int(index))


def tasks_named(word: str) -> str:
    """Return the word if it names a task type (`worker`) or a task (`worker:1`). Raises ValueError otherwise."""
    return word if word in set(TaskType) else str(Task.parse(word))


class AttemptEvent(Tagged):
    """The base class of events about one attempt of a task."""

    task: Task
    attempt: int


class Shape(enum.Enum):
    """The kind of a job. It follows from the numbers of tasks, and determines which tasks restart together."""

    PARAMETER_SERVER = "parameter server"
    MULTI_WORKER = "multi-worker mirrored"
    SINGLE = "single process"


class ProgramKind(enum.StrEnum):
    """How the program is started."""

    SCRIPT = "script"  # python FILE
    MODULE = "module"  # python -m NAME
    COMMAND = "command"  # any other executable program


CALLS, PICKLED = "/clusterkit/task/call.py", ".pkl"


@dataclass(frozen=True, slots=True)
class Program:
    """The program that every task runs. `target` is a path, a module name or a command."""

    kind: ProgramKind
    target: str
    args: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.target.endswith(CALLS) and self.args:  # args[0] is a file with a pickled function
            return f"{self.args[0].rpartition('/')[2].removesuffix(PICKLED)}()"
        return f"-m {self.target}" if self.kind is ProgramKind.MODULE else self.target


class TaskState(enum.StrEnum):
    """The states of a task.

    | state    | a process exists | what ends the state                                    |
    | -------- | ---------------- | ------------------------------------------------------ |
    | waiting  | no               | the job begins or the backoff is over: starting, held  |
    | held     | no               | the last reason to hold it ends: starting; the run is  |
    |          |                  | being ended: down                                      |
    | starting | requested        | the process exists: running; the start failed: down    |
    | running  | yes              | the task is being ended: stopping; it exits: draining  |
    | stopping | yes              | it exits, or is killed at the end of the grace period  |
    | draining | no               | group swept, output at end of file: down               |
    | down     | no               | a restart is planned: waiting; otherwise none          |
    """

    WAITING = "waiting"
    HELD = "held"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DRAINING = "draining"
    DOWN = "down"


ALIVE = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING})
SETTLED = frozenset({TaskState.WAITING, TaskState.HELD, TaskState.DOWN})

TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.WAITING: frozenset({TaskState.STARTING, TaskState.HELD}),
    TaskState.HELD: frozenset({TaskState.STARTING, TaskState.DOWN}),
    TaskState.STARTING: frozenset({TaskState.RUNNING, TaskState.DOWN}),
    TaskState.RUNNING: frozenset({TaskState.STOPPING, TaskState.DRAINING}),
    TaskState.STOPPING: frozenset({TaskState.DRAINING}),
    TaskState.DRAINING: frozenset({TaskState.DOWN}),
    TaskState.DOWN: frozenset({TaskState.WAITING}),
}
