"""The contract of a backend, which starts and watches tasks, and injects faults, on this machine or on hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from clusterkit.store.directory import RunDirectory
from clusterkit.system.inbox import Work
from clusterkit.words.actions import Order
from clusterkit.words.events import Happened
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

Post = Callable[[Happened | Work], None]


class Preflight(NamedTuple):
    """The job with its resources assigned, the problems that prevent it from running, and warnings."""

    job: JobSpec
    problems: list[str]
    warnings: list[str]


class Backend(Protocol):
    """Carries out the state machine's orders for one run. The supervisor's loop calls the methods in its thread."""

    def place(self, directory: RunDirectory) -> Mapping[Task, str]:
        """Assign hosts and ports to the tasks, and return the endpoints. Raises ClusterkitError."""

    def do(self, order: Order) -> None:
        """Carry out an order of the state machine. Answers are posted to the inbox as events."""

    def suspend(self) -> None:
        """Prepare to suspend the run: its agents end now, and new agents start in the next allocation."""

    def shut(self) -> None:
        """End all processes of the run and release its resources. May be called before `place`."""
