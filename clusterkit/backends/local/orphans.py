"""Orphans: the processes that this one has adopted as a subreaper, and the attempts that left them behind."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from clusterkit.system import procfs
from clusterkit.system.process import HELPERS, Child

Sign = int | str  # a process id, or the name of a pipe or of a task


class Adopted(NamedTuple):
    """A living child of this process that this process has not started."""

    pid: int
    group: int
    session: int


class Orphans:
    """Attributes adopted processes to attempts by their group, session, open pipes and environment.

    A daemon may share none of these with its task: it leads a session of its own, has closed the inherited descriptors
    and has an empty environment. Any attempt that started before the daemon may have left it, so it is attributed to
    all of those attempts, once all of them have ended.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._unmarked: dict[tuple[int, int], frozenset[int]] = {}  # by pid and start: possible leaders

    def living(self, leaders: Mapping[int, Child]) -> Iterator[Adopted]:
        """Yield the living adopted processes, and reap the others. `leaders` are the first processes of attempts.

        A process in this one's session was started by it: tasks and helpers lead sessions of their own.
        """
        session = os.getsid(0)
        for pid in procfs.children(os.getpid()):
            if pid in leaders or pid in HELPERS or (seen := procfs.stat(pid)) is None or seen[2] == session:
                continue
            if seen[0] not in "ZX" or not _reaped(pid):
                yield Adopted(pid, *seen[1:])

    def signs(self, leaders: Mapping[int, Child]) -> dict[int, set[Sign]]:
        """Return the signs of each adopted process's origin: pids and pipes of leaders, or a task's name."""
        found = dict[int, set[Sign]]()
        marks = {mark for child in leaders.values() for mark in (child.pid, child.pipe)}
        before, self._unmarked = self._unmarked, {}
        for one in self.living(leaders):
            signs: set[Sign] = {one.group, one.session, *procfs.links(one.pid)}
            found[one.pid] = signs
            if task := self._task(one.pid):
                signs.add(task)
            elif marks.isdisjoint(signs) and (start := procfs.start_of(one.pid)) is not None:
                key = one.pid, start
                self._unmarked[key] = maybe = before.get(key) or _begun_before(start, leaders)
                if all(_has_ended(leaders[leader]) for leader in maybe & leaders.keys()):
                    signs |= maybe
        return found

    def _task(self, pid: int) -> str | None:
        env = procfs.environ(pid)
        return env.get("CLUSTERKIT_TASK") if env.get("CLUSTERKIT_RUN_ID") == self._run_id else None


def _begun_before(start: int, leaders: Mapping[int, Child]) -> frozenset[int]:
    begun = {pid: procfs.start_of(pid) for pid in leaders}
    return frozenset(pid for pid, at in begun.items() if at is not None and at <= start)


def _has_ended(leader: Child) -> bool:
    ended = select.poll()
    ended.register(leader.pidfd, select.POLLIN)
    return bool(ended.poll(0))


def _reaped(pid: int) -> bool:
    """Reap a process if it has ended, and not only its first thread; return whether it had."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    return True
