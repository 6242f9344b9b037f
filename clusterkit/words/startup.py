"""Start-up: how each task's first attempt got to its first step. All times in seconds since the run began."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from clusterkit.words.model import Task


class Stage(enum.StrEnum):
    """The stages of a task's start-up, in order. A task may skip some, or pass them unseen."""

    BEGUN = "begun"  # the start was asked for
    SPAWNED = "spawned"  # the process exists
    IMPORTED = "imported"  # TensorFlow is imported
    SERVING = "serving"  # the task's own server, and so its port, is up
    CONNECTED = "connected"  # the strategy is made: the task is connected to its peers
    PREPARED = "prepared"  # the first step begins: model, data and checkpoint are loaded
    STEPPED = "stepped"  # the first step is reported


@dataclass(frozen=True, slots=True)
class TaskStart:
    """The first attempt of a task: when it reached each stage; None if it was not seen to.

    `forked`: from a process that had imported TensorFlow, so that `imported` follows `spawned` at once.
    """

    task: Task
    forked: bool = False
    begun: float | None = None
    spawned: float | None = None
    imported: float | None = None
    serving: float | None = None
    connected: float | None = None
    prepared: float | None = None
    stepped: float | None = None

    def at(self, stage: Stage) -> float | None:
        """When the task reached a stage."""
        time: float | None = getattr(self, stage.value)
        return time


@dataclass(frozen=True, slots=True)
class Link:
    """A piece of the critical chain: from `begin` to `end`, the first step waited for the task to reach `stage`."""

    task: Task
    stage: Stage
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Startup:
    """The start-up of a run: each task's first attempt, and the critical chain.

    The links of the chain follow one another from the beginning of the run to its first step. It is empty until a step
    is reported.
    """

    tasks: tuple[TaskStart, ...] = ()
    chain: tuple[Link, ...] = ()

    @property
    def seconds(self) -> float | None:
        """From the beginning of the run to its first step; None before that."""
        return self.chain[-1].end if self.chain else None
