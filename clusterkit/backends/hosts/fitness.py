"""Checks whether a host can run attempts: its shared directories, disk space, memory and connections to peers."""

from __future__ import annotations

import errno
import os
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from clusterkit.backends.base import Post
from clusterkit.backends.link.address import family_of
from clusterkit.system import procfs
from clusterkit.system.barrier import start_thread
from clusterkit.text.endpoints import split
from clusterkit.words.actions import Order, Signal, Spawn
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import NEVER_STARTED, SpawnFailed
from clusterkit.words.model import Task

MB = 1 << 20
LEAST_DISK = 16 * MB  # bytes; the minimum free disk space, for the first logs and checkpoints
LEAST_MEMORY = 64 * MB  # bytes; the minimum available memory; a forked task takes this much before its first step
ANSWER_WITHIN = 5.0  # seconds; the time limit for a peer's host to answer
DISK_WITHIN = 10.0  # seconds; the time limit for the file systems to answer
MOST_PEERS = 32  # the maximum number of hosts to connect to in one check
_REACHED = frozenset({0, errno.ECONNREFUSED, errno.ECONNRESET, errno.EISCONN})
_UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.ENETDOWN, errno.EHOSTDOWN})
SEEN_WITHIN = 40.0  # seconds; how long to wait for a new file, which NFS may show to other hosts half a minute late
_PREFIX = ".clusterkit-shared-"
WaitUntil = Callable[[Callable[[], bool], float], bool]


@dataclass(frozen=True, slots=True)
class UnmetRequirement:
    """The reason why no attempt can start on this host, as a clause. `unreached` are the peers that did not answer."""

    why: str
    unreached: tuple[Task, ...] = ()


def first_unmet(directories: Sequence[Path], peers: Mapping[Task, str], post: Post) -> UnmetRequirement | None:
    """Return the first unmet requirement of a start: memory, writable directories, reachable peers.

    Every check has a time limit. Crashes of threads are posted. May be called in any thread.
    """
    if (why := _memory_problem() or _disks_problem(directories, post)) is not None:
        return UnmetRequirement(why)
    return _peers_problem(peers)


def peers_of(here: str, endpoints: Mapping[Task, str]) -> dict[Task, str]:
    """Return one task and its endpoint for each of the MOST_PEERS hosts that follow this host, to spread the checks."""
    hosts: dict[str, tuple[Task, str]] = {}
    for task, end in sorted(endpoints.items()):
        hosts.setdefault(split(end)[0], (task, end))
    names = list(hosts)
    start = names.index(here) + 1 if here in hosts else 0
    return dict(hosts[name] for name in (names[start:] + names[:start])[:MOST_PEERS] if name != here)


def _memory_problem() -> str | None:
    free = psutil.virtual_memory().available
    return None if free >= LEAST_MEMORY else f"only {free // MB} MB of memory are available"


def _disks_problem(directories: Sequence[Path], post: Post) -> str | None:
    """Check the directories in a thread: a network file system whose server is gone blocks every caller."""
    found: list[str] = []
    checked = list[Path]()

    def check() -> None:
        for directory in directories:
            if (why := _disk_problem(directory)) is not None:
                found.append(why)
            checked.append(directory)

    thread = start_thread("disks", check, post)
    thread.join(DISK_WITHIN)
    if len(checked) < len(directories):
        return f"the file system of {directories[len(checked)]} does not answer within {DISK_WITHIN:g} s"
    return next(iter(found), None)


def _disk_problem(directory: Path) -> str | None:
    try:
        stat = os.statvfs(directory)
    except OSError as error:
        return f"{directory} can't be used: {error.strerror}"
    if stat.f_flag & os.ST_RDONLY or not os.access(directory, os.W_OK | os.X_OK):
        return f"{directory} can't be written"
    if stat.f_bavail * stat.f_frsize < LEAST_DISK:
        return f"only {stat.f_bavail * stat.f_frsize // MB} MB are free in {directory}"
    return f"no file can be made in {directory}: no inode is free" if stat.f_files and not stat.f_favail else None


def _peers_problem(peers: Mapping[Task, str]) -> UnmetRequirement | None:
    """Connect to each peer. A peer that refuses the connection is reachable: its task need not listen yet."""
    silent = list[Task]()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for task, end in peers.items():
            # If no descriptor is free, or the endpoint is invalid, skip the peer.
            with suppress(OSError, ValueError, TypeError):
                address = split(end)
                sock = stack.enter_context(socket.socket(family_of(address[0])))
                sock.setblocking(False)
                code = sock.connect_ex(address)
                if code in _UNREACHABLE:
                    silent.append(task)
                elif code not in _REACHED:
                    selector.register(sock, selectors.EVENT_WRITE, (task, sock))
        until = time.monotonic() + ANSWER_WITHIN
        is_late = False
        while selector.get_map() and not is_late:
            is_late = (left := until - time.monotonic()) <= 0  # answers that have arrived by now still count
            for key, _ in selector.select(max(0.0, left)):
                task, sock = key.data
                selector.unregister(sock)
                if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in _UNREACHABLE:
                    silent.append(task)
        silent += [key.data[0] for key in selector.get_map().values()]
    if not silent:
        return None
    names = ", ".join(f"{task} ({split(peers[task])[0]})" for task in sorted(silent))
    return UnmetRequirement(f"it does not reach the host of {names}", tuple(sorted(silent)))


class CheckedStarts:
    """Restarts attempts only after a check of the host. All pending restarts share one check."""

    def __init__(
        self,
        make_check: Callable[[], Callable[[], UnmetRequirement | None]],
        port: Callable[[Task], int | None],
        start: Callable[[Order], None],
        post: Post,
    ) -> None:
        """`make_check` returns the check, which is run in a thread; `port` returns a task's port."""
        self._make_check, self._port, self._start, self._post = make_check, port, start, post
        self._held: dict[Task, Spawn] = {}
        self._is_checking = False

    def do(self, order: Order) -> None:
        """Carry out an order. A restart is carried out once the host has been checked."""
        match order:
            case Spawn(task, attempt) if attempt > 1:
                self._held[task] = order
                self._begin_check()
            case Signal(task, attempt) if (held := self._held.get(task)) is not None and held.attempt == attempt:
                del self._held[task]
                self._post(SpawnFailed(task, attempt, NEVER_STARTED))
            case _:
                self._start(order)

    def stop(self) -> None:
        self._held.clear()

    def _begin_check(self) -> None:
        if self._is_checking:
            return
        self._is_checking, check = True, self._make_check()

        def run() -> None:
            found = check()
            self._post(lambda: self._checked(found))

        start_thread("fitness", run, self._post)

    def _checked(self, found: UnmetRequirement | None) -> None:
        self._is_checking = False
        held, self._held = self._held, {}
        used_ports = frozenset[int]()
        with suppress(CannotLook):  # the ports are then not checked, so a start on a used port fails later
            if held and found is None:
                used_ports = procfs.listening_ports()
        for task, order in held.items():
            port = self._port(task)
            if found is not None:
                self._post(SpawnFailed(task, order.attempt, found.why, unfit=True, unreached=found.unreached))
            elif port in used_ports:
                what = f"another process listens on its port {port}"
                self._post(SpawnFailed(task, order.attempt, what, unfit=True))
            else:
                self._start(order)


class NotShared(Exception):
    """Raised if a host does not see one of the run's directories or can't write there; the message is a sentence."""


class SharedDirectories:
    """The supervisor's marker files, by which agents recognize shared directories. Raises OSError."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self.token = secrets.token_hex(8)
        self._files = [_file(directory, self.token) for directory in directories]
        for file in self._files:
            file.touch(mode=0o600)

    def clear(self) -> None:
        for file in self._files:
            file.unlink(missing_ok=True)


def seconds_until_seen(directory: Path, token: str, wait: WaitUntil) -> float:
    """Wait for the supervisor's marker file, then try to write a file; return the seconds waited. Raises NotShared."""
    begun = time.monotonic()
    if not wait(lambda: _is_seen(directory, token), SEEN_WITHIN):
        raise NotShared(
            f"It does not see in {directory} what the supervisor wrote there {SEEN_WITHIN:g} s ago. All hosts have to "
            "share this directory: choose another with --checkpoint-dir, or set CLUSTERKIT_HOME."
        )
    seconds = time.monotonic() - begun
    probe = directory / f"{_PREFIX}{token}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        probe.touch(mode=0o600)
        probe.unlink()
    except OSError as error:
        raise NotShared(f"It can't write to {directory}: {error.strerror}.") from None
    return seconds


def _is_seen(directory: Path, token: str) -> bool:
    with suppress(OSError):
        list(directory.iterdir())  # listing the directory makes a network file system refresh it
    return _file(directory, token).exists()


def _file(directory: Path, token: str) -> Path:
    return directory / f"{_PREFIX}{token}"
