"""What can be seen of live tasks from outside."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Look(enum.StrEnum):
    """How closely live tasks are inspected: at once, for a while, or with a report on why the run hangs."""

    GLANCE = "glance"
    PACE = "pace"
    STALL = "stall"
    STARTUP = "startup"


@dataclass(frozen=True, slots=True)
class Pace:
    """How an attempt spends its time. Of the `samples`, it was stopped in some, and in others not all of it slept.

    In the `seconds` since the look before, its threads together had `cpu` seconds of CPU, and waited `delayed` seconds
    for one.
    """

    samples: int
    stopped: int
    busy: int
    seconds: float
    cpu: float
    delayed: float


@dataclass(frozen=True, slots=True)
class Vitals:
    """What can be seen of a live attempt from outside. `state` is the letter of /proc/PID/stat.

    A look at paces finds `pace`, and not whether the task listens. Closer looks find `doing`, where its main thread is,
    as in "waits in Server.join", empty where it does not tell; and `own`: that this is the program's own code, so that
    it waits for no other task.
    """

    attempt: int
    listening: bool
    state: str
    doing: str = ""
    own: bool = False
    pace: Pace | None = None
