"""The family: the first processes of all attempts, and the orphans that come to this process as their subreaper."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from clusterkit.hands import procfs
from clusterkit.hands.process import Child, reap, spawn
from clusterkit.hands.sweep import end_again_and_again, end_descendants, reap_zombies
from clusterkit.hands.warm import ForkServer, NoForkServer
from clusterkit.rules.plan import TaskPlan


class Family:
    """Tells a task's first process from what tasks left behind.

    One lock is held while a process is made and while orphans are looked for: a process between fork and exec
    looks like an orphan that has every task's pipe open.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._leaders: dict[int, Child] = {}
        self._lock = threading.Lock()

    def spawn(
        self, plan: TaskPlan, env: Mapping[str, str], output: int, stacks: int, server: ForkServer | None
    ) -> Child:
        """Start an attempt: as a fork of the server where there is one that answers. Raises OSError."""
        pipe, oom_kills = os.readlink(f"/proc/self/fd/{output}"), procfs.oom_kills()
        with self._lock:
            pid = None if server is None else _fork(server, plan, env, output, stacks)
            process = spawn(plan, env, output, stacks) if pid is None else None
            pid = process.pid if process is not None else pid
            assert pid is not None
            child = Child(pid, os.pidfd_open(pid), pipe, oom_kills, process)
            self._leaders[pid] = child
            return child

    def sweep(self, child: Child, task: str) -> int:
        """Kill every process that an attempt left behind after its first one ended, then reap that one.

        What left the group has come to us by now, and is known by its environment, its session, or the output
        pipe that it inherited. Returns how many had to be killed; raises WillNotDie.
        """
        killed = end_again_and_again(lambda: self._left_behind(child, task))
        with self._lock:
            reap(child)
            del self._leaders[child.pid]
        return killed

    def end_all(self) -> int:
        """Kill every descendant that is left, whosever it was. For the end, when no attempt lives."""
        with self._lock:
            return end_descendants(os.getpid())

    def _left_behind(self, child: Child, task: str) -> list[int]:
        with self._lock:
            orphans = [pid for pid in procfs.children(os.getpid()) if pid not in self._leaders]
            reap_zombies(orphans)
            found = [pid for pid in orphans if not procfs.is_zombie(pid) and self._is_of(pid, child, task)]
            return found + [below for pid in found for below in procfs.descendants(pid)]

    def _is_of(self, pid: int, child: Child, task: str) -> bool:
        seen = procfs.stat(pid)
        if seen is None or child.pid in seen[1:]:
            return seen is not None
        env = procfs.environ(pid)
        if (env.get("CLUSTERKIT_RUN_ID"), env.get("CLUSTERKIT_TASK")) == (self._run_id, task):
            return True
        return procfs.has_open(pid, child.pipe)


def _fork(server: ForkServer, plan: TaskPlan, env: Mapping[str, str], output: int, stacks: int) -> int | None:
    try:
        return server.fork(plan, env, output, stacks)
    except NoForkServer:
        return None
