"""Orphans: the processes that this one has adopted as a subreaper, and what shows which attempt has left them."""

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
    """Knows adopted processes by their group, session, open pipes and environment.

    A daemon may have none of these in common with its task: it leads a session of its own, has closed what it inherited
    and has an empty environment. Any attempt that had begun before it may have left it, so it counts as left by each of
    them once all have ended.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._unmarked: dict[tuple[int, int], frozenset[int]] = {}  # pid and start, to the leaders that it may be of

    def living(self, leaders: Mapping[int, Child]) -> Iterator[Adopted]:
        """Yield the adopted processes, and reap those that have ended. `leaders` are the first processes of attempts.

        What shares this process's session was started by it: tasks and helpers lead sessions of their own.
        """
        session = os.getsid(0)
        for pid in procfs.children(os.getpid()):
            if pid in leaders or pid in HELPERS or (seen := procfs.stat(pid)) is None or seen[2] == session:
                continue
            if seen[0] not in "ZX" or not _reaped(pid):
                yield Adopted(pid, *seen[1:])

    def signs(self, leaders: Mapping[int, Child]) -> dict[int, set[Sign]]:
        """Return what shows which attempt left each adopted process: pids and pipes of leaders, or a task's name."""
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
    """Reap a process that seems to have ended; return whether it had. A first thread can end before the others."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    return True
