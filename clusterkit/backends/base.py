"""The contract of a backend, which starts and watches tasks, and injects faults, on a machine or on hosts."""

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


class Receiver(Protocol):
    """What a backend sends its events to: the supervisor's inbox."""

    def put(self, item: Happened | Work) -> None:
        """Add an event, or work for the loop's thread. For any thread; never waits."""

    def work_until(self, done: Callable[[], bool], timeout: float, stubborn: bool = False) -> bool:
        """Do incoming work until `done` is true or for `timeout` seconds; return `done`. For the loop's thread.

        An event that ends the run ends the wait too, unless it is `stubborn`.
        """

    @property
    def is_ending(self) -> bool:
        """Whether an event that ends the run has come in. For the loop's thread, after `work_until`."""

    def watch(self, lifeline: int, who: str) -> None:
        """End the run when this descriptor becomes readable or is closed. For the loop's thread."""


class Backend(Protocol):
    """Acts for one run, in the loop's thread, which lives as long as the run. Tested by tests/backends/contract.py."""

    def place(self, directory: RunDirectory) -> Mapping[Task, str]:
        """Prepare the start of the tasks in the run's directory; return their endpoints. Raises ClusterkitError."""

    def do(self, order: Order) -> None:
        """Carry out a decision of the machine. Answers are events in the inbox."""

    def leave(self) -> None:
        """The run is suspended: hosts that are told to end come back in the next allocation."""

    def shut(self) -> None:
        """End all processes of the run and release its resources. May be called before `place`."""
