"""Answers that several hosts give together: each order to all of them is answered once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from clusterkit.backends.hosts.hosts import Host
from clusterkit.words.events import FaultTook, Inspected, Look, Vitals
from clusterkit.words.model import Task


@dataclass(slots=True)
class Open:
    """An order to several hosts, and the hosts that have not answered."""

    waiting: set[Host]


@dataclass(slots=True)
class OpenLook(Open):
    """A look at all tasks, posted without the hosts that are cut off, and kept until those have answered it."""

    look: Look
    told: bool = False
    vitals: dict[Task, Vitals] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)


@dataclass(slots=True)
class OpenFault(Open):
    """An injection, and the answers so far."""

    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Aggregation:
    """The pending answers. `join` makes one report of several. For the thread of the loop."""

    def __init__(self, post: Callable[[Inspected | FaultTook], None], join: Callable[[list[str]], str | None]) -> None:
        self._post, self._join = post, join
        self._looks: list[OpenLook] = []
        self._faults: dict[int, OpenFault] = {}

    def look(self, look: Look, hosts: Collection[Host]) -> None:
        """Expect an answer to a look from each of these hosts."""
        self._looks.append(OpenLook(set(hosts), look))
        self._settle()

    def fault(self, number: int, hosts: Collection[Host]) -> None:
        """Expect an answer to an injection from each of these hosts."""
        self._faults[number] = OpenFault(set(hosts))
        self._settle()

    def looked(self, host: Host, answer: Inspected, report: str | None) -> None:
        """Take a host's answer; its report is at the path `report`."""
        for one in self._looks:
            if one.look is answer.look and host in one.waiting:
                one.waiting.remove(host)
                if not one.told:
                    one.vitals |= answer.vitals
                    one.reports += [report] if report else []
                break
        self._settle()

    def took(self, host: Host, answer: FaultTook) -> None:
        one = self._faults.get(answer.number)
        if one is not None and host in one.waiting:
            one.waiting.remove(host)
            (one.done if answer.done else one.failed).append(answer.detail)
        self._settle()

    def cut(self) -> None:
        """Look without the hosts that are cut off. A fault waits for them: they inject it, at the latest when back."""
        self._settle()

    def lost(self, host: Host) -> None:
        """Expect nothing of this host any more."""
        for one in (*self._looks, *self._faults.values()):
            one.waiting.discard(host)
        self._settle()

    def _settle(self) -> None:
        for look in [one for one in self._looks if not one.told and all(host.cut for host in one.waiting)]:
            look.told = True
            self._post(Inspected(look.vitals, look.look, self._join(look.reports)))
        self._looks = [one for one in self._looks if one.waiting or not one.told]
        for number, fault in [(number, one) for number, one in self._faults.items() if not one.waiting]:
            del self._faults[number]
            told = fault.done or fault.failed or ["its hosts are lost"]
            self._post(FaultTook(number, "; ".join(dict.fromkeys(told)), bool(fault.done)))
