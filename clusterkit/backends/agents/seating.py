"""Seating: puts tasks on hosts, has their ports held there, and lets every host know where all of them are."""

from __future__ import annotations

from collections.abc import Callable

from clusterkit.backends.agents import messages as ms
from clusterkit.backends.agents.hosts import Host, Hosts
from clusterkit.backends.agents.placement import Rule, place
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

Tell = Callable[[Host, ms.ToAgent], None]


class Seating:
    """Where the tasks are. `settled` is called whenever every host knows that, after `begin`.

    Nothing of the job may run between `begin` and that.
    """

    def __init__(self, job: JobSpec, hosts: Hosts, tell: Tell, settled: Callable[[], None]) -> None:
        self._job, self._hosts, self._tell, self._settled = job, hosts, tell, settled
        self._rules = [Rule.parse(text) for text in job.hosts.place]
        self._open = False
        self.placed: dict[Task, Host] = {}

    @property
    def is_settled(self) -> bool:
        """Whether tasks can start."""
        return bool(self.placed) and not self._open and not any(host.lost for host in self.placed.values())

    @property
    def endpoints(self) -> dict[Task, str]:
        """Where each task of the cluster listens."""
        ends = {task: (host.address, host.ports.get(task)) for task, host in self.placed.items()}
        return {task: f"{address}:{port}" for task, (address, port) in ends.items() if port is not None}

    def begin(self) -> bool:
        """Place every task anew; return whether there is a host at all."""
        ready = [host for host in self._hosts.ready if not host.cut] or self._hosts.ready
        usable = {host.name: host for host in ready[: self._job.hosts.count]}
        if not usable:
            return False
        chosen = place(self._job, list(usable), self._hosts.names, self._rules)
        self.placed = {task: usable[name] for task, name in chosen.items()}
        self._open = True
        for host in usable.values():
            host.claims = {task for task, at in self.placed.items() if at is host} - host.ports.keys()
            if host.claims:
                self._tell(host, ms.Claim(tuple(sorted(host.claims))))
        self._settle()
        return True

    def claimed(self, host: Host, answer: ms.Claimed) -> None:
        """A host holds the ports, or can't."""
        host.ports |= {task: answer.ports.get(task) for task in host.claims}
        host.claims = set()
        self._settle()

    def _settle(self) -> None:
        seats = {host.name: host for host in self.placed.values()}.values()
        if not self._open or any(host.claims or host.lost for host in seats):
            return
        self._open = False
        for host in seats:
            self._tell(host, ms.Know(self.endpoints))
        self._settled()
