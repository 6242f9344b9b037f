"""The family: the first processes of all attempts, and the orphans, processes that attempts have left behind."""

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
from clusterkit.system.process import HELPERS, Child, first_readable, reap
from clusterkit.system.sweep import end_descendants, kill_until_gone
from clusterkit.task.entry import ENTRY
from clusterkit.warm.fork_client import ForkServer, NoForkServer, PendingFork
from clusterkit.words.errors import CannotLook
from clusterkit.words.model import Task

Sign = int | str  # a process id, or the name of a pipe or of a task
PATIENCE = 0.1  # seconds that a look at the orphans waits while a process is started


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
        """Yield the living adopted processes, and reap the others. `leaders` are the first processes of attempts."""
        session = os.getsid(0)
        for pid in procfs.children(os.getpid()):
            # One in this process's session was started by it: tasks and helpers lead sessions of their own.
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
                if all(first_readable((leaders[leader].pidfd,), 0) for leader in maybe & leaders.keys()):
                    signs |= maybe
        return found

    def _task(self, pid: int) -> str | None:
        env = procfs.environ(pid)
        return env.get("CLUSTERKIT_TASK") if env.get("CLUSTERKIT_RUN_ID") == self._run_id else None


def _begun_before(start: int, leaders: Mapping[int, Child]) -> frozenset[int]:
    begun = {pid: procfs.start_of(pid) for pid in leaders}
    return frozenset(pid for pid, at in begun.items() if at is not None and at <= start)


def _reaped(pid: int) -> bool:
    """Reap a process if it has ended, and not only its first thread; return whether it had."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    return True


class AttemptProcess(NamedTuple):
    """An attempt and its first process, which is not reaped."""

    task: Task
    attempt: int
    child: Child


class StartedSpawn(NamedTuple):
    """A start that has begun: its process exists, or was requested from a fork server."""

    start: Start
    pipe: str
    oom_kills: int
    process: subprocess.Popen[bytes] | None
    server: ForkServer | None = None
    asked: PendingFork | None = None


class Family:
    """Tells the first processes of attempts from those that were left behind.

    One lock is held while a process is started and while orphans are looked for: a process between fork and exec
    looks like an orphan that has every task's pipe open.
    """

    def __init__(self, run_id: str) -> None:
        self._orphans = Orphans(run_id)
        self._leaders: dict[int, Child] = {}
        self._lock = threading.RLock()  # `begin` takes it, and `finish` releases it in the same thread

    def begin(self, start: Start, server: ForkServer | None) -> StartedSpawn:
        """Begin to start an attempt; `finish` has to follow, in the same order and thread. Raises OSError."""
        pipe, oom_kills = os.readlink(f"/proc/self/fd/{start.output}"), procfs.oom_kills()
        self._lock.acquire()
        try:
            asked = None
            if server is not None:
                with suppress(NoForkServer):
                    asked = server.ask(start)
            process = spawn(start) if asked is None else None
        except BaseException:
            self._lock.release()
            raise
        return StartedSpawn(start, pipe, oom_kills, process, server, asked)

    def finish(self, begun: StartedSpawn) -> Child:
        """Return the first process of an attempt that has begun. Raises OSError."""
        try:
            process, pid = begun.process, None
            if begun.server is not None and begun.asked is not None:
                with suppress(NoForkServer):
                    pid = begun.server.fork(begun.asked)
            if pid is None:
                process = process or spawn(begun.start)
                pid = process.pid
            child = Child(pid, _pidfd(pid, process), begun.pipe, begun.oom_kills, process)
            self._leaders[pid] = child
            return child
        finally:
            self._lock.release()

    def reap_clean(self, ended: Collection[AttemptProcess]) -> list[AttemptProcess]:
        """Reap the first processes of attempts that left nothing behind, listing children once; return the others."""
        left = []
        with self._lock:
            signs = {sign for of_one in self._orphans.signs(self._leaders).values() for sign in of_one}
            for one in ended:
                if signs.isdisjoint(_own_signs(one)):
                    self._reap(one.child)
                else:
                    left.append(one)
        return left

    def sweep(self, ended: AttemptProcess) -> int:
        """Kill what an attempt left behind, and reap its first process; return the number killed. Raises WillNotDie."""
        killed = kill_until_gone(lambda: self._left_behind(ended))
        with self._lock:
            self._reap(ended.child)
        return killed

    def reap_orphans(self) -> bool:
        """Reap every orphan that has ended; return False instead while a process is started. Raises CannotLook."""
        return self._living() is not None

    def in_grace(self, child: Child) -> bool:
        """Whether an attempt whose first process ended of SIGTERM has others, in their grace period."""
        if signal.SIGTERM not in child.reached or time.monotonic() >= child.grace_until:
            return False
        try:
            living = self._living()
        except CannotLook:
            return True
        return living is None or any(one.group == child.pid for one in living)

    def _living(self) -> list[Adopted] | None:
        """Reap the orphans that have ended, and return the others; None while a process is started."""
        if not self._lock.acquire(timeout=PATIENCE):
            return None
        try:
            return list(self._orphans.living(self._leaders))
        finally:
            self._lock.release()

    def end_all(self, within: float) -> int:
        """Kill every descendant of this process, at the end of the run. Raises WillNotDie."""
        with self._lock:
            try:
                return end_descendants(os.getpid(), within)
            finally:
                for child in list(self._leaders.values()):
                    self._reap(child)

    def _left_behind(self, ended: AttemptProcess) -> list[int]:
        own = _own_signs(ended)
        with self._lock:
            found = [pid for pid, signs in self._orphans.signs(self._leaders).items() if not own.isdisjoint(signs)]
            return found + [below for pid in found for below in procfs.descendants(pid)]

    def _reap(self, child: Child) -> None:
        if self._leaders.pop(child.pid, None) is not None:  # a sweep may come after end_all
            reap(child)


def spawn(start: Start) -> subprocess.Popen[bytes]:
    """Start an attempt with a fresh interpreter. It ends with the calling thread. Raises OSError."""
    with _held_back():
        return subprocess.Popen(
            _argv(start),
            stdin=subprocess.DEVNULL,
            stdout=start.output,
            stderr=start.output,
            cwd=start.plan.cwd,
            env=start.env,
            start_new_session=True,
            pass_fds=(start.stacks, *start.namespaces),
        )


@contextmanager
def _held_back() -> Iterator[None]:
    """Block SIGINT, which would raise, and the ignored signals, which a new interpreter would not ignore."""
    ignored = {number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *ignored})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _argv(start: Start) -> Sequence[str]:
    # A command goes through the entry too: only code inside the new process can ask for the parent-death signal,
    # and it holds across exec. Why not preexec_fn: it runs Python between fork and exec of a threaded process.
    plan, descriptors = start.plan, ",".join(map(str, (start.stacks, *start.namespaces)))
    return [plan.python, ENTRY, str(os.getpid()), descriptors, plan.kind, plan.target, *plan.args]


def _pidfd(pid: int, process: subprocess.Popen[bytes] | None) -> int:
    """Open a pidfd. If that fails, end the process, which could not be watched."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if process is not None:
            process.returncode = 0  # else Popen would wait for this pid again, which another process may have by then
        raise


def _own_signs(ended: AttemptProcess) -> set[Sign]:
    return {ended.child.pid, ended.child.pipe, str(ended.task)}
