"""Placements: assigns tasks to hosts, and holds back the start of attempts until all tasks are placed."""

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
    """Assigns tasks to hosts. No task may run from the call of `begin` until one of the callbacks is called:

    `settled`: every host has received the `endpoints`.
    `failed`: hosts can't take their tasks, for the given reasons; an empty list means that no host is left.
    """

    def __init__(
        self, job: JobSpec, hosts: Hosts, tell: Tell, settled: Callable[[], None], failed: Callable[[list[str]], None]
    ) -> None:
        self._job, self._hosts, self._tell, self._settled, self._failed = job, hosts, tell, settled, failed
        self._rules = [Rule.parse(text) for text in job.hosts.place]
        self._seats: set[Host] = set()  # hosts that have tasks
        self._asked: dict[Host, frozenset[Task]] = {}  # for each host that has not answered: tasks that need ports
        self._problems: list[str] = []
        self._avoided: frozenset[str] = frozenset()  # hosts in the state machine's last Avoid order
        self._readmits = False  # True if avoided hosts take tasks in this placement
        self._is_outdated = False  # True if tasks have to be placed again after all hosts have answered
        self.placed: dict[Task, Host] = {}
        self.endpoints: dict[Task, str] = {}
        self.is_open = False  # True while hosts have to answer
        self.is_settled = False  # True once tasks can start

    def begin(self) -> None:
        """Assign every task to a host again. Not allowed while `is_open`, as hosts still have to answer."""
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
        """Omit these abandoned tasks from the next placement."""
        if self._job.given_up != given_up:
            self._job = replace(self._job, given_up=given_up)

    def claimed(self, host: Host, answer: ms.Claimed) -> None:
        """Record a host's answer: the ports that it holds, or a problem."""
        tasks = self._asked.pop(host, frozenset())
        if answer.problem is None:
            host.ports |= {task: answer.ports.get(task) for task in tasks}
        elif tasks:
            self._problems.append(f"{host.name}: {answer.problem}")
        self._go_on()

    def avoid(self, names: Collection[str]) -> None:
        """In the next placement, use these hosts only if the other hosts are not enough."""
        for name in set(names) - self._avoided:
            if (host := self._hosts.named(name)) is not None:
                self.leave(host)
        self._avoided, self._readmits = frozenset(names), False

    def leave(self, host: Host) -> None:
        """Note that a host leaves. If it has tasks, all tasks are placed anew with the next restart."""
        if host in self._seats:
            self.is_settled, self._is_outdated = False, True

    def lose(self, host: Host) -> None:
        """Stop waiting for a lost host's answer. If it has tasks, place all tasks again later."""
        self._asked.pop(host, None)
        self.leave(host)
        self._go_on()

    def readmit(self) -> list[str]:
        """Allow avoided hosts in the next placement; return their names, or [] if they were allowed already."""
        names = [] if self._readmits else [host.name for host in self._hosts.usable if host.name in self._avoided]
        self._readmits = bool(names)
        return names

    @property
    def readmitted(self) -> tuple[str, ...]:
        """Return the names of avoided hosts that have tasks nevertheless."""
        return tuple(sorted(self._avoided.intersection(host.name for host in self.placed.values())))

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(host.name for host in self._hosts.usable if host not in self._seats)

    def _go_on(self) -> None:
        """Finish the open placement once all hosts have answered, or repeat it if it is outdated."""
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


class PendingStarts:
    """Holds starts until tasks are placed. `problems` are reasons why placing failed. For the loop's thread."""

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
        self._found: threading.Event | None = None  # ends the wait for a host; None without such a wait
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
        """Cancel the start of an attempt if the start is waiting; return whether it was."""
        found = [order for order in self._waiting if (order.task, order.attempt) == (task, attempt)]
        for order in found:
            self._waiting.remove(order)
            self._post(ev.SpawnFailed(task, attempt, ev.NEVER_STARTED))
        return bool(found)

    def joined(self) -> None:
        """After a host has joined, place the tasks that waited for a host."""
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
        """Place the tasks on avoided hosts as well; if that does not help, fail, or wait for a host to join."""
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
        """Wait for an agent to connect, since Kubernetes, for example, may replace an agent that has ended."""
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
