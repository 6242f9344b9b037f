"""The supervisor's records of a run's hosts, and the combined answers of several hosts to one order."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from clusterkit.backends.link.connection import Connection
from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit

Post = Callable[[ev.Inspected | ev.FaultTook], None]


class Grants:
    """The attempts that each agent was ordered to start: it delivers nothing of others, also after they are over.

    The loop's thread adds attempts, and the listener's thread asks. A set needs no lock for that.
    """

    def __init__(self) -> None:
        self._attempts: dict[Connection, set[tuple[Task, int]]] = {}
        self._tasks: dict[Connection, set[Task]] = {}

    def add(self, agent: Connection, task: Task, number: int) -> None:
        """Note an attempt, before its agent is ordered to start it."""
        self._tasks.setdefault(agent, set()).add(task)
        self._attempts.setdefault(agent, set()).add((task, number))

    def has(self, agent: Connection, task: Task, number: int) -> bool:
        return (task, number) in self._attempts.get(agent, ())

    def tasks_of(self, agent: Connection) -> Collection[Task]:
        """Return the tasks of which the agent was ordered to start an attempt."""
        return self._tasks.get(agent, ())


@dataclass(slots=True, eq=False)
class Host:
    """A host, its connection, and its attempts."""

    name: str
    connection: Connection
    address: str | None = None  # the address for other hosts to use; None until the agent is ready
    is_cut: bool = False
    is_lost: bool = False
    is_leaving: bool = False  # True if the host gets no new tasks, and its agent ends after the last task
    ports: dict[Task, int | None] = field(default_factory=dict)  # ports held for tasks; None for an evaluator
    # The attempts that the host was ordered to start and that are not over, each with the kinds of its events so far.
    attempts: dict[tuple[Task, int], set[type[ev.Happened]]] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return self.address is not None and not self.is_lost

    @property
    def usable(self) -> bool:
        """Return whether new tasks can be placed on the host."""
        return self.ready and not self.is_leaving

    @property
    def running(self) -> list[tuple[Task, int]]:
        """Return the attempts that have a process on the host."""
        return [key for key, seen in self.attempts.items() if ev.Spawned in seen and ev.Exited not in seen]

    def last_events(self) -> Iterator[ev.SpawnFailed | ev.Exited | ev.Swept]:
        """Yield the events that end the attempts of a lost host, except Drained."""
        for (task, number), seen in sorted(self.attempts.items()):
            if ev.Spawned not in seen:
                yield ev.SpawnFailed(task, number, "its host was lost", self.name)
                continue
            if ev.Exited not in seen:
                yield ev.Exited(task, number, Exit(host=self.name))
            if ev.Swept not in seen:  # no Sweep order is needed: the processes ended with their host
                yield ev.Swept(task, number)

    def track(self, event: object) -> None:
        """Note an event about an attempt, and forget the attempt once it is over; ignore other messages."""
        if isinstance(event, ev.OfAttempt) and (seen := self.attempts.get((event.task, event.attempt))) is not None:
            seen.add(type(event))
            if ev.SpawnFailed in seen or seen >= {ev.Swept, ev.Drained}:
                del self.attempts[event.task, event.attempt]


class Hosts:
    """All hosts that ever had an agent in this run. Lookups by name, connection and attempt take constant time."""

    def __init__(self) -> None:
        self._all: list[Host] = []
        self._by_name: dict[str, Host] = {}  # only hosts that are not lost
        self._by_connection: dict[Connection, Host] = {}
        self._last_host: dict[Task, Host] = {}  # the host of each task's last attempt
        self.ready_count = 0
        self.grants = Grants()

    def add(self, host: Host) -> None:
        self._all.append(host)
        self._by_name[host.name] = self._by_connection[host.connection] = host

    def mark_ready(self, host: Host, address: str) -> None:
        host.address = address
        self.ready_count += 1

    def mark_lost(self, host: Host) -> None:
        self.ready_count -= host.usable
        host.is_lost = True
        del self._by_name[host.name], self._by_connection[host.connection]

    def mark_leaving(self, host: Host) -> None:
        self.ready_count -= host.usable
        host.is_leaving = True

    def add_attempt(self, host: Host, task: Task, number: int) -> None:
        """Record that a host was ordered to start an attempt. By then, earlier attempts of the task have ended."""
        self.grants.add(host.connection, task, number)
        host.attempts[task, number] = set()
        self._last_host[task] = host

    def of_attempt(self, task: Task, number: int) -> Host | None:
        """Return the host of an attempt that is not over, unless that host is lost."""
        host = self._last_host.get(task)
        return host if host is not None and not host.is_lost and (task, number) in host.attempts else None

    def sort(self) -> None:
        """Sort the hosts that have joined so far by name."""
        self._all.sort(key=lambda host: sort_key(host.name))

    @property
    def ready(self) -> list[Host]:
        """Return the hosts on which tasks can run."""
        return [host for host in self._all if host.ready]

    @property
    def usable(self) -> list[Host]:
        """Return the hosts on which new tasks can be placed."""
        return [host for host in self._all if host.usable]

    @property
    def present(self) -> list[Host]:
        """Return the hosts that are not lost, including hosts that are not ready yet."""
        return [host for host in self._all if not host.is_lost]

    @property
    def names(self) -> list[str]:
        """Return the names of all hosts, including lost hosts, without duplicates."""
        return list(dict.fromkeys(host.name for host in self._all))

    def by_name(self, name: str) -> Host | None:
        return self._by_name.get(name)

    def by_connection(self, connection: Connection) -> Host | None:
        return self._by_connection.get(connection)


def sort_key(name: str) -> list[str | int]:
    """Return a key that sorts the name `n10` after `n9`: a list that alternates text and numbers, text first."""
    return [int(part) if nth % 2 else part for nth, part in enumerate(re.split(r"(\d+)", name))]


@dataclass(slots=True)
class PendingInspection:
    """A pending inspection. Its result omits hosts that are cut off; the record remains until these answer, too."""

    waiting: set[Host]
    look: ev.Look
    is_posted: bool = False
    vitals: dict[Task, ev.Vitals] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)


@dataclass(slots=True)
class PendingInjection:
    """A pending injection, and the answers so far."""

    waiting: set[Host]
    successes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    file: str | None = None  # the path of the damaged checkpoint file


class CombinedAnswers:
    """Combines the answers of several hosts to one order. `join` merges reports. Use it in the loop's thread."""

    def __init__(
        self, post: Callable[[ev.Inspected | ev.FaultTook], None], join: Callable[[list[str]], str | None]
    ) -> None:
        self._post, self._join = post, join
        self._inspections: list[PendingInspection] = []
        self._injections: dict[int, PendingInjection] = {}

    def expect_inspection(self, look: ev.Look, hosts: Collection[Host]) -> None:
        """Expect an answer to an inspection from each of these hosts."""
        self._inspections.append(PendingInspection(set(hosts), look))
        self._settle()

    def expect_injection(self, number: int, hosts: Collection[Host]) -> None:
        """Expect an answer to an injection from each of these hosts."""
        self._injections[number] = PendingInjection(set(hosts))
        self._settle()

    def add_inspection(self, host: Host, answer: ev.Inspected, report: str | None) -> None:
        """Add a host's answer to the oldest inspection waiting for it; `report` is the path of the host's report."""
        for one in self._inspections:
            if one.look is answer.look and host in one.waiting:
                one.waiting.remove(host)
                if not one.is_posted:
                    one.vitals |= answer.vitals
                    one.reports += [report] if report else []
                break
        self._settle()

    def add_injection(self, host: Host, answer: ev.FaultTook) -> None:
        one = self._injections.get(answer.number)
        if one is not None and host in one.waiting:
            one.waiting.remove(host)
            (one.successes if answer.done else one.failures).append(answer.detail)
            one.file = one.file or answer.file
        self._settle()

    def host_cut(self) -> None:
        """Post the results of inspections that are waiting only for cut-off hosts. Injections keep waiting."""
        self._settle()

    def host_lost(self, host: Host) -> None:
        """Expect no more answers from a lost host."""
        for waiting in (
            *(look.waiting for look in self._inspections),
            *(fault.waiting for fault in self._injections.values()),
        ):
            waiting.discard(host)
        self._settle()

    def _settle(self) -> None:
        for look in [
            one for one in self._inspections if not one.is_posted and all(host.is_cut for host in one.waiting)
        ]:
            look.is_posted = True
            self._post(ev.Inspected(look.vitals, look.look, self._join(look.reports)))
        self._inspections = [one for one in self._inspections if one.waiting or not one.is_posted]
        for number, fault in [(number, one) for number, one in self._injections.items() if not one.waiting]:
            del self._injections[number]
            texts = fault.successes or fault.failures or ["its hosts are lost"]
            self._post(ev.FaultTook(number, "; ".join(dict.fromkeys(texts)), bool(fault.successes), fault.file))
