"""Starts: each goes to the host of its task once all tasks are placed, and waits for a host where none is left."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection

from clusterkit.backends.base import Post
from clusterkit.backends.hosts.allocation import LOOK_EVERY, Allocation
from clusterkit.backends.hosts.hosts import Host, Hosts
from clusterkit.backends.hosts.placements import Placements
from clusterkit.backends.link import messages as ms
from clusterkit.system.barrier import start_thread
from clusterkit.words import events as ev
from clusterkit.words.actions import Spawn
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

NO_HOST = "no host is left"


class Starts:
    """The starts that wait, and why tasks could not be placed. For the thread of the loop."""

    def __init__(
        self,
        job: JobSpec,
        hosts: Hosts,
        allocation: Allocation,
        tell: Callable[[Collection[Host], ms.ToAgent], None],
        post: Post,
    ) -> None:
        self._hosts, self._allocation, self._tell, self._post = hosts, allocation, tell, post
        self._patience = job.limits.startup or math.inf
        self._waiting: list[Spawn] = []
        self._found: threading.Event | None = None  # while there is no host: set when that is over
        self._until = math.inf
        self.placements = Placements(job, hosts, tell, self._were_placed, self._failed_to_place)
        self.problems: list[str] = []

    def spawn(self, order: Spawn) -> None:
        self.placements.leave_out(order.given_up)
        if self.placements.is_settled:
            host = self.placements.placed[order.task]
            self._hosts.order(host, order.task, order.attempt)
            self._tell([host], order)
            return
        self._waiting.append(order)
        if not self.placements.is_open and self._found is None:
            self.placements.begin()

    def withdraw(self, task: Task, attempt: int) -> bool:
        """Forget an attempt that is to end; return whether it was waiting."""
        found = [order for order in self._waiting if (order.task, order.attempt) == (task, attempt)]
        for order in found:
            self._waiting.remove(order)
            self._post(ev.SpawnFailed(task, attempt, ev.NEVER_STARTED))
        return bool(found)

    def joined(self) -> None:
        """Place the tasks that wait for a host: one has come."""
        if self._found is not None:
            self.stop()
            if self._waiting:
                self.placements.begin()

    def stop(self) -> None:
        if self._found is not None:
            self._found.set()
            self._found = None

    def _were_placed(self) -> None:
        hosts = {task: host.name for task, host in self.placements.placed.items()}
        placements = self.placements
        self._post(ev.Placed(hosts, placements.endpoints, placements.others, placements.readmitted))
        waiting, self._waiting = self._waiting, []
        for order in waiting:
            self.spawn(order)

    def _failed_to_place(self, problems: list[str]) -> None:
        """React to hosts that can't take their tasks, or to none being left: avoided hosts have to take them."""
        if problems and (names := self.placements.readmit()):
            self._post(ev.Noted(f"{problems[0]} So tasks are placed on {', '.join(names)} again."))
            self.placements.begin()
        elif problems or not self._waiting or self._allocation.failed() is not None:
            self._fail(problems)
        else:
            self._wait_for_a_host()

    def _fail(self, problems: list[str]) -> None:
        why = problems[0] if problems else NO_HOST
        self.problems += problems or [why]
        waiting, self._waiting = self._waiting, []
        for order in waiting:
            self._post(ev.SpawnFailed(order.task, order.attempt, why, crowded=bool(problems)))

    def _wait_for_a_host(self) -> None:
        """Somebody, such as Kubernetes, may start an agent in place of one that has left."""
        limit = "" if self._patience == math.inf else f", for up to {self._patience:g} s"
        self._post(ev.Noted(f"No host is left. The tasks wait for an agent to connect{limit}."))
        self._until = time.monotonic() + self._patience
        found = self._found = threading.Event()

        def look() -> None:
            while not found.wait(LOOK_EVERY):
                self._post(lambda: self._look(found))

        start_thread("hosts", look, self._post)

    def _look(self, found: threading.Event) -> None:
        over = time.monotonic() >= self._until or self._allocation.failed() is not None
        if self._found is found and (over or not self._waiting):
            self.stop()
            self._fail([])
