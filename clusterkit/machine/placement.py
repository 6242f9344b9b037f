"""Placement: which host each task is on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskType, tasks_named

_BY_NUMBER = re.compile(r"host(\d+)")


@dataclass(frozen=True, slots=True)
class Rule:
    """`ps=host0` or `worker:1=n3,n4`: tasks, and the hosts that they are spread over.

    A host goes by its name, or as `host0` for the first of the allocation.
    """

    tasks: str
    hosts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read a rule. Raises ValueError with a sentence for anything else."""
        who, equals, hosts = text.partition("=")
        names = tuple(hosts.split(","))
        if not equals or not all(names):
            raise ValueError(f"{text!r} is not of the form TASK=HOST. Write 'ps=host0' or 'worker:1=n3,n4'.")
        return cls(tasks_named(who), names)

    def covers(self, task: Task) -> bool:
        """Whether the rule is about the task."""
        return self.tasks in (str(task), str(task.type))


def place(job: JobSpec, usable: Sequence[str], allocation: Sequence[str], rules: Collection[Rule]) -> dict[Task, str]:
    """The host of each task, among the `usable` ones of the `allocation`.

    Tasks of a type are spread: the nth is on the nth host, and so on round and round. So workers and parameter servers
    share hosts, and the coordinator, which computes little, is on the first one; where the chief trains, the workers
    follow it. The evaluator is on the last host. A rule for one task wins over a rule for its type; a rule whose hosts
    are not usable does not apply.
    """
    ruled, seats = _by_rules(usable, allocation, rules), _seats(job)
    placed: dict[Task, str] = {}
    for task in job.tasks:
        hosts = ruled.get(str(task)) or ruled.get(task.type)
        placed[task] = hosts[task.index % len(hosts)] if hosts else usable[seats[task] % len(usable)]
    return placed


def preferred(connected: Sequence[str], avoided: Collection[str], count: int) -> list[str]:
    """The first `count` of the hosts that are not avoided, or of all if all of them are."""
    return ([name for name in connected if name not in avoided] or list(connected))[:count]


def unknown_hosts(allocation: Sequence[str], rules: Iterable[Rule]) -> dict[str, str]:
    """The hosts of rules that are not in the allocation, each with its rule's tasks."""
    return {name: rule.tasks for rule in rules for name in rule.hosts if _named(name, allocation) is None}


def _seats(job: JobSpec) -> dict[Task, int]:
    nth = {task: task.index for task in job.tasks}
    if job.shape is not Shape.PARAMETER_SERVER:
        nth |= {task: number for number, task in enumerate(job.training)}
    return nth | {task: -1 for task in job.tasks if task.type is TaskType.EVALUATOR}


def _by_rules(usable: Sequence[str], allocation: Sequence[str], rules: Collection[Rule]) -> dict[str, list[str]]:
    """The usable hosts of the tasks, or types, that rules name; of several rules for the same, the first applies."""
    found: dict[str, list[str]] = {}
    there = set(usable)
    for rule in rules:
        hosts = [host for name in rule.hosts if (host := _named(name, allocation)) in there and host is not None]
        if hosts:
            found.setdefault(rule.tasks, hosts)
    return found


def _named(name: str, allocation: Sequence[str]) -> str | None:
    if name in allocation:
        return name
    number = _BY_NUMBER.fullmatch(name)
    return allocation[int(number[1])] if number and int(number[1]) < len(allocation) else None


def hosts_of(placed: Mapping[Task, str]) -> dict[str, list[Task]]:
    """The tasks of each host that has any."""
    hosts: dict[str, list[Task]] = {}
    for task, host in placed.items():
        hosts.setdefault(host, []).append(task)
    return hosts
