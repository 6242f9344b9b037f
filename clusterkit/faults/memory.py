"""Memory limits: a task's processes get no more memory than they have, or than they are told, until that is lifted."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from clusterkit.system import procfs
from clusterkit.system.process import Child
from clusterkit.words.errors import CannotLook
from clusterkit.words.model import Task

DATA = resource.RLIMIT_DATA  # counts what VmData does: all private memory that can be written to, used or not
UNLIMITED = resource.RLIM_INFINITY
LARGEST = 1 << 62  # bytes, that a limit can be told
MEGABYTE = 1_000_000
ChildOf = Callable[[Task], Child | None]


class NoProcess(Exception):
    """The task has no process that could be limited; the message is a clause that says why."""


@dataclass(slots=True)
class _Limited:
    """An attempt with limits. Sizes in bytes, by pid; what is not in here has inherited its limit from the leader."""

    child: Child
    usual: dict[int, int] = field(default_factory=dict)  # before the first fault
    faults: dict[int, dict[int, int]] = field(default_factory=dict)  # by the fault's number


class MemoryLimits:
    """Soft limits: every process may be given one by the user whose it is, and be given back what it had before."""

    def __init__(self, child_of: ChildOf) -> None:
        self._child_of = child_of
        self._limited: dict[Task, _Limited] = {}

    def limit(self, number: int, task: Task, size: int | None) -> str:
        """Limit every process of the task's attempt to `size` bytes, or to what it has now.

        Returns a clause for people; raises NoProcess where there is none, or none that can be limited.
        """
        limited = self._of(task)
        leader, limits = limited.child.pid, limited.faults.setdefault(number, {})
        has = _data(leader)
        try:
            self._add(limited, number, leader, size)
        except OSError as error:
            del limited.faults[number]
            raise NoProcess(f"{task} can't be limited: {error.strerror}") from None
        # What a process has forked by the time it is limited is found by another look; later ones inherit the limit.
        while new := [pid for pid in _processes(limited.child) if pid not in limits]:
            for pid in new:
                with suppress(OSError):  # gone meanwhile, or another user's by now
                    self._add(limited, number, pid, size)
        if size is None:
            return f"{task} gets no more memory than the {_shown(has)} that it has"
        return f"{task} gets no more memory than {_shown(size)}; it has {_shown(has)}"

    def heal(self, number: int) -> None:
        """Give the processes that still live the limit that they would have without this fault."""
        for task, limited in list(self._limited.items()):
            if self._child_of(task) is not limited.child:  # that attempt is over
                del self._limited[task]
            elif limited.faults.pop(number, None) is not None:
                with suppress(CannotLook):  # the first process comes first
                    for pid in _processes(limited.child):
                        with suppress(OSError):
                            _apply(limited, pid)

    def heal_all(self) -> None:
        """Give everything that still lives its usual limit."""
        for number in {number for limited in self._limited.values() for number in limited.faults}:
            self.heal(number)

    def _of(self, task: Task) -> _Limited:
        child = self._child_of(task)
        if child is None or procfs.is_zombie(child.pid):
            raise NoProcess(f"{task} has no process")
        known = self._limited.get(task)
        if known is None or known.child is not child:
            known = self._limited[task] = _Limited(child)
        return known

    def _add(self, limited: _Limited, number: int, pid: int, size: int | None) -> None:
        before, _ = resource.prlimit(pid, DATA)
        if not any(before in limits.values() for limits in limited.faults.values()):  # else it has inherited ours
            limited.usual.setdefault(pid, before)
        # Linux takes a limit of 0 for none at all.
        limited.faults[number][pid] = max(1, _data(pid) if size is None else min(size, LARGEST))
        _apply(limited, pid)


def _apply(limited: _Limited, pid: int) -> None:
    """Set the smallest of the limits that hold for a process."""
    leader = limited.child.pid
    usual, hard = limited.usual.get(pid, limited.usual[leader]), resource.prlimit(pid, DATA)[1]
    limits = [limits.get(pid, limits[leader]) for limits in limited.faults.values()]
    smallest = min((limit for limit in (*limits, usual, hard) if limit != UNLIMITED), default=UNLIMITED)
    resource.prlimit(pid, DATA, (smallest, hard))


def _processes(child: Child) -> Iterator[int]:
    """Every process of the attempt, the leader first: what is below it, and its session's orphans, which are ours."""
    yield child.pid
    below = procfs.descendants(child.pid)
    yield from below
    for pid in procfs.children(os.getpid()):
        seen = procfs.stat(pid)
        if pid != child.pid and seen is not None and seen[2] == child.pid:
            yield pid


def _data(pid: int) -> int:
    """The bytes of data that a process has; 0 where there is none any more."""
    return int(procfs.status_of(pid, "VmData") or 0) << 10


def _shown(size: int) -> str:
    return f"{size / MEGABYTE:.0f} MB" if size >= MEGABYTE else f"{size} bytes"
