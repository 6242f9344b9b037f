"""What every backend can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from clusterkit.words.events import Happened, Look
from clusterkit.words.faults import Fault
from clusterkit.words.model import Task

Post = Callable[[Happened], None]


class Backend(Protocol):
    """Starts, signals and reports tasks. Answers come as events through the inbox, never as return values."""

    def start(self, task: Task, attempt: int, reason: str) -> None:
        """Start an attempt, now or when a fork server is ready: Spawned or SpawnFailed, then Exited and Drained."""

    def start_waiting(self) -> None:
        """The fork server is ready or gone: start the attempts that waited for it."""

    def withdraw(self, task: Task, attempt: int) -> None:
        """Do not start an attempt that still waits: SpawnFailed."""

    def signal(self, task: Task, attempt: int, number: int) -> None:
        """Signal every process of an attempt's group."""

    def sweep(self, task: Task, attempt: int) -> None:
        """Kill what an attempt that exited left behind: Swept when it is proved dead."""

    def close_output(self, task: Task, attempt: int) -> None:
        """Wait no longer for the end of an attempt's output: Drained."""

    def inspect(self, look: Look, why: str) -> None:
        """Look at every live attempt: Inspected, at once for a glance, else after a few seconds."""

    def dump_stacks(self, why: str, tasks: Sequence[Task]) -> None:
        """Have live Python tasks write their threads' stacks; without `tasks`, all of them."""

    def begin_profile(self, request: int, tasks: Sequence[Task], steps: int | None, seconds: float) -> None:
        """Have live tasks write profiles, of that many steps or until told to end: Profiled from each."""

    def end_profile(self, request: int, tasks: Sequence[Task]) -> None:
        """Have tasks end what they profile for a request."""

    def inject(self, number: int, fault: Fault, tasks: Sequence[Task], others: Sequence[Task]) -> None:
        """Break something that signals can't: FaultTook."""

    def heal(self, number: int) -> None:
        """Mend what was injected under this number."""

    def hurry_steps(self) -> None:
        """Post each reported step at once from now on, not one a second."""

    def shut(self) -> None:
        """End whatever is left of the run and let go of ports, threads and descriptors."""
