"""Placements: puts tasks on hosts, and starts each attempt there once all are placed, or once a host is left."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from clusterkit.backends.base import Post
from clusterkit.backends.hosts.allocation import LOOK_EVERY, Allocation
from clusterkit.backends.hosts.hosts import Host, Hosts
from clusterkit.backends.link import messages as ms
from clusterkit.machine.hosts import Rule, hosts_of, place, preferred
from clusterkit.system.barrier import start_thread
from clusterkit.text.endpoints import endpoint_of
from clusterkit.words import events as ev
from clusterkit.words.actions import Spawn
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

Tell = Callable[[Collection[Host], ms.ToAgent], None]
NO_HOST = "no host is left"


class Placements:
    """The hosts of the tasks, after `begin`. Nothing of the job may run before one of these is called.

    `settled`: every host has the `endpoints`.
    `failed`: hosts can't take their tasks, or, without reasons, no host is left.
    """

    def __init__(
        self, job: JobSpec, hosts: Hosts, tell: Tell, settled: Callable[[], None], failed: Callable[[list[str]], None]
    ) -> None:
        self._job, self._hosts, self._tell, self._settled, self._failed = job, hosts, tell, settled, failed
        self._rules = [Rule.parse(text) for text in job.hosts.place]
        self._seats: set[Host] = set()  # hosts that have tasks
        self._asked: dict[Host, frozenset[Task]] = {}  # by hosts that have not answered
        self._problems: list[str] = []
        self._avoided: frozenset[str] = frozenset()  # by the machine's last order
        self._readmits = False  # whether avoided hosts take tasks this time
        self._is_outdated = False  # whether the tasks have to be placed again after all answers
        self.placed: dict[Task, Host] = {}
        self.endpoints: dict[Task, str] = {}
        self.is_open = False  # hosts are asked
        self.is_settled = False  # tasks can start

    def begin(self) -> None:
        """Place every task anew; not while a placement is open, as hosts still have to answer it."""
        ready = self._hosts.usable
        connected = [host for host in ready if not host.cut] or ready
        names = {host.name: host for host in connected}
        avoided = set[str]() if self._readmits else self._avoided
        usable = {name: names[name] for name in preferred(list(names), avoided, self._job.hosts.count)}
        self._problems, self._is_outdated = [], False
        self.is_open, self.is_settled = bool(usable), False
        if not usable:
            self._failed([])
            return
        chosen = place(self._job, list(usable), self._hosts.names, self._rules)
        self.placed = {task: usable[name] for task, name in chosen.items()}
        tasks = {usable[name]: tasks for name, tasks in hosts_of(chosen).items()}
        self._seats = set(tasks)
        for host, its in tasks.items():
            if missing := frozenset(its) - host.ports.keys():
                self._asked[host] = missing
                everyone = () if self._job.restart.min_workers is None else tuple(its)
                self._tell([host], ms.Claim(tuple(sorted(missing)), everyone))
        self._go_on()

    def leave_out(self, given_up: tuple[Task, ...]) -> None:
        """Give these tasks no place when tasks are placed anew."""
        if self._job.given_up != given_up:
            self._job = replace(self._job, given_up=given_up)

    def claimed(self, host: Host, answer: ms.Claimed) -> None:
        """Take a host's answer: it holds the ports, or can't."""
        tasks = self._asked.pop(host, frozenset())
        if answer.problem is None:
            host.ports |= {task: answer.ports.get(task) for task in tasks}
        elif tasks:
            self._problems.append(f"{host.name}: {answer.problem}")
        self._go_on()

    def avoid(self, names: Collection[str]) -> None:
        """Place no task on these hosts the next time, if there are others."""
        for name in set(names) - self._avoided:
            if (host := self._hosts.named(name)) is not None:
                self.leave(host)
        self._avoided, self._readmits = frozenset(names), False

    def leave(self, host: Host) -> None:
        """Place the tasks of a host that is to leave anew. The host still answers pending requests."""
        if host in self._seats:
            self.is_settled, self._is_outdated = False, True

    def lose(self, host: Host) -> None:
        """Place the tasks of a lost host anew."""
        self._asked.pop(host, None)
        self.leave(host)
        self._go_on()

    def readmit(self) -> list[str]:
        """Allow tasks on avoided hosts the next time; return those hosts, none if that was allowed before."""
        names = [] if self._readmits else [host.name for host in self._hosts.usable if host.name in self._avoided]
        self._readmits = bool(names)
        return names

    @property
    def readmitted(self) -> tuple[str, ...]:
        """The avoided hosts that have tasks nevertheless."""
        return tuple(sorted(self._avoided.intersection(host.name for host in self.placed.values())))

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(host.name for host in self._hosts.usable if host not in self._seats)

    def _go_on(self) -> None:
        """Continue once all hosts have answered."""
        if not self.is_open or self._asked:
            return
        if self._is_outdated:
            self.begin()
            return
        self.is_open, self.is_settled = False, not self._problems
        if self._problems:
            self._failed(self._problems)
            return
        ends = ((task, host.address or "", host.ports[task]) for task, host in self.placed.items())
        self.endpoints = {task: endpoint_of(address, port) for task, address, port in ends if port is not None}
        self._tell(self._seats, ms.Endpoints(self.endpoints))
        self._settled()


class Starts:
    """The pending starts, and why tasks could not be placed. For the thread of the loop."""

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
        """A host joined: place the tasks that wait for one."""
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
        """Wait, since somebody, such as Kubernetes, may start an agent in place of one that has left."""
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
