"""The contract of a backend: where tasks run, and who starts, watches and breaks them there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from clusterkit.client.directory import RunDirectory
from clusterkit.words.actions import Order
from clusterkit.words.events import Happened
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

Work = Callable[[], None]
Post = Callable[[Happened | Work], None]


class Preflight(NamedTuple):
    """The job with what its tasks are given, why it can't run, and what its user should know all the same."""

    job: JobSpec
    problems: list[str]
    warnings: list[str]


class Receiver(Protocol):
    """What a backend sends its events to: the supervisor's inbox."""

    def put(self, item: Happened | Work) -> None:
        """Add an event, or work that has to be done in the thread of the loop, from any thread. Never waits."""

    def watch(self, lifeline: int, who: str) -> None:
        """Have the run end when this descriptor can be read, or is at its end. For the thread of the loop."""


class Backend(Protocol):
    """One run's. Its methods are for the thread of the loop, which lives as long as the run.

    tests/backends/contract.py has what each backend has to keep.
    """

    @staticmethod
    def preflight(job: JobSpec) -> Preflight:
        """See whether the job can run, before there is a run; nothing is kept for it."""

    def place(self, directory: RunDirectory) -> Mapping[Task, str]:
        """Get ready for the tasks' starts, in the run's directory; the tasks' endpoints. Raises ClusterkitError."""

    def do(self, order: Order) -> None:
        """Carry out what the machine has decided. Answers come as events through the inbox."""

    def strays(self) -> Mapping[str, int]:
        """End what runs that have lost their supervisor left behind; how much, by run id. Raises WillNotDie."""

    def shut(self) -> None:
        """End whatever is left of the run, and let go of all that it had. Also where it was never placed."""
