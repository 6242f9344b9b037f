"""Limits the memory of tasks."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from clusterkit.faults.throttle import ChildOf
from clusterkit.system import procfs
from clusterkit.system.process import AttemptChild
from clusterkit.words.errors import CannotLook
from clusterkit.words.model import Task

DATA = resource.RLIMIT_DATA  # limits VmData: all private writable memory, used or not
UNLIMITED = resource.RLIM_INFINITY
LARGEST = 1 << 62  # bytes; the maximum; larger limits are reduced to this one
MEGABYTE, GIGABYTE = 1_000_000, 1_000_000_000


class NoProcess(Exception):
    """The task has no process whose memory can be limited; the message is a clause that gives the reason."""


@dataclass(slots=True)
class _AttemptLimits:
    """The limits of one attempt, in bytes by pid. Processes without an entry have inherited the leader's limit."""

    child: AttemptChild
    original: dict[int, int] = field(default_factory=dict)  # the limits that applied before the first fault
    by_fault: dict[int, dict[int, int]] = field(default_factory=dict)  # each fault's limits, by the fault's number


class MemoryLimits:
    """Sets and restores soft limits, which the user who owns the processes may change without privileges."""

    def __init__(self, child_of: ChildOf) -> None:
        self._child_of = child_of
        self._limited: dict[Task, _AttemptLimits] = {}

    def limit(self, number: int, task: Task, size: int | None) -> str:
        """Limit each process of the task's attempt to `size` bytes, or to its current size if `size` is None.

        Returns a clause for messages. Raises NoProcess if the task has no process, or its leader can't be limited.
        """
        limited = self._limits_of(task)
        leader, limits = limited.child.pid, limited.by_fault.setdefault(number, {})
        has = _data(leader)
        try:
            self._add(limited, number, leader, size)
        except OSError as error:
            del limited.by_fault[number]
            raise NoProcess(f"{task} can't be limited: {error.strerror}") from None
        # A process may fork before it is limited, so repeat until no new one appears. Later forks inherit the limit.
        limited_pids = set(limits)
        while new := [pid for pid in _processes(limited.child) if pid not in limited_pids]:
            limited_pids.update(new)
            for pid in new:
                with suppress(OSError):  # the process has ended, or has changed its user
                    self._add(limited, number, pid, size)
        if size is None:
            return f"{task} is limited to the {_shown(has)} of memory that it has"
        return f"{task} is limited to {_shown(size)} of memory; it has {_shown(has)}"

    def heal(self, number: int) -> None:
        """Remove this fault's limits from all living processes; the limits of other faults remain."""
        for task, limited in list(self._limited.items()):
            if self._child_of(task) is not limited.child:  # the attempt is over
                del self._limited[task]
            elif limited.by_fault.pop(number, None) is not None:
                with suppress(CannotLook):  # reading /proc can fail only after the leader, listed first, is restored
                    for pid in _processes(limited.child):
                        with suppress(OSError):
                            _apply(limited, pid)

    def heal_all(self) -> None:
        """Restore the limits that all living processes had before the first fault."""
        for number in {number for limited in self._limited.values() for number in limited.by_fault}:
            self.heal(number)

    def _limits_of(self, task: Task) -> _AttemptLimits:
        child = self._child_of(task)
        if child is None or procfs.is_zombie(child.pid):
            raise NoProcess(f"{task} has no process")
        known = self._limited.get(task)
        if known is None or known.child is not child:
            known = self._limited[task] = _AttemptLimits(child)
        return known

    def _add(self, limited: _AttemptLimits, number: int, pid: int, size: int | None) -> None:
        before, _ = resource.prlimit(pid, DATA)
        # A limit that equals a fault's limit was inherited from a limited process, so it is not the original limit.
        if not any(before in limits.values() for limits in limited.by_fault.values()):
            limited.original.setdefault(pid, before)
        # Linux treats a limit of 0 as no limit.
        limited.by_fault[number][pid] = max(1, _data(pid) if size is None else min(size, LARGEST))
        _apply(limited, pid)


def _apply(limited: _AttemptLimits, pid: int) -> None:
    """Set a process's soft limit to the smallest of the limits that apply to it."""
    leader = limited.child.pid
    usual, hard = limited.original.get(pid, limited.original[leader]), resource.prlimit(pid, DATA)[1]
    limits = [limits.get(pid, limits[leader]) for limits in limited.by_fault.values()]
    smallest = min((limit for limit in (*limits, usual, hard) if limit != UNLIMITED), default=UNLIMITED)
    resource.prlimit(pid, DATA, (smallest, hard))


def _processes(child: AttemptChild) -> Iterator[int]:
    """Yield the attempt's pids: the leader, its descendants, and its session's orphans, which this process adopted."""
    yield child.pid
    descendants = procfs.descendants(child.pid)
    yield from descendants
    for pid in procfs.children(os.getpid()):
        seen = procfs.stat(pid)
        if pid != child.pid and seen is not None and seen[2] == child.pid:
            yield pid


def _data(pid: int) -> int:
    """Return a process's VmData in bytes, or 0 if the process has ended."""
    return int(procfs.status_of(pid, "VmData") or 0) << 10


def _shown(size: int) -> str:
    if size >= GIGABYTE:
        return f"{size / GIGABYTE:.3g} GB"
    return f"{size / MEGABYTE:.0f} MB" if size >= MEGABYTE else f"{size} bytes"
