"""The warm server: imports once for many runs. For each run it makes a supervisor with a fork server below it.

It runs inside entry.py as the fork server does: standard library only. A parent can't be chosen, so it is the other
way around: what is forked from here becomes the run's guardian and its supervisor by exec, and the run's fork server
stays what it is, their descendant. From then on the run has nothing to do with this process.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

Going = Callable[[], Any]
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # as system/process has them, which it does not know
PR_SET_CHILD_SUBREAPER = 36
ASKS_WITHIN = 5.0  # seconds for a client that has connected
SAYS_WITHIN = 1.0  # seconds for the rest of what one has begun to say, while others wait
SAME = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")  # namespaces that a run shares with who asks for it


class WarmServer:
    """Listens on one socket, for this user alone, and ends itself when nobody has asked for anything for a while."""

    def __init__(self, entry: ModuleType, listener: socket.socket, options: Mapping[str, Any]) -> None:
        self.entry = entry
        self.forks, _ = entry.load("warm/fork_server"), entry.load("warm/fresh")
        self.listener = listener
        self.options = options
        self.ready: dict[str, Any] = self.forks.made_ready(options)
        self.problem: str | None = self.ready["problem"]
        self.seen = files_seen()
        self.used = time.monotonic()
        self.runs: dict[int, int] = {}  # pidfd to pid of the guardians that were made
        self.made = 0
        self.clients: dict[int, tuple[socket.socket, float]] = {}  # by descriptor, and until when they may ask

    def work(self) -> Going:
        """Answer clients until it is over. Returns in forks only: how they go on."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            if (rope := self.options.get("rope")) is not None:
                selector.register(rope, selectors.EVENT_READ)
            while (events := selector.select(self.patience())) or self.time_left() != 0.0:
                for key, _ in events:
                    if key.fd == rope:
                        self.leave()
                    elif key.fd in self.runs:
                        selector.unregister(key.fd)
                        self.bury(key.fd)
                    elif key.fd not in self.clients:
                        self.admit()
                    else:
                        selector.unregister(key.fd)
                        if (going := self.attend(self.clients.pop(key.fd)[0])) is not None:
                            return going
                for fd in [fd for fd, (_, until) in self.clients.items() if until <= time.monotonic()]:
                    selector.unregister(fd)
                    self.clients.pop(fd)[0].close()
                for fd in {*self.runs, *self.clients} - selector.get_map().keys():
                    selector.register(fd, selectors.EVENT_READ)
                if self.problem and not self.clients:
                    self.over()
        return self.over()

    def patience(self) -> float | None:
        """Until it has something to do although nobody asks, in seconds."""
        now, idle = time.monotonic(), self.time_left()
        times = [max(0.0, until - now) for _, until in self.clients.values()] + ([] if idle is None else [idle])
        return min(times, default=None)

    def time_left(self) -> float | None:
        """Until it ends itself, in seconds."""
        idle = self.options.get("idle")
        return None if idle is None or self.runs else max(0.0, self.used + idle - time.monotonic())

    def over(self) -> NoReturn:
        """End. The socket goes first: who connects after this finds nobody, and not someone who is about to leave."""
        with suppress(OSError):
            os.unlink(self.options["socket"])
        os._exit(0)

    def leave(self) -> NoReturn:
        """End, as what this process was for has ended. The directory was for that alone."""
        directory = os.path.dirname(self.options["socket"])
        with suppress(OSError):
            for name in os.listdir(directory):
                with suppress(OSError):
                    os.unlink(os.path.join(directory, name))
            os.rmdir(directory)
        os._exit(0)

    def bury(self, pidfd: int) -> None:
        """A run is over."""
        os.waitpid(self.runs.pop(pidfd), os.WNOHANG)  # a debugger may hold it
        os.close(pidfd)
        self.used = time.monotonic()

    def admit(self) -> None:
        """Let a client in: others are answered until it asks."""
        with suppress(OSError):
            client, _ = self.listener.accept()
            self.clients[client.fileno()] = client, time.monotonic() + ASKS_WITHIN

    def attend(self, client: socket.socket) -> Going | None:
        """Answer one client. Returns in a fork only: how it goes on."""
        with client:
            try:
                pid, uid = peer_of(client)
                request = self.forks.receive(client, SAYS_WITHIN) if uid == os.getuid() else None
                return None if request is None else self.answer(client, pid, *request)
            except (OSError, ValueError, TypeError, KeyError, MemoryError):  # it is gone, or sends nothing of sense
                return None

    def answer(self, client: socket.socket, pid: int, message: dict[str, Any], descriptors: list[int]) -> Going | None:
        """Do what a client asks for: `status`, `stop`, or `run`."""
        if message["do"] == "run":
            why = self.problem or self.why_not(pid)
            if why:
                tell(client, {"refused": why})
            going = None if why else self.run(client, message, descriptors)
            if going is None:
                for descriptor in descriptors:
                    os.close(descriptor)
            return going
        told = {"pid": os.getpid(), "problem": self.problem, "seconds": self.ready["seconds"], "runs": len(self.runs)}
        tell(client, {**told, "made": self.made, "left": self.time_left(), "preload": self.options["preload"]})
        if message["do"] == "stop":
            self.over()
        return None

    def why_not(self, pid: int) -> str | None:
        """Why a run should not come from here; then it makes a fork server of its own."""
        if files_seen() != self.seen:
            self.problem = "files that it had imported were changed"
            return self.problem
        for name in SAME:
            with suppress(OSError):
                if os.readlink(f"/proc/self/ns/{name}") != os.readlink(f"/proc/{pid}/ns/{name}"):
                    return f"it is in another {name} namespace"
        with suppress(OSError):
            if Path("/proc/self/cgroup").read_bytes() != Path(f"/proc/{pid}/cgroup").read_bytes():
                return "it is in another control group"
        return None

    def run(self, client: socket.socket, message: dict[str, Any], descriptors: list[int]) -> Going | None:
        """Make a guardian, which makes the rest. Returns in the run's fork server only."""
        guardian = self.forks.quiet_fork()
        if guardian:
            self.made += 1
            self.runs[os.pidfd_open(guardian)] = guardian
            return None
        try:
            return self.become_guardian(client, message, descriptors)
        except BaseException as error:
            with suppress(OSError):
                tell(client, {"refused": f"{type(error).__name__}: {error}"})
            os._exit(1)

    def become_guardian(self, client: socket.socket, message: dict[str, Any], descriptors: list[int]) -> Going:
        """Take the place of the client in the world, make supervisor and fork server, and exec.

        `descriptors`: the standard three, the directory, the guardian's report, the job, the ropes.
        """
        os.setsid()
        take_place(message)
        *standard, cwd, report, job = descriptors[:6]
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
        os.fchdir(cwd)
        become_subreaper(self.entry)
        rope, held = os.pipe()
        supervisor = self.forks.quiet_fork()
        if supervisor == 0:
            os.close(held)
            going = self.become_supervisor(message, [job, rope, *descriptors[6:]])
            for descriptor in (*descriptors, rope, client.detach(), self.listener.detach(), *self.runs):
                os.close(descriptor)
            for other, _ in self.clients.values():
                other.close()
            return going
        tell(client, {"pid": os.getpid()})
        return execute(message, "guardian", [report, held], supervisor)

    def become_supervisor(self, message: dict[str, Any], kept: list[int]) -> Going:
        """Make the fork server and exec."""
        os.setpgid(0, 0)
        become_subreaper(self.entry)
        channel, other = socket.socketpair()
        lifeline, alive = os.pipe()
        supervisor = os.getpid()
        forks = self.forks.quiet_fork()
        if forks:
            execute(message, "supervisor", [channel.fileno(), lifeline, *kept], forks)
        channel.close()
        os.close(lifeline)
        return functools.partial(self.become_fork_server, message, supervisor, other.detach(), alive)

    def become_fork_server(self, message: dict[str, Any], supervisor: int, channel: int, lifeline: int) -> Any:
        """Serve one run, as a fork server does that has imported everything itself."""
        os.setsid()
        self.entry.die_with_parent(supervisor)
        self.entry.reset_signals()
        self.entry.restore_interrupts()
        if (rope := self.options.get("rope")) is not None:
            os.close(rope)
        for path, flags, number in ((os.devnull, os.O_RDONLY, 0), (message["log"], os.O_WRONLY | os.O_APPEND, 1)):
            descriptor = os.open(path, flags | os.O_CREAT, 0o600)
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.dup2(1, 2)
        self.entry.load("warm/fresh").show_as(sys.orig_argv, {**os.environ, **message["marks"]})
        os.write(lifeline, json.dumps(self.ready).encode() + b"\n")
        return self.forks.answer(self.entry, channel, lifeline)


def serve(entry: ModuleType, descriptor: int, told: str) -> Any:
    """Import, then answer clients on the listening socket `descriptor`. Returns in forks only.

    `told` is JSON: `tensorflow`, `preload`, `path` (where else that is imported from, or None), `socket` (its path),
    `idle` (seconds, or None) and `rope` (what can be read, or is at its end, when this process has to end, or None).
    """
    options = json.loads(told)
    if os.fork():
        os._exit(0)  # so that this one is not among the descendants that a run's guardian ends
    os.set_inheritable(descriptor, False)
    if options.get("rope") is not None:
        os.set_inheritable(options["rope"], False)
    going = WarmServer(entry, socket.socket(fileno=descriptor), options).work()
    return going()


def files_seen() -> dict[str, tuple[int, int]]:
    """The files of all modules, each with its time and size, and those that say what the path is."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    paths = [path for path in modules if path]
    for directory in sys.path:
        with suppress(OSError):
            paths += [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".pth")]
    seen = {}
    for path in paths:
        try:
            found = os.stat(path)
        except OSError:
            continue
        seen[path] = (found.st_mtime_ns, found.st_size)
    return seen


def take_place(message: Mapping[str, Any]) -> None:
    """Limits, mask, priority and signals of the process that asks. Raises OSError or ValueError where one can't be."""
    for number, limits in message["limits"]:
        if tuple(resource.getrlimit(number)) != tuple(limits):
            resource.setrlimit(number, tuple(limits))
    os.umask(message["umask"])
    os.sched_setaffinity(0, message["cores"])
    os.setpriority(os.PRIO_PROCESS, 0, message["nice"])
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until the guardian and the supervisor have their handlers
    for number in (*FORWARDED, signal.SIGQUIT):
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in message["ignored"] else usual)


def execute(message: Mapping[str, Any], role: str, kept: list[int], other: int) -> NoReturn:
    """Become the guardian or the supervisor, with these descriptors and the other one's, or the server's, pid."""
    for descriptor in kept:
        os.set_inheritable(descriptor, True)
    words = [*message["command"], role, str(other), *map(str, kept)]
    os.execve(words[0], words, message["env"])


def become_subreaper(entry: ModuleType) -> None:
    """As the hands do it; it outlives exec."""
    entry.ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def peer_of(client: socket.socket) -> tuple[int, int]:
    """Pid and user of who has connected."""
    raw = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[:4], sys.byteorder), int.from_bytes(raw[4:8], sys.byteorder)


def tell(client: socket.socket, answer: Mapping[str, Any]) -> None:
    """One line of JSON."""
    client.sendall(json.dumps(answer).encode() + b"\n")
