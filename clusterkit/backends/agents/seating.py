"""Seating: puts tasks on hosts, has their ports held there, and lets every host know where all of them are."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from clusterkit.backends.agents import messages as ms
from clusterkit.backends.agents.hosts import Host, Hosts
from clusterkit.backends.agents.placement import Rule, hosts_of, place
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

Tell = Callable[[Collection[Host], ms.ToAgent], None]


class Seating:
    """Where the tasks are. `settled` is called whenever every host knows that, after `begin`.

    Nothing of the job may run between `begin` and that. `endpoints` has where each task of the cluster listens.
    """

    def __init__(self, job: JobSpec, hosts: Hosts, tell: Tell, settled: Callable[[], None]) -> None:
        self._job, self._hosts, self._tell, self._settled = job, hosts, tell, settled
        self._rules = [Rule.parse(text) for text in job.hosts.place]
        self._seats: set[Host] = set()  # those that have tasks
        self._asked: set[Host] = set()  # those of them that do not hold all ports yet
        self.placed: dict[Task, Host] = {}
        self.endpoints: dict[Task, str] = {}
        self.is_open = False  # between `begin` and `settled`
        self.is_settled = False  # tasks can start

    def begin(self) -> bool:
        """Place every task anew; return whether there is a host at all."""
        ready = self._hosts.ready
        connected = [host for host in ready if not host.cut] or ready
        preferred = [host for host in connected if not host.avoided] or connected
        usable = {host.name: host for host in preferred[: self._job.hosts.count]}
        if not usable:
            self.give_up()
            return False
        chosen = place(self._job, list(usable), self._hosts.names, self._rules)
        self.placed = {task: usable[name] for task, name in chosen.items()}
        self.is_open, self.is_settled = True, False
        tasks = {usable[name]: tasks for name, tasks in hosts_of(chosen).items()}
        self._seats = set(tasks)
        for host in tasks:
            missing = frozenset(tasks[host]) - host.ports.keys() - frozenset().union(*host.claims)
            if missing:
                host.claims.append(missing)
                everyone = () if self._job.restart.min_workers is None else tuple(tasks[host])
                self._tell([host], ms.Claim(tuple(sorted(missing)), everyone))
        self._asked = {host for host in tasks if host.claims}
        self._settle_if_complete()
        return True

    def leave_out(self, given_up: tuple[Task, ...]) -> None:
        """These get no place any more when the tasks are placed anew."""
        if self._job.given_up != given_up:
            self._job = replace(self._job, given_up=given_up)

    def claimed(self, host: Host, answer: ms.Claimed) -> None:
        """A host holds the ports, or can't."""
        tasks = host.claims.popleft() if host.claims else frozenset()
        if answer.problem is None:
            host.ports |= {task: answer.ports.get(task) for task in tasks}
        if not host.claims:
            self._asked.discard(host)
        self._settle_if_complete()

    def avoid(self, host: Host | None) -> None:
        """Place no task there the next time, if there are others."""
        if host is not None:
            host.avoided, self.is_settled = True, False

    def readmit(self) -> list[str]:
        """Take back that hosts are avoided; return their names."""
        avoided = [host for host in self._hosts.ready if host.avoided]
        for host in avoided:
            host.avoided = False
        return [host.name for host in avoided]

    def give_up(self) -> None:
        """Tasks can't be placed: what is still answered changes nothing."""
        self.is_open = self.is_settled = False

    @property
    def others(self) -> tuple[str, ...]:
        """The hosts that have no task."""
        return tuple(host.name for host in self._hosts.ready if host not in self._seats)

    def lose(self, host: Host) -> bool:
        """A host is lost; return whether tasks were placed on it, so that they have to be placed anew."""
        if host in self._seats:
            self.is_settled = False
        return host in self._seats

    def _settle_if_complete(self) -> None:
        if not self.is_open or self._asked:
            return
        self.is_open, self.is_settled = False, True
        ends = ((task, host.address, host.ports[task]) for task, host in self.placed.items())
        self.endpoints = {task: f"{address}:{port}" for task, address, port in ends if port is not None}
        self._tell(self._seats, ms.Know(self.endpoints))
        self._settled()
