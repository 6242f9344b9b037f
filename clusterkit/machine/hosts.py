"""Hosts: which there are, and on which attempts fail for reasons of the host's own, so that it is avoided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clusterkit.machine.cluster_state import DEATH_WITHIN, ClusterState
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Avoid
from clusterkit.words.events import HostAvoided, HostBack, HostCut, HostDraining, HostJoined, HostLost, OfHost, Placed
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import Failure

TOO_OFTEN = 2  # failures of a host's own


@dataclass(frozen=True, slots=True)
class Mark:
    """A failure that counts against a host. `peers` are the hosts that did not answer there."""

    at: float
    peers: frozenset[str]


@dataclass(slots=True)
class HostRecords:
    """What is known of each host. A job on one machine has none."""

    state: ClusterState
    there: set[str] = field(default_factory=set)
    avoided: set[str] = field(default_factory=set)
    _marks: dict[str, list[Mark]] = field(default_factory=dict)
    _stuck: set[str] = field(default_factory=set)  # to be avoided, if there were others

    def take(self, event: OfHost) -> None:
        """A host came, went, or got tasks."""
        match event:
            case Placed(hosts, _, others, readmitted):
                self.state.placed, self.there = hosts, {*hosts.values(), *others}
                for host in readmitted:
                    self._clear(host)
            case HostJoined(host):
                self._forget(host)
                self.there.add(host)
            case HostCut(host):
                self.state.cut_off.add(host)
                self._excuse(host)
            case HostBack(host):
                self.state.cut_off.discard(host)
                self._wait_for_deaths(host)
            case HostDraining(host):
                self.there.discard(host)
            case HostLost(host):
                self.state.cut_off.discard(host)
                self._forget(host)
                self._excuse(host)

    def judge(self, failures: Sequence[Failure]) -> bool:
        """Failures happened together; return whether a host is avoided from now on because of them.

        Those that are a host's own count once for it: it can't give a start what that needs, does not reach peers that
        others reach, or the system killed the attempt for memory.
        """
        own: dict[str, Failure] = {}
        for failure in failures:
            if (host := self.state.placed.get(failure.task)) is not None and self._is_own(failure):
                own.setdefault(host, failure)
        avoided = [host for host, failure in sorted(own.items()) if self._count(host, failure)]
        return bool(avoided)

    def _is_own(self, failure: Failure) -> bool:
        if not (failure.exit.unfit or failure.exit.out_of_memory):
            return False
        ended = self.state.attempts.get((failure.task, failure.attempt))
        return ended is None or ended.fault is None  # what was done to it on purpose says nothing of its host

    def _count(self, host: str, failure: Failure) -> bool:
        peers = frozenset(self.state.placed[task] for task in failure.exit.unreached if task in self.state.placed)
        fine = self.there - self.state.cut_off - self.avoided
        if host in self.avoided or not peers <= fine:  # it is the peer's host that does not answer
            return False
        now, since = self.state.now, self.state.now - self.state.job.restart.forgive_after
        self._marks[host] = [mark for mark in self._marks.get(host, ()) if mark.at > since] + [Mark(now, peers)]
        if len(self._marks[host]) < TOO_OFTEN:
            return False
        moves = bool(fine - {host})
        if moves:
            self.avoided.add(host)
            self._avoid()
        if moves or host not in self._stuck:
            self._stuck.add(host)
            self.state.record(HostAvoided(host, f"{failure.task} {failure.exit}", moves))
        return moves

    def _wait_for_deaths(self, host: str) -> None:
        """The signals reach their tasks only now."""
        for task, where in self.state.placed.items():
            killed = self.state.records[task].state is TaskState.STOPPING
            if where == host and killed and not self.state.timers.is_set(Timer.KILL, task):
                self.state.timers.set(Timer.DEATH, self.state.now + DEATH_WITHIN, task)

    def _avoid(self) -> None:
        self.state.out.append(Avoid(tuple(sorted(self.avoided))))

    def _forget(self, host: str) -> None:
        """The next one of that name begins anew."""
        self.there.discard(host)
        self._clear(host)

    def _clear(self, host: str) -> None:
        """Judge the host anew."""
        if host in self.avoided:
            self.avoided.remove(host)
            self._avoid()
        self._stuck.discard(host)
        self._marks.pop(host, None)

    def _excuse(self, peer: str) -> None:
        """That it did not answer was nobody else's fault."""
        for host, marks in self._marks.items():
            self._marks[host] = [mark for mark in marks if peer not in mark.peers]
