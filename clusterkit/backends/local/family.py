"""The processes of a run: the first process of each attempt, and orphans, the processes that attempts left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from clusterkit.job.plan import Start
from clusterkit.system import procfs
from clusterkit.system.process import HELPER_PIDS, AttemptChild, first_readable, reap, reap_ended, start_session
from clusterkit.system.sweep import end_descendants, kill_until_gone
from clusterkit.task.entry import ENTRY
from clusterkit.warm.fork_client import ForkServer, NoForkServer, PendingFork
from clusterkit.words.errors import CannotLook
from clusterkit.words.model import Task

Sign = int | str  # evidence of a process's origin: a process id, or the name of a pipe or task
SEARCH_TIMEOUT = 0.1  # seconds; how long a search for orphans waits for a process that is being started


class Orphan(NamedTuple):
    """An orphan: a living child of this process that another process started."""

    pid: int
    group: int
    session: int


class Orphans:
    """Attributes orphans to attempts by their group, session, open pipes and environment.

    A daemon that leads its own session, has closed the inherited descriptors and has an empty environment shares none
    of these with its task. Any attempt that started before the daemon may have started it, so the daemon is attributed
    to all of these attempts, once all of them have ended.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._unmarked: dict[tuple[int, int], frozenset[int]] = {}  # possible leaders, by an orphan's (pid, start)

    def living(self, leaders: Mapping[int, AttemptChild]) -> Iterator[Orphan]:
        """Yield the living orphans, and reap the dead ones. `leaders` are the first processes of attempts, by pid."""
        session = os.getsid(0)
        for pid in procfs.children(os.getpid()):
            # A child in this process's session was started by this process: tasks and helpers lead separate sessions.
            if pid in leaders or pid in HELPER_PIDS or (seen := procfs.stat(pid)) is None or seen[2] == session:
                continue
            if seen[0] not in "ZX" or not reap_ended(pid):
                yield Orphan(pid, *seen[1:])

    def signs(self, leaders: Mapping[int, AttemptChild]) -> dict[int, set[Sign]]:
        """Return evidence of each orphan's origin, by the orphan's pid: pids and pipes of leaders, or a task's name."""
        found = dict[int, set[Sign]]()
        marks = {mark for child in leaders.values() for mark in (child.pid, child.pipe)}
        previous, self._unmarked = self._unmarked, {}
        for one in self.living(leaders):
            signs: set[Sign] = {one.group, one.session, *procfs.links(one.pid)}
            found[one.pid] = signs
            if task := self._task(one.pid):
                signs.add(task)
            elif marks.isdisjoint(signs) and (start := procfs.start_of(one.pid)) is not None:
                key = one.pid, start
                self._unmarked[key] = possible = previous.get(key) or _started_before(start, leaders)
                if all(first_readable((leaders[leader].pidfd,), 0) for leader in possible & leaders.keys()):
                    signs |= possible
        return found

    def _task(self, pid: int) -> str | None:
        env = procfs.environ(pid)
        return env.get("CLUSTERKIT_TASK") if env.get("CLUSTERKIT_RUN_ID") == self._run_id else None


def _started_before(start: int, leaders: Mapping[int, AttemptChild]) -> frozenset[int]:
    started = {pid: procfs.start_of(pid) for pid in leaders}
    return frozenset(pid for pid, at in started.items() if at is not None and at <= start)


class AttemptProcess(NamedTuple):
    """An attempt and its first process, which has not been reaped."""

    task: Task
    attempt: int
    child: AttemptChild


class PendingStart(NamedTuple):
    """An attempt that is starting: its process exists, or was requested from a fork server."""

    start: Start
    pipe: str
    oom_kills: int
    process: subprocess.Popen[bytes] | None
    server: ForkServer | None = None
    fork_request: PendingFork | None = None


class ProcessFamily:
    """Starts and reaps the first processes of attempts, and kills the processes that attempts left behind.

    A lock prevents searches for orphans while a process is started: between fork and exec, the new process looks like
    an orphan that has every task's pipe open.
    """

    def __init__(self, run_id: str) -> None:
        self._orphans = Orphans(run_id)
        self._leaders: dict[int, AttemptChild] = {}
        self._lock = threading.RLock()  # acquired by `begin`, and released by `finish` in the same thread

    def begin(self, start: Start, server: ForkServer | None) -> PendingStart:
        """Start an attempt without waiting for its process. Raises OSError.

        Call `finish` for each pending start, in the same order and from the same thread.
        """
        pipe, oom_kills = os.readlink(f"/proc/self/fd/{start.output}"), procfs.oom_kills()
        self._lock.acquire()
        try:
            fork_request = None
            if server is not None:
                with suppress(NoForkServer):
                    fork_request = server.request_fork(start)
            process = spawn(start) if fork_request is None else None
        except BaseException:
            self._lock.release()
            raise
        return PendingStart(start, pipe, oom_kills, process, server, fork_request)

    def finish(self, pending: PendingStart) -> AttemptChild:
        """Complete the start of an attempt, and return its first process. Raises OSError."""
        try:
            process, pid = pending.process, None
            if pending.server is not None and pending.fork_request is not None:
                with suppress(NoForkServer):
                    pid = pending.server.finish_fork(pending.fork_request)
            if pid is None:
                process = process or spawn(pending.start)
                pid = process.pid
            child = AttemptChild(pid, _pidfd(pid, process), pending.pipe, pending.oom_kills, process)
            self._leaders[pid] = child
            return child
        finally:
            self._lock.release()

    def reap_clean(self, ended: Collection[AttemptProcess]) -> list[AttemptProcess]:
        """Reap the ended attempts that left no processes behind, with one search for orphans; return the others."""
        unclean = []
        with self._lock:
            signs = {sign for of_one in self._orphans.signs(self._leaders).values() for sign in of_one}
            for one in ended:
                if signs.isdisjoint(_own_signs(one)):
                    self._reap(one.child)
                else:
                    unclean.append(one)
        return unclean

    def sweep(self, ended: AttemptProcess) -> int:
        """Kill an attempt's processes, reap the first; return how many were killed. Raises ProcessesSurvived."""
        killed = kill_until_gone(lambda: self._left_behind(ended))
        with self._lock:
            self._reap(ended.child)
        return killed

    def reap_orphans(self) -> bool:
        """Reap all orphans that have ended. If a process is being started, return False instead. Raises CannotLook."""
        return self._living() is not None

    def in_grace(self, child: AttemptChild) -> bool:
        """Return whether the attempt is in its grace period after SIGTERM, and has other processes that are alive."""
        if signal.SIGTERM not in child.signals_sent or time.monotonic() >= child.grace_until:
            return False
        try:
            living = self._living()
        except CannotLook:
            return True
        return living is None or any(one.group == child.pid for one in living)

    def _living(self) -> list[Orphan] | None:
        """Reap the orphans that have ended, and return the living ones; None if a process is being started."""
        if not self._lock.acquire(timeout=SEARCH_TIMEOUT):
            return None
        try:
            return list(self._orphans.living(self._leaders))
        finally:
            self._lock.release()

    def end_all(self, within: float) -> int:
        """Kill every descendant of this process, at the end of the run. Raises ProcessesSurvived."""
        with self._lock:
            try:
                return end_descendants(within)
            finally:
                for child in list(self._leaders.values()):
                    self._reap(child)

    def _left_behind(self, ended: AttemptProcess) -> list[int]:
        own = _own_signs(ended)
        with self._lock:
            found = [pid for pid, signs in self._orphans.signs(self._leaders).items() if not own.isdisjoint(signs)]
            return found + [below for pid in found for below in procfs.descendants(pid)]

    def _reap(self, child: AttemptChild) -> None:
        if self._leaders.pop(child.pid, None) is not None:  # None if `end_all` has already reaped the child
            reap(child)


def spawn(start: Start) -> subprocess.Popen[bytes]:
    """Start an attempt in a new interpreter, which is killed when the calling thread ends. Raises OSError."""
    with _blocked_signals():
        return start_session(_argv(start), start.output, start.env, start.plan.cwd, (start.stacks, *start.namespaces))


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block SIGINT, which would raise KeyboardInterrupt, and ignored signals, which a new process does not ignore."""
    ignored = {number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *ignored})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _argv(start: Start) -> Sequence[str]:
    # A command is started through the entry too: only the new process can request the parent-death signal, which then
    # survives exec. preexec_fn is not used, because it runs Python between fork and exec of a threaded process.
    plan, descriptors = start.plan, ",".join(map(str, (start.stacks, *start.namespaces)))
    return [plan.python, ENTRY, str(os.getpid()), descriptors, plan.kind, plan.target, *plan.args]


def _pidfd(pid: int, process: subprocess.Popen[bytes] | None) -> int:
    """Open a pidfd. If opening it fails, kill the process, since its end could not be noticed."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if process is not None:
            process.returncode = 0  # keeps Popen from waiting for this pid, which may be reused by then
        raise


def _own_signs(ended: AttemptProcess) -> set[Sign]:
    return {ended.child.pid, ended.child.pipe, str(ended.task)}
