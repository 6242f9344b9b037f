"""Assigns tasks to hosts, and holds back the start of attempts until all tasks are placed."""

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

Send = Callable[[Collection[Host], ms.ToAgent], None]
NO_HOST = "no host is left"


class Placements:
    """Assigns tasks to hosts. After `begin` is called, no task may run until one of these callbacks is called:

    `settled`: every host has received the `endpoints`.
    `failed`: hosts can't take their tasks, for the given reasons; an empty list means that no host is left.
    """

    def __init__(
        self, job: JobSpec, hosts: Hosts, send: Send, settled: Callable[[], None], failed: Callable[[list[str]], None]
    ) -> None:
        self._job, self._hosts, self._send, self._settled, self._failed = job, hosts, send, settled, failed
        self._rules = [Rule.parse(text) for text in job.hosts.place]
        self._used_hosts: set[Host] = set()  # hosts that have tasks
        self._claims: dict[Host, frozenset[Task]] = {}  # hosts that have not answered, with the tasks that need ports
        self._problems: list[str] = []
        self._avoided: frozenset[str] = frozenset()  # the names of hosts in the state machine's last Avoid order
        self._readmits = False  # True if avoided hosts take tasks in this placement
        self._is_outdated = False  # True if tasks have to be placed again after all hosts have answered
        self.placed: dict[Task, Host] = {}
        self.endpoints: dict[Task, str] = {}
        self.is_open = False  # True while a placement waits for the hosts' answers
        self.is_settled = False  # True once tasks can start

    def begin(self) -> None:
        """Assign every task to a host again. Not allowed while `is_open`, since hosts still have to answer."""
        ready = self._hosts.usable
        connected = [host for host in ready if not host.is_cut] or ready
        names = {host.name: host for host in connected}
        avoided = set[str]() if self._readmits else self._avoided
        usable = {name: names[name] for name in preferred(list(names), avoided, self._job.hosts.count)}
        self._problems, self._is_outdated = [], False
        self.is_open, self.is_settled = bool(usable), False
        if not usable:
            self._failed([])
            return
        host_names = place(self._job, list(usable), self._hosts.names, self._rules)
        self.placed = {task: usable[name] for task, name in host_names.items()}
        tasks = {usable[name]: tasks for name, tasks in hosts_of(host_names).items()}
        self._used_hosts = set(tasks)
        for host, host_tasks in tasks.items():
            if missing := frozenset(host_tasks) - host.ports.keys():
                self._claims[host] = missing
                all_tasks = () if self._job.restart.min_workers is None else tuple(host_tasks)
                self._send([host], ms.Claim(tuple(sorted(missing)), all_tasks))
        self._settle()

    def omit(self, given_up: tuple[Task, ...]) -> None:
        """Omit these tasks, which were given up, from the next placement."""
        if self._job.given_up != given_up:
            self._job = replace(self._job, given_up=given_up)

    def claimed(self, host: Host, answer: ms.Claimed) -> None:
        """Record a host's answer: the ports that it holds, or a problem."""
        tasks = self._claims.pop(host, frozenset())
        if answer.problem is None:
            host.ports |= {task: answer.ports.get(task) for task in tasks}
        elif tasks:
            self._problems.append(f"{host.name}: {answer.problem}")
        self._settle()

    def avoid(self, names: Collection[str]) -> None:
        """In the next placement, use these hosts only if the other hosts are not enough."""
        for name in set(names) - self._avoided:
            if (host := self._hosts.by_name(name)) is not None:
                self.host_leaves(host)
        self._avoided, self._readmits = frozenset(names), False

    def host_leaves(self, host: Host) -> None:
        """Note that a host is leaving. If the host has tasks, all tasks are placed again at the next restart."""
        if host in self._used_hosts:
            self.is_settled, self._is_outdated = False, True

    def host_lost(self, host: Host) -> None:
        """Stop waiting for a lost host's answer. If the host has tasks, place all tasks again later."""
        self._claims.pop(host, None)
        self.host_leaves(host)
        self._settle()

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
    def spare_hosts(self) -> tuple[str, ...]:
        return tuple(host.name for host in self._hosts.usable if host not in self._used_hosts)

    def _settle(self) -> None:
        """Finish the open placement once all hosts have answered; if the placement is outdated, repeat it."""
        if not self.is_open or self._claims:
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
        self._send(self._used_hosts, ms.Endpoints(self.endpoints))
        self._settled()


class PendingStarts:
    """Holds back the start of attempts until the tasks are placed. Call its methods in the loop's thread."""

    def __init__(
        self,
        job: JobSpec,
        hosts: Hosts,
        allocation: Allocation,
        send: Send,
        post: Post,
    ) -> None:
        self._hosts, self._allocation, self._send, self._post = hosts, allocation, send, post
        self._search_limit = job.limits.startup or math.inf
        self._waiting: list[Spawn] = []
        self._search: threading.Event | None = None  # set to end the wait for a host; None if nothing waits for a host
        self._search_until = math.inf
        self.placements = Placements(job, hosts, send, self._on_settled, self._on_failed)
        self.problems: list[str] = []

    def spawn(self, order: Spawn) -> None:
        self.placements.omit(order.given_up)
        if self.placements.is_settled:
            host = self.placements.placed[order.task]
            self._hosts.add_attempt(host, order.task, order.attempt)
            self._send([host], order)
            return
        self._waiting.append(order)
        if not self.placements.is_open and self._search is None:
            self.placements.begin()

    def withdraw(self, task: Task, attempt: int) -> bool:
        """Cancel an attempt's start if the start is waiting; return whether it was cancelled."""
        withdrawn = [order for order in self._waiting if (order.task, order.attempt) == (task, attempt)]
        for order in withdrawn:
            self._waiting.remove(order)
            self._post(ev.SpawnFailed(task, attempt, ev.NEVER_STARTED))
        return bool(withdrawn)

    def host_joined(self) -> None:
        """Place the tasks that waited for a host, since a host has joined."""
        if self._search is not None:
            self.stop()
            if self._waiting:
                self.placements.begin()

    def stop(self) -> None:
        if self._search is not None:
            self._search.set()
            self._search = None

    def _on_settled(self) -> None:
        hosts = {task: host.name for task, host in self.placements.placed.items()}
        placements = self.placements
        self._post(ev.Placed(hosts, placements.endpoints, placements.spare_hosts, placements.readmitted))
        waiting, self._waiting = self._waiting, []
        for order in waiting:
            self.spawn(order)

    def _on_failed(self, problems: list[str]) -> None:
        """Retry the placement with the avoided hosts. If there are none, fail, or wait for a host to join."""
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
        limit = "" if self._search_limit == math.inf else f", for up to {self._search_limit:g} s"
        self._post(ev.Noted(f"No host is left. The tasks wait for an agent to connect{limit}."))
        self._search_until = time.monotonic() + self._search_limit
        search = self._search = threading.Event()

        def check() -> None:
            while not search.wait(LOOK_EVERY):
                self._post(lambda: self._check_search(search))

        start_thread("hosts", check, self._post)

    def _check_search(self, search: threading.Event) -> None:
        is_over = time.monotonic() >= self._search_until or self._allocation.failed() is not None
        if self._search is search and (is_over or not self._waiting):
            self.stop()
            self._fail([])
