"""What can be seen of live tasks from outside."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Look(enum.StrEnum):
    """How closely live tasks are inspected: at once, or for a while and with a report on why the run hangs."""

    GLANCE = "glance"
    STALL = "stall"
    STARTUP = "startup"


@dataclass(frozen=True, slots=True)
class Vitals:
    """What can be seen of a live task from outside. `state` is the letter of /proc/PID/stat.

    After more than a glance, `doing` is where its main thread is, as in "waits in Server.join", empty where it does
    not tell; `own` where that is the program's own code, so that it waits for no other task.
    """

    listening: bool
    state: str
    doing: str = ""
    own: bool = False
