"""Placements: puts tasks on hosts, has their ports held there, and lets every host know where all of them are."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from clusterkit.backends.hosts.hosts import Host, Hosts
from clusterkit.backends.link import messages as ms
from clusterkit.machine.hosts import Rule, hosts_of, place, preferred
from clusterkit.text.endpoints import endpoint_of
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

Tell = Callable[[Collection[Host], ms.ToAgent], None]


class Placements:
    """Where the tasks are, after `begin`. Nothing of the job may run before one of these is called.

    `settled` is: every host knows where all tasks are, and `endpoints` has where each task of the cluster listens.
    `failed` is: hosts can't take their tasks, for these reasons; for none, where no host is left.
    """

    def __init__(
        self, job: JobSpec, hosts: Hosts, tell: Tell, settled: Callable[[], None], failed: Callable[[list[str]], None]
    ) -> None:
        self._job, self._hosts, self._tell, self._settled, self._failed = job, hosts, tell, settled, failed
        self._rules = [Rule.parse(text) for text in job.hosts.place]
        self._seats: set[Host] = set()  # those that have tasks
        self._asked: dict[Host, frozenset[Task]] = {}  # those of them that have not answered, and for which tasks
        self._problems: list[str] = []
        self._avoided: frozenset[str] = frozenset()  # as the machine ordered last
        self._readmits = False  # those have to take tasks this time, since the others can't
        self._is_outdated = False  # the tasks have to be placed once more, when all have answered
        self.placed: dict[Task, Host] = {}
        self.endpoints: dict[Task, str] = {}
        self.is_open = False  # hosts are asked
        self.is_settled = False  # tasks can start

    def begin(self) -> None:
        """Place every task anew. Not while it is open: an answer to the question before is none to this one."""
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
        """These get no place any more when the tasks are placed anew."""
        if self._job.given_up != given_up:
            self._job = replace(self._job, given_up=given_up)

    def claimed(self, host: Host, answer: ms.Claimed) -> None:
        """A host holds the ports, or can't."""
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
                self._leave(host)
        self._avoided, self._readmits = frozenset(names), False

    def leave(self, host: Host) -> None:
        """A host is about to go. It still answers what it was asked."""
        self._leave(host)

    def lose(self, host: Host) -> None:
        """A host is lost. Where tasks were placed on it, they have to be placed anew."""
        self._asked.pop(host, None)
        self._leave(host)
        self._go_on()

    def readmit(self) -> list[str]:
        """Allow tasks on avoided hosts the next time; return those hosts, none if that was allowed before."""
        names = [] if self._readmits else [host.name for host in self._hosts.usable if host.name in self._avoided]
        self._readmits = bool(names)
        return names

    @property
    def readmitted(self) -> tuple[str, ...]:
        """The hosts that were to be avoided and have tasks all the same."""
        return tuple(sorted(self._avoided.intersection(host.name for host in self.placed.values())))

    @property
    def others(self) -> tuple[str, ...]:
        """The hosts that have no task."""
        return tuple(host.name for host in self._hosts.usable if host not in self._seats)

    def _leave(self, host: Host) -> None:
        if host in self._seats:
            self.is_settled, self._is_outdated = False, True

    def _go_on(self) -> None:
        """Once all have answered."""
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
