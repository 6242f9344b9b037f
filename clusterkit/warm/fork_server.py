"""The fork server: imports once what all tasks import, then forks a task for each request.

It runs inside entry.py, with the tasks' interpreter: standard library only. It has one thread and serves one socket: a
request is its length in four bytes, with the descriptors attached, and then JSON; the answer is a line of JSON.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)  # the system call's number
CLONE_PARENT = 0x8000


class Forked(NamedTuple):
    """The program that a fork has to run, and the descriptor for its stack dumps."""

    how: str
    target: str
    stacks: int


def serve(entry: ModuleType, descriptor: int, options_json: str) -> Forked:
    """Import, report that on the descriptor `lifeline`, then answer requests. Returns in each fork only.

    `descriptor` is the socket. The options are `lifeline`, `tensorflow` (whether to import it and Keras), `preload`
    (other modules) and `path` (the program's directory).
    """
    options = json.loads(options_json)
    lifeline = options["lifeline"]
    os.set_inheritable(descriptor, False)
    os.set_inheritable(lifeline, False)
    entry.load("warm/fresh")  # first, since every fork needs it
    report = prepare(options)
    os.write(lifeline, json.dumps(report).encode() + b"\n")
    if report["problem"]:
        sys.exit(report["problem"])
    return answer_requests(entry, descriptor, lifeline)


def prepare(options: Mapping[str, Any]) -> dict[str, Any]:
    """Import what the options ask for; return the report: `problem` or None, `seconds`, `modules`."""
    began = time.monotonic()
    problem = import_all(options["tensorflow"], options["preload"], options["path"])
    return {"problem": problem, "seconds": time.monotonic() - began, "modules": imported_modules()}


def answer_requests(entry: ModuleType, descriptor: int, lifeline: int) -> Forked:
    """Answer requests until the socket closes. Returns in each fork only."""
    entry.load("task/join")  # once, and not in each fork that needs it
    with socket.socket(fileno=descriptor) as channel:
        while (request := receive(channel)) is not None:
            if forked := fork(entry, channel, *request):
                os.close(lifeline)
                return forked
    # Why not sys.exit: exit handlers of imported modules are meant for the forks.
    os._exit(0)


def import_all(tensorflow: bool, preload: Sequence[str], path: str | None) -> str | None:
    """Import TensorFlow and the modules to preload; return why no task can be forked, or None."""
    has_first_path = not getattr(sys.flags, "safe_path", False)
    if has_first_path:
        del sys.path[0]  # this file's directory
    gc.disable()  # its passes over ever more objects would find no garbage
    try:
        if tensorflow:
            importlib.import_module("tensorflow")  # with the Keras that TF_USE_LEGACY_KERAS selects
        if has_first_path:
            sys.path.insert(0, path or "")  # the program's directory, for its modules
        for name in preload:
            importlib.import_module(name)
    except Exception as error:
        return f"the import failed: {type(error).__name__}: {error}"
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # else every fork would print again what C code has buffered
    if problem := why_unsafe():
        return problem
    # So that the garbage collectors of forks do not write to, and thereby copy, pages that they share.
    gc.collect()
    gc.freeze()
    return None


def imported_modules() -> dict[str, str]:
    """Return the imported top-level modules except `__main__`, each with the directory it comes from, or ""."""
    places = {}
    for name, module in list(sys.modules.items()):
        if "." not in name and name != "__main__":
            known = getattr(module, "__dict__", {})
            places[name] = os.path.dirname(next(iter(known.get("__path__") or ()), None) or known.get("__file__") or "")
    return places


def why_unsafe() -> str | None:
    """Return why a fork of this process might not work, as a clause; None if it will."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        names = ", ".join(t.name for t in threading.enumerate()[1:])
        return f"a preloaded module has started threads ({names}), which a fork does not have"
    context = sys.modules.get("tensorflow.python.eager.context")
    if context is not None and context._context is not None and context._context._initialized:
        return "a preloaded module has initialized TensorFlow's devices, which can't be used after a fork"
    links = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    if any(link.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")) for link in links):
        return "a preloaded module has opened a GPU, which can't be used after a fork"
    return None


def receive(channel: socket.socket, within: float | None = None) -> tuple[dict[str, Any], list[int]] | None:
    """Read a request and its descriptors; None if the peer has closed. Raises TimeoutError after `within` seconds."""
    began = time.monotonic()
    channel.settimeout(within)
    try:
        head, descriptors, _, _ = socket.recv_fds(channel, 4, 8, socket.MSG_CMSG_CLOEXEC)
        body = b""
        size = int.from_bytes(head, "big")
        while len(body) < size and (more := channel.recv(size - len(body))):
            body += more
            if within is not None:
                channel.settimeout(max(0.001, began + within - time.monotonic()))
    except ConnectionError:
        return None
    return (json.loads(body), list(descriptors)) if head and len(body) == size else None


def fork(entry: ModuleType, channel: socket.socket, request: dict[str, Any], descriptors: list[int]) -> Forked | None:
    """Fork a task and answer with its pid. Returns None in the server, and what to run in the task."""
    try:
        is_direct = request["how"] == "command" and CLONE is not None and not sys.modules.get("threading")
        forked = (fork_sibling if is_direct else fork_twice)(entry, channel, request, descriptors)
    except OSError as error:
        answer = {"errno": error.errno}
    else:
        if isinstance(forked, Forked):
            return forked
        answer = {"pid": forked}
    for descriptor in descriptors:
        os.close(descriptor)
    with suppress(ConnectionError):
        channel.sendall(json.dumps(answer).encode() + b"\n")
    return None


def fork_twice(
    entry: ModuleType, channel: socket.socket, request: dict[str, Any], descriptors: list[int]
) -> Forked | int:
    """Fork a task whose parent exits at once, so that the supervisor, a subreaper, inherits it. Raises OSError.

    Returns the pid in the server, and what to run in the task.
    """
    reader, writer = os.pipe()
    try:
        middle = quiet_fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if middle == 0:
        try:
            pid = quiet_fork()
        except OSError as error:
            os.write(writer, b"%d" % -(error.errno or 0))
            os._exit(1)
        if pid:
            os._exit(0)
        for descriptor in (reader, channel.detach()):
            os.close(descriptor)
        return become_or_exit(entry, request, descriptors, writer)
    os.close(writer)
    os.waitpid(middle, 0)
    return read_pid(reader)


def fork_sibling(entry: ModuleType, channel: socket.socket, request: dict[str, Any], descriptors: list[int]) -> int:
    """Fork a task as a child of the supervisor, which takes half the time. Raises OSError.

    Python and the C library do not notice such a fork and release no locks in it. So it is only for commands, which
    exec at once, and only if no imported module could have threads that hold a lock.
    """
    libc = ctypes.PyDLL(None, use_errno=True)
    reader, writer = os.pipe()
    pid = int(libc.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        become_or_exit(entry, request, descriptors, writer)
    os.close(writer)
    if pid < 0:
        os.close(reader)
        raise OSError(ctypes.get_errno(), "clone")
    return read_pid(reader)


def read_pid(reader: int) -> int:
    """Read the pid that `announce` has written. Raises OSError if it is minus an error number, or missing."""
    with os.fdopen(reader, "rb") as answer:
        pid = int(answer.read() or 0)
    if pid <= 0:
        raise OSError(-pid or errno.EAGAIN, "fork")
    return pid


def quiet_fork() -> int:
    """Fork without Python's warning about the threads of native libraries, which `why_unsafe` has checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def become_or_exit(entry: ModuleType, request: Mapping[str, Any], descriptors: list[int], writer: int) -> Forked:
    """Continue as the task; on an error exit, since a fork must not run on as a second server."""
    try:
        announce(entry, request["how"], writer)
        return become(entry, request, *descriptors)
    except BaseException as error:
        os.write(2, f"clusterkit's fork server can't start this task: {error!r}\n".encode(errors="replace"))
        os._exit(1)


def announce(entry: ModuleType, how: str, writer: int) -> None:
    """Lead a new process group with default signal handling, then report the pid to the server."""
    os.setsid()
    if how == "command":  # a signal that a Python handler took between here and exec would be lost
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        entry.reset_signals(kept=())
    else:
        entry.reset_signals()
    os.write(writer, b"%d" % os.getpid())
    os.close(writer)


def become(
    entry: ModuleType, request: Mapping[str, Any], gate: int, output: int, stacks: int, cwd: int, *namespaces: int
) -> Forked:
    """Turn this fork into what a fresh interpreter is when it starts the task's program. A command is executed here."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.fchdir(cwd)
    os.close(output)
    os.close(cwd)
    env, argv, fresh = request["env"], request["command"], entry.load("warm/fresh")
    is_command = request["how"] == "command"
    if not is_command:
        fresh.show_as(argv, env)
    # The supervisor opens the gate once this is its child and it knows the pid.
    if not os.read(gate, 1):
        os._exit(1)  # the supervisor has given up on this fork
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
    return Forked(request["how"], request["argv"][0], stacks)
