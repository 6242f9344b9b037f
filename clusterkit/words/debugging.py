"""Debugging: what a job says about breakpoints, exceptions and editors."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from clusterkit.words.model import Task

LOOPBACK = "127.0.0.1"  # where debugpy listens


class Breakpoints(enum.StrEnum):
    """What `breakpoint()` and `pdb.set_trace()` do in a task."""

    AUTO = "auto"  # as HOLD where `up` runs on a terminal, else as SKIP
    HOLD = "hold"  # the task waits for `clusterkit debug`
    SKIP = "skip"  # the task says that nobody can connect, and continues


@dataclass(frozen=True, slots=True)
class Debugging:
    """How tasks are debugged. `post_mortem`: a task that raises is held, which `--pdb` asks for.

    `editors` are the tasks that run debugpy, each as `TASK` or `TASK=PORT`; if they `wait`, the program begins when an
    editor has connected.
    """

    breakpoints: Breakpoints = Breakpoints.AUTO
    post_mortem: bool = False
    editors: tuple[str, ...] = ()
    wait: bool = False

    @property
    def holds(self) -> bool:
        """Whether a task waits at a breakpoint. AUTO does not: `up` replaces it where it finds a terminal."""
        return self.breakpoints is Breakpoints.HOLD or (self.post_mortem and self.breakpoints is Breakpoints.AUTO)

    def editor_port(self, task: Task) -> int | None:
        """The port at which debugpy listens in the task, 0 for a free one; None if it runs none.

        What can't be read is a problem that job/debugging.py reports.
        """
        for text in self.editors:
            name, _, port = text.partition("=")
            if name in (str(task), str(task.type)):
                return int(port) if port.isascii() and port.isdecimal() else 0
        return None
