"""What live tasks show from outside."""

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
    """How an attempt spends its time: of the `samples`, in how many it was stopped or busy.

    In the `seconds` since the previous inspection, its threads together used `cpu` seconds of CPU, and waited `delayed`
    seconds for one.
    """

    samples: int
    stopped: int
    busy: int
    seconds: float
    cpu: float
    delayed: float


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a live attempt shows from outside. `state` is the letter of /proc/PID/stat.

    Only Look.PACE finds `pace`, and it does not find `listening`. Closer looks find `doing`: where its main thread is,
    as in "waits in Server.join", or empty; and `own`: that is the program's own code, so that it waits for no other
    task.
    """

    attempt: int
    listening: bool
    state: str
    doing: str = ""
    own: bool = False
    pace: Pace | None = None
