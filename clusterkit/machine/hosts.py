"""Hosts: places tasks on hosts, and avoids hosts that make attempts fail."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from clusterkit.machine.cluster_state import KILL_TIMEOUT, ClusterState
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Avoid
from clusterkit.words.events import HostAvoided, HostBack, HostCut, HostDraining, HostJoined, HostLost, OfHost, Placed
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskState, TaskType, tasks_named
from clusterkit.words.outcome import Failure

_BY_NUMBER = re.compile(r"host(\d+)")


@dataclass(frozen=True, slots=True)
class Rule:
    """A placement rule, such as `ps=host0` or `worker:1=n3,n4`: tasks, and the hosts over which they are spread.

    A host is given by its name, or by its number in the allocation, as in `host0`.
    """

    tasks: str
    hosts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Parse a rule. Raises ValueError, with a sentence as its message, if `text` is not a rule."""
        tasks, equals, hosts = text.partition("=")
        names = tuple(hosts.split(","))
        if not equals or not all(names):
            raise ValueError(f"{text!r} is not of the form TASK=HOST. Write 'ps=host0' or 'worker:1=n3,n4'.")
        return cls(tasks_named(tasks), names)

    def covers(self, task: Task) -> bool:
        return self.tasks in (str(task), str(task.type))


def place(job: JobSpec, usable: Sequence[str], allocation: Sequence[str], rules: Collection[Rule]) -> dict[Task, str]:
    """Return the host of each task, chosen from the `usable` hosts of the `allocation`.

    The tasks of each type are placed on the hosts in turn, so workers and parameter servers share hosts. The
    coordinator, which computes little, is on the first host; if the chief trains, the workers are placed after it. The
    evaluator is on the last host. A rule for one task overrides a rule for its type; a rule without usable hosts does
    not apply.
    """
    ruled, positions = _by_rules(usable, allocation, rules), _positions(job)
    placed: dict[Task, str] = {}
    for task in job.tasks:
        hosts = ruled.get(str(task)) or ruled.get(task.type)
        placed[task] = hosts[task.index % len(hosts)] if hosts else usable[positions[task] % len(usable)]
    return placed


def preferred(connected: Sequence[str], avoided: Collection[str], count: int) -> list[str]:
    """Return the first `count` hosts that are not avoided or, if all are avoided, the first `count` of all hosts."""
    return ([name for name in connected if name not in avoided] or list(connected))[:count]


def _positions(job: JobSpec) -> dict[Task, int]:
    nth = {task: task.index for task in job.tasks}
    if job.shape is not Shape.PARAMETER_SERVER:
        nth |= {task: number for number, task in enumerate(job.training)}
    return nth | {task: -1 for task in job.tasks if task.type is TaskType.EVALUATOR}


def _by_rules(usable: Sequence[str], allocation: Sequence[str], rules: Collection[Rule]) -> dict[str, list[str]]:
    """Map each task or task type that a rule names to usable hosts. The first rule with usable hosts applies."""
    found: dict[str, list[str]] = {}
    usable_names = set(usable)
    for rule in rules:
        hosts = [
            host
            for name in rule.hosts
            if (host := _resolve_name(name, allocation)) in usable_names and host is not None
        ]
        if hosts:
            found.setdefault(rule.tasks, hosts)
    return found


def _resolve_name(name: str, allocation: Sequence[str]) -> str | None:
    if name in allocation:
        return name
    number = _BY_NUMBER.fullmatch(name)
    return allocation[int(number[1])] if number and int(number[1]) < len(allocation) else None


def hosts_of(placed: Mapping[Task, str]) -> dict[str, list[Task]]:
    hosts: dict[str, list[Task]] = {}
    for task, host in placed.items():
        hosts.setdefault(host, []).append(task)
    return hosts


AVOIDED_AFTER = 2  # the number of failures after which a host is avoided


@dataclass(frozen=True, slots=True)
class HostFailure:
    """A failure that is attributed to a host. `peers` are the hosts that the failed task could not reach."""

    at: float
    peers: frozenset[str]


@dataclass(slots=True)
class HostRecords:
    """The state of each host; empty for a job on one machine."""

    state: ClusterState
    present: set[str] = field(default_factory=set)
    avoided: set[str] = field(default_factory=set)
    _failures: dict[str, list[HostFailure]] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)  # hosts with too many failures, whether avoided or still needed

    def handle(self, event: OfHost) -> None:
        """Update the records after an event about a host."""
        match event:
            case Placed(hosts, _, others, readmitted):
                self.state.placement, self.present = hosts, {*hosts.values(), *others}
                for host in readmitted:
                    self._clear(host)
            case HostJoined(host):
                self._forget(host)
                self.present.add(host)
            case HostCut(host):
                self.state.cut_hosts.add(host)
                self._drop_failures_to_reach(host)
            case HostBack(host):
                self.state.cut_hosts.discard(host)
                self._wait_for_deaths(host)
            case HostDraining(host):
                self.present.discard(host)
            case HostLost(host):
                self.state.cut_hosts.discard(host)
                self._forget(host)
                self._drop_failures_to_reach(host)

    def attribute(self, failures: Sequence[Failure]) -> bool:
        """Attribute failures that happened together to their hosts; return whether this adds a host to those avoided.

        A host is charged once if it caused any of the failures: it lacks something that a start needs, can't reach
        peers that other hosts reach, or killed the attempt for lack of memory.
        """
        by_host: dict[str, Failure] = {}
        for failure in failures:
            if (host := self.state.placement.get(failure.task)) is not None and self._is_hosts_fault(failure):
                by_host.setdefault(host, failure)
        avoided = [host for host, failure in sorted(by_host.items()) if self._count_failure(host, failure)]
        return bool(avoided)

    def _is_hosts_fault(self, failure: Failure) -> bool:
        if not (failure.exit.unfit or failure.exit.out_of_memory):
            return False
        ended = self.state.attempts.get((failure.task, failure.attempt))
        return ended is None or ended.fault is None  # a host is not charged for an injected fault

    def _count_failure(self, host: str, failure: Failure) -> bool:
        peers = frozenset(self.state.placement[task] for task in failure.exit.unreached if task in self.state.placement)
        healthy = self.present - self.state.cut_hosts - self.avoided
        if host in self.avoided or not peers <= healthy:  # the host is avoided already, or a peer's host is at fault
            return False
        now, since = self.state.now, self.state.now - self.state.job.restart.forgive_after
        self._failures[host] = [mark for mark in self._failures.get(host, ()) if mark.at > since] + [
            HostFailure(now, peers)
        ]
        if len(self._failures[host]) < AVOIDED_AFTER:
            return False
        moves = bool(healthy - {host})
        if moves:
            self.avoided.add(host)
            self._send_avoided()
        if moves or host not in self._reported:
            self._reported.add(host)
            self.state.record(HostAvoided(host, f"{failure.task} {failure.exit}", moves))
        return moves

    def _wait_for_deaths(self, host: str) -> None:
        """Set new deadlines for the death of tasks on this host, since SIGKILL reaches them only now."""
        for task, where in self.state.placement.items():
            killed = self.state.records[task].state is TaskState.STOPPING
            if where == host and killed and not self.state.timers.is_set(Timer.KILL, task):
                self.state.timers.set(Timer.DEATH, self.state.now + KILL_TIMEOUT, task)

    def _send_avoided(self) -> None:
        self.state.actions.append(Avoid(tuple(sorted(self.avoided))))

    def _forget(self, host: str) -> None:
        """Forget everything about the host, so that a later host with the same name starts with a clean record."""
        self.present.discard(host)
        self._clear(host)

    def _clear(self, host: str) -> None:
        if host in self.avoided:
            self.avoided.remove(host)
            self._send_avoided()
        self._reported.discard(host)
        self._failures.pop(host, None)

    def _drop_failures_to_reach(self, peer: str) -> None:
        """Drop the records that other hosts failed to reach `peer`, since `peer` itself is unreachable."""
        for host, failures in self._failures.items():
            self._failures[host] = [mark for mark in failures if peer not in mark.peers]
