"""The warm server: imports modules once for many runs, and forks a guardian, supervisor and fork server for each run.

This file runs inside entry.py and imports only the standard library. A run's fork server has to be forked from the warm
server, so that it has the imported modules, but it also has to be a descendant of the run's supervisor. So the warm
server forks the guardian, the guardian forks the supervisor, and the supervisor forks the fork server. Then guardian
and supervisor exec clusterkit, and the run no longer needs the warm server.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, NoReturn

Continuation = Callable[[], Any]  # the function that a fork has to call after it has left `WarmServer.work`
# The signals that end a run; equal to ENDING in system/process.py, which can't be imported here.
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_CHILD_SUBREAPER = 36
REQUEST_WITHIN = 5.0  # seconds; how long a client may be connected before it begins its request
READ_WITHIN = 1.0  # seconds; the time limit for reading a request, during which other clients have to wait


class WarmServer:
    """Serves this user's clients, such as `clusterkit up`, on one socket. Exits after some time without a run."""

    def __init__(self, entry: ModuleType, listener: socket.socket, options: Mapping[str, Any]) -> None:
        self.entry = entry
        self.fork_server, _ = entry.load("warm/fork_server"), entry.load("warm/fresh")
        self.confinement = entry.load("warm/confinement")
        self.listener = listener
        self.options = options
        self.report: dict[str, Any] = entry.load("warm/fresh").prepare(options)
        self.problem: str | None = self.report["problem"]
        self.imported_files = module_files()
        self.last_used = time.monotonic()
        self.runs: dict[int, int] = {}  # maps the pidfd of each run's guardian to the guardian's pid
        self.runs_started = 0
        self.clients: dict[int, tuple[socket.socket, float]] = {}  # maps a descriptor to a socket and its deadline

    def work(self) -> Continuation:
        """Answer clients until the server exits. Returns only in forks, with the function that the fork has to call."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            if (owner := self.options.get("owner")) is not None:
                selector.register(owner, selectors.EVENT_READ)
            while (events := selector.select(self.timeout())) or self.idle_seconds() != 0.0:
                for key, _ in events:
                    if key.fd == owner:
                        self.exit_and_clear() if self.options["clears"] else self.exit()
                    elif key.fd in self.runs:
                        selector.unregister(key.fd)
                        self.reap_run(key.fd)
                    elif key.fd not in self.clients:
                        self.accept()
                    else:
                        selector.unregister(key.fd)
                        if (continuation := self.serve_client(self.clients.pop(key.fd)[0])) is not None:
                            return continuation
                for fd in [fd for fd, (_, until) in self.clients.items() if until <= time.monotonic()]:
                    selector.unregister(fd)
                    self.clients.pop(fd)[0].close()
                for fd in {*self.runs, *self.clients} - selector.get_map().keys():
                    selector.register(fd, selectors.EVENT_READ)
                if self.problem and not self.clients:
                    self.exit()
        return self.exit()

    def timeout(self) -> float:
        """Return the seconds until the next client's deadline or the server's exit; at most one day (epoll's limit)."""
        now, idle = time.monotonic(), self.idle_seconds()
        times = [max(0.0, until - now) for _, until in self.clients.values()] + ([] if idle is None else [idle])
        return min([86400.0, *times])

    def idle_seconds(self) -> float | None:
        """Return the seconds until the server exits if no run begins; None if a run is live or `idle` is None."""
        idle = self.options.get("idle")
        return None if idle is None or self.runs else max(0.0, self.last_used + idle - time.monotonic())

    def exit(self) -> NoReturn:
        """Remove the socket, so that no more clients connect, and exit."""
        with suppress(OSError):
            os.unlink(self.options["socket"])
        os._exit(0)

    def exit_and_clear(self) -> NoReturn:
        directory = os.path.dirname(self.options["socket"])
        with suppress(OSError):
            for name in os.listdir(directory):
                with suppress(OSError):
                    os.unlink(os.path.join(directory, name))
            os.rmdir(directory)
        os._exit(0)

    def reap_run(self, pidfd: int) -> None:
        os.waitpid(self.runs.pop(pidfd), os.WNOHANG)  # WNOHANG: a debugger of the guardian must not block the server
        os.close(pidfd)
        self.last_used = time.monotonic()

    def accept(self) -> None:
        """Accept a client. Its request is read when it arrives; until then, other clients are served."""
        with suppress(OSError):
            client, _ = self.listener.accept()
            self.clients[client.fileno()] = client, time.monotonic() + REQUEST_WITHIN

    def serve_client(self, client: socket.socket) -> Continuation | None:
        """Read and answer a client's request. Returns None in the server; in a fork, the function to call."""
        continuation, descriptors = None, list[int]()
        # These exceptions mean that the client has disconnected or sent an invalid request.
        with client, suppress(OSError, ValueError, TypeError, KeyError, MemoryError):
            pid, uid, _ = struct.unpack("iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            request = self.fork_server.receive(client, READ_WITHIN) if uid == os.getuid() else None
            if request is not None:
                message, descriptors = request
                continuation = self.answer(client, pid, message, descriptors)
        if continuation is None:
            for descriptor in descriptors:
                os.close(descriptor)
        return continuation

    def answer(
        self, client: socket.socket, pid: int, message: dict[str, Any], descriptors: list[int]
    ) -> Continuation | None:
        """Execute a request: `status`, `stop`, or `run`."""
        if message["do"] == "run":
            why = self.problem or self.why_refused(pid, message.get("told"))
            if why:
                send(client, {"refused": why})
            return None if why else self.start_run(client, message, descriptors)
        state = {"pid": os.getpid(), "problem": self.problem, "seconds": self.report["seconds"], "runs": len(self.runs)}
        state |= {"kept": self.options["owner"] is not None, "preload": self.options["preload"]}
        send(client, {**state, "made": self.runs_started, "left": self.idle_seconds()})
        if message["do"] == "stop":
            self.exit()
        return None

    def why_refused(self, pid: int, attributes: object) -> str | None:
        """Return a clause that explains why the run of client `pid` can't start from this server; None if it can."""
        if module_files() != self.imported_files:
            self.problem = "files that it has imported have changed"
            return self.problem
        what = self.confinement.difference(pid, attributes)
        return f"it runs with {what}" if what else None

    def start_run(self, client: socket.socket, message: dict[str, Any], descriptors: list[int]) -> Continuation | None:
        """Fork a run's guardian. Returns None in this server; in the run's fork server, the function to call."""
        guardian = self.fork_server.quiet_fork()
        if guardian:
            self.runs_started += 1
            self.runs[os.pidfd_open(guardian)] = guardian
            return None
        try:
            return self.become_guardian(client, message, descriptors)
        except BaseException as error:
            with suppress(OSError):
                send(client, {"refused": f"{type(error).__name__}: {error}"})
            os._exit(1)

    def become_guardian(self, client: socket.socket, message: dict[str, Any], descriptors: list[int]) -> Continuation:
        """In a fork: adopt the client's settings, fork the supervisor, and become the guardian by exec.

        `descriptors` are stdin, stdout, stderr, the working directory, the report pipe, the job file, and lifelines.
        """
        os.setsid()
        adopt_settings(message)
        *standard, cwd, report, job = descriptors[:6]
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
        os.fchdir(cwd)
        become_subreaper(self.entry)
        lifeline, held = os.pipe()
        supervisor = self.fork_server.quiet_fork()
        if supervisor == 0:
            os.close(held)
            continuation = self.become_supervisor(message, [job, lifeline, *descriptors[6:]])
            for descriptor in (*descriptors, lifeline, client.detach(), self.listener.detach(), *self.runs):
                os.close(descriptor)
            for other, _ in self.clients.values():
                other.close()
            return continuation
        send(client, {"pid": os.getpid()})
        return exec_role(message, "guardian", [report, held], supervisor)

    def become_supervisor(self, message: dict[str, Any], kept_fds: list[int]) -> Continuation:
        """In a fork of the guardian: fork the fork server, and become the supervisor by exec."""
        os.setpgid(0, 0)
        become_subreaper(self.entry)
        channel, other = socket.socketpair()
        lifeline, alive = os.pipe()
        supervisor = os.getpid()
        fork_server = self.fork_server.quiet_fork()
        if fork_server:
            exec_role(message, "supervisor", [channel.fileno(), lifeline, *kept_fds], fork_server)
        channel.close()
        os.close(lifeline)
        return functools.partial(self.become_fork_server, message, supervisor, other.detach(), alive)

    def become_fork_server(self, message: dict[str, Any], supervisor: int, channel: int, lifeline: int) -> Any:
        """In a fork of the supervisor: serve as the run's fork server, with the modules imported by the warm server."""
        os.setsid()
        self.entry.die_with_parent(supervisor)
        self.entry.reset_signals()
        self.entry.restore_interrupts()
        if (owner := self.options.get("owner")) is not None:
            os.close(owner)
        for path, flags, number in ((os.devnull, os.O_RDONLY, 0), (message["log"], os.O_WRONLY | os.O_APPEND, 1)):
            descriptor = os.open(path, flags | os.O_CREAT, 0o600)
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.dup2(1, 2)
        self.entry.load("warm/fresh").show_as(sys.orig_argv, {**os.environ, **message["marks"]})
        os.write(lifeline, json.dumps(self.report).encode() + b"\n")
        return self.fork_server.answer_requests(self.entry, channel, lifeline)


def serve(entry: ModuleType, descriptor: int, options_json: str) -> Any:
    """Import modules, then answer clients on the listening socket `descriptor`. Returns only in forks.

    The options are those of the fork server, except `lifeline`, and these:

    | option | meaning |
    | --- | --- |
    | socket | the path of the socket |
    | idle | how many seconds the server stays idle before it exits, or None |
    | owner | the pidfd of a process at whose end the server exits, or None |
    | clears | True to remove the server's directory when the owner ends |
    """
    options = json.loads(options_json)
    if os.fork():
        os._exit(0)  # so that the server is not a descendant of the run that starts it: the guardian would kill it
    os.set_inheritable(descriptor, False)
    if options.get("owner") is not None:
        os.set_inheritable(options["owner"], False)
    continuation = WarmServer(entry, socket.socket(fileno=descriptor), options).work()
    return continuation()


def module_files() -> dict[str, tuple[int, int]]:
    """Map the file of each imported module, and each .pth file in a directory of `sys.path`, to (mtime in ns, size)."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    paths = [path for path in modules if path]
    for directory in sys.path:
        with suppress(OSError):
            paths += [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".pth")]
    seen = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        seen[path] = (status.st_mtime_ns, status.st_size)
    return seen


def adopt_settings(message: Mapping[str, Any]) -> None:
    """Give this process the client's limits, umask, cores, priority and ignored signals. Raises OSError, ValueError."""
    for number, limits in message["limits"]:
        if tuple(resource.getrlimit(number)) != tuple(limits):
            resource.setrlimit(number, tuple(limits))
    os.umask(message["umask"])
    os.sched_setaffinity(0, message["cores"])
    os.setpriority(os.PRIO_PROCESS, 0, message["nice"])
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # guardian and supervisor unblock these signals later
    for number in (*FORWARDED, signal.SIGQUIT):
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in message["ignored"] else usual)


def exec_role(message: Mapping[str, Any], role: str, kept_fds: list[int], other: int) -> NoReturn:
    """Become clusterkit's guardian or supervisor (`role`) by exec. `other` is the pid of its child process."""
    for descriptor in kept_fds:
        os.set_inheritable(descriptor, True)
    argv = [*message["command"], role, str(other), *map(str, kept_fds)]
    os.execve(argv[0], argv, message["env"])


def become_subreaper(entry: ModuleType) -> None:
    """Make this process adopt its orphaned descendants, even after exec."""
    entry.ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def send(client: socket.socket, answer: Mapping[str, Any]) -> None:
    client.sendall(json.dumps(answer).encode() + b"\n")
