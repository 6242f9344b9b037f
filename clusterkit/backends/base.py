"""The contract of a backend: where tasks run, and who starts, watches and breaks them there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from clusterkit.client.directory import RunDirectory
from clusterkit.system.inbox import Work
from clusterkit.words.actions import Order
from clusterkit.words.events import Happened
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

Post = Callable[[Happened | Work], None]


class Preflight(NamedTuple):
    """The job with the resources that its tasks get, problems that prevent it from running, and warnings."""

    job: JobSpec
    problems: list[str]
    warnings: list[str]


class Receiver(Protocol):
    """What a backend sends its events to: the supervisor's inbox."""

    def put(self, item: Happened | Work) -> None:
        """Add an event, or work for the loop's thread. For any thread; never waits."""

    def work_until(self, done: Callable[[], bool], timeout: float, stubborn: bool = False) -> bool:
        """Do the work that comes in until `done`, or `timeout` seconds; return whether it is. For the loop's thread.

        What ends the run ends the wait, unless it is `stubborn`.
        """

    @property
    def is_ending(self) -> bool:
        """Whether something came in that ends the run. For the loop's thread, after `work_until`."""

    def watch(self, lifeline: int, who: str) -> None:
        """End the run when this descriptor becomes readable or reaches its end. For the loop's thread."""


class Backend(Protocol):
    """One run's. Its methods are for the thread of the loop, which lives as long as the run.

    tests/backends/contract.py has what each backend has to keep.
    """

    def place(self, directory: RunDirectory) -> Mapping[Task, str]:
        """Prepare the start of the tasks in the run's directory; return their endpoints. Raises ClusterkitError."""

    def do(self, order: Order) -> None:
        """Carry out a decision of the machine. Answers are events in the inbox."""

    def strays(self, spared: Collection[int] = (), own: str = "") -> Mapping[str, int]:
        """Kill what runs without a supervisor have left behind; return how much, by run id. Raises WillNotDie.

        Processes in `spared` are left alone. `own` is the run that this process continues, and has locked.
        """

    def leave(self) -> None:
        """The run is not over: what is told to end is to come back for the next allocation."""

    def shut(self) -> None:
        """End whatever is left of the run and release its resources, also if it was never placed."""
