"""The states of a task."""

from __future__ import annotations

import enum


class TaskState(enum.StrEnum):
    """
    | state    | a process exists | what ends the state                                    |
    | -------- | ---------------- | ------------------------------------------------------ |
    | waiting  | no               | the job begins, or the backoff is over: starting, held |
    | held     | no               | the last reason for it is gone: starting; or the run   |
    |          |                  | is being ended: down                                   |
    | starting | asked for        | the process exists: running; or it can't be: down      |
    | running  | yes              | it is told to end: stopping; it exits: draining        |
    | stopping | yes              | it exits, or is killed at the end of the grace period  |
    | draining | no               | group swept and output at end of file: down            |
    | down     | no               | a restart is planned: waiting; else it stays down      |
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
