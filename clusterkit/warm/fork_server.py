"""The fork server: imports the modules that all tasks need, then forks a task for each request.

The server runs inside entry.py, in the tasks' interpreter, so it imports only the standard library. It has one thread
and one socket. A request is JSON text, preceded by its length in four bytes, with file descriptors attached. An answer
is a line of JSON.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)  # the number of the system call clone(2), if known
CLONE_PARENT = 0x8000
MOST_PENDING = 8  # the maximum number of unanswered requests


class PendingAnswer(NamedTuple):
    """An answer that has not been sent yet: the pid of a fork, which arrives through a pipe, or an errno."""

    reader: int  # the read end of the pipe to which the fork writes its pid
    helper: int | None  # the pid of an intermediate process that forks the task and exits, or None
    error: int | None = None  # the errno of a failed fork


class ForkedProgram(NamedTuple):
    """The program that a fork has to run as a task. The task's stacks are dumped to the descriptor `stacks`."""

    kind: str
    target: str
    stacks: int


def serve(entry: ModuleType, descriptor: int, options_json: str) -> ForkedProgram:
    """Import modules, write a report to the pipe `lifeline`, and fork a task for each request. Returns only in forks.

    `descriptor` is the socket. The options are `lifeline` (the descriptor of the pipe), `tensorflow` (True to import
    TensorFlow and Keras), `preload` (other modules to import) and `path` (the program's directory).
    """
    options = json.loads(options_json)
    lifeline = options["lifeline"]
    os.set_inheritable(descriptor, False)
    os.set_inheritable(lifeline, False)
    report = entry.load("warm/fresh").prepare(options)
    os.write(lifeline, json.dumps(report).encode() + b"\n")
    if report["problem"]:
        sys.exit(report["problem"])
    return answer_requests(entry, descriptor, lifeline)


def answer_requests(entry: ModuleType, descriptor: int, lifeline: int) -> ForkedProgram:
    """Fork a task for each request until the client closes the socket, then exit. Returns only in forks."""
    entry.load("task/join")  # loaded once, so that forks do not have to load the file
    with socket.socket(fileno=descriptor) as channel:
        if forked := Server(entry, channel).work():
            os.close(lifeline)
            return forked
    # Skip exit handlers: imported modules have registered them for the program, which the server does not run.
    os._exit(0)


def receive(channel: socket.socket, within: float | None = None) -> tuple[dict[str, Any], list[int]] | None:
    """Read a request and its descriptors; return None if the peer has closed the socket.

    Raises TimeoutError after `within` seconds, and ValueError for invalid JSON. The received descriptors are closed if
    no request is returned.
    """
    began = time.monotonic()
    channel.settimeout(within)
    descriptors: list[int] = []
    request = None
    try:
        head, descriptors, _, _ = socket.recv_fds(channel, 4, 8, socket.MSG_CMSG_CLOEXEC)
        body = b""
        size = int.from_bytes(head, "big")
        while len(body) < size and (more := channel.recv(size - len(body))):
            body += more
            if within is not None:
                channel.settimeout(max(0.001, began + within - time.monotonic()))
        if head and len(body) == size:
            request = json.loads(body), list(descriptors)
    except ConnectionError:
        pass
    finally:
        if request is None:
            for descriptor in descriptors:
                os.close(descriptor)
    return request


class Server:
    """Forks a task for each request on a socket. Starts the next fork while earlier forks are still being set up."""

    def __init__(self, entry: ModuleType, channel: socket.socket) -> None:
        self.entry = entry
        self.channel = channel
        self.pending: list[PendingAnswer] = []  # the answers that have not been sent yet, in the order of the requests
        # The signals that have handlers, determined only once: a loop over all signals takes half as long as a fork.
        self.handled_signals = [
            one for one in signal.valid_signals() if signal.getsignal(one) not in (signal.SIG_DFL, None)
        ]

    def work(self) -> ForkedProgram | None:
        """Answer requests. In a fork, return the program to run; in the server, None once the client disconnects."""
        while True:
            if self.pending and (len(self.pending) == MOST_PENDING or not self.has_request()):
                answer(self.channel, self.pending.pop(0))
            elif (request := receive(self.channel)) is None:
                return None
            elif forked := self.fork(*request):
                return forked

    def has_request(self) -> bool:
        poll = select.poll()
        poll.register(self.channel, select.POLLIN)
        return bool(poll.poll(0))

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> ForkedProgram | None:
        """Begin to fork a task, and add a pending answer. Returns None in the server, and the program in the fork."""
        is_direct = request["how"] == "command" and CLONE is not None and not sys.modules.get("threading")
        try:
            reader, writer = os.pipe()
            try:
                pid = fork_sibling() if is_direct else quiet_fork()
            except OSError:
                os.close(reader)
                os.close(writer)
                raise
        except OSError as error:
            self.pending.append(PendingAnswer(-1, None, error.errno))
        else:
            if pid == 0:
                return self.continue_as_task(is_direct, request, descriptors, reader, writer)
            os.close(writer)
            self.pending.append(PendingAnswer(reader, None if is_direct else pid))
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def continue_as_task(
        self, is_direct: bool, request: Mapping[str, Any], descriptors: list[int], reader: int, writer: int
    ) -> ForkedProgram:
        """Turn this fork into the task. On failure, exit: the fork must not continue as a second server."""
        try:
            if not is_direct:
                fork_again(writer)
            others = [begun.reader for begun in self.pending if begun.error is None]
            for descriptor in (reader, self.channel.detach(), *others):
                os.close(descriptor)
            self.announce(request["how"], writer)
            return become_task(self.entry, request, *descriptors)
        except BaseException as error:
            os.write(2, f"clusterkit's fork server can't start this task: {error!r}\n".encode(errors="replace"))
            os._exit(1)

    def announce(self, how: str, writer: int) -> None:
        """In a fork: start a new session, reset signal handling, and write the fork's pid to the server's pipe."""
        os.setsid()
        # A signal that arrives before exec must have its default effect: Python would not run a handler in this fork.
        if how == "command":
            for number in self.handled_signals:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
        else:
            self.entry.reset_signals()
        os.write(writer, b"%d" % os.getpid())
        os.close(writer)


def fork_again(writer: int) -> None:
    """Fork a child and exit. The supervisor, which is a subreaper, then adopts the child. Returns only in the child."""
    try:
        pid = quiet_fork()
    except OSError as error:
        os.write(writer, b"%d" % -(error.errno or 0))
        os._exit(1)
    if pid:
        os._exit(0)


def fork_sibling() -> int:
    """Fork a direct child of the supervisor; return 0 in the child. Twice as fast as `fork_again`. Raises OSError.

    Python and the C library do not notice such a fork, and do not release locks in the child. So this function is used
    only for commands, which exec at once, and only if no imported module can have threads that hold a lock.
    """
    libc = ctypes.PyDLL(None, use_errno=True)
    pid = int(libc.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return pid


def answer(channel: socket.socket, pending: PendingAnswer) -> None:
    """Wait until the supervisor is the fork's parent; send the supervisor the fork's pid or, on failure, an errno."""
    try:
        if pending.error is not None:
            raise OSError(pending.error, "fork")
        if pending.helper is not None:
            os.waitpid(pending.helper, 0)
        with os.fdopen(pending.reader, "rb") as reader:
            pid = int(reader.read() or 0)  # the pid from `announce`, or a negative errno from `fork_again`
        if pid <= 0:
            raise OSError(-pid or errno.EAGAIN, "fork")
        result = {"pid": pid}
    except OSError as error:
        result = {"errno": error.errno or errno.EAGAIN}
    with suppress(ConnectionError):
        channel.sendall(json.dumps(result).encode() + b"\n")


def quiet_fork() -> int:
    """Fork without Python's warning about threads, since `why_unsafe` has checked that a fork is safe."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def become_task(
    entry: ModuleType, request: Mapping[str, Any], gate: int, output: int, stacks: int, cwd: int, *namespaces: int
) -> ForkedProgram:
    """Give this fork the state of a fresh interpreter, and return the program to run; if it is a command, exec it."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.fchdir(cwd)
    os.close(output)
    os.close(cwd)
    env, argv, fresh = request["env"], request["command"], entry.load("warm/fresh")
    is_command = request["how"] == "command"
    if not is_command:
        fresh.show_as(argv, env)
    # Wait for the byte that the supervisor writes to the pipe after it has received this process's pid.
    if not os.read(gate, 1):
        os._exit(1)  # the supervisor has abandoned this fork
    os.close(gate)
    if namespaces:
        entry.load("task/join").join_or_end(namespaces)
    entry.die_with_parent(request["parent"])
    entry.pin_to_cores(env)
    if is_command:
        os.close(stacks)
        entry.exec_command(argv, env)
    fresh.replace_environment(env)
    sys.argv[:] = request["argv"]
    fresh.refresh_streams()
    fresh.refresh_modules()
    return ForkedProgram(request["how"], request["argv"][0], stacks)
