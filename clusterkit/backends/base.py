"""The contract of a backend: it starts tasks, watches them and injects faults, on this machine or on other hosts."""

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
    """Carries out the state machine's orders for one run. All methods are called in the loop's thread."""

    def place(self, directory: RunDirectory) -> Mapping[Task, str]:
        """Assign hosts and ports to the tasks, and return the endpoints. Raises ClusterkitError."""

    def do(self, order: Order) -> None:
        """Carry out an order of the state machine. Answers are posted to the inbox as events."""

    def suspend(self) -> None:
        """Make `shut` suspend the run instead of ending it for good: new agents continue it in the next allocation."""

    def shut(self) -> None:
        """End all processes of the run and release its resources. May be called before `place`."""
