"""The fork server: imports once what every task imports, then forks a task for each request.

It runs inside entry.py, with the tasks' own interpreter: standard library only. It has one thread and reads one
socket: a request is four bytes of length, JSON, and descriptors beside the first byte; the answer is a line of JSON.
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
    """What a fork has become: the task whose program it has to run."""

    how: str
    target: str
    stacks: int


def serve(entry: ModuleType, descriptor: int, told: str) -> Forked:
    """Import, say so on the descriptor `lifeline`, then answer requests. Returns in each fork only.

    `descriptor` is the socket. `told` is JSON: `lifeline`, `tensorflow` (whether to import it and Keras), `preload`
    (other modules) and `path` (the program's directory).
    """
    options = json.loads(told)
    lifeline = options["lifeline"]
    os.set_inheritable(descriptor, False)
    os.set_inheritable(lifeline, False)
    entry.load("warm/fresh")  # before anything is imported, since it is needed in every fork
    ready = made_ready(options)
    os.write(lifeline, json.dumps(ready).encode() + b"\n")
    if ready["problem"]:
        sys.exit(ready["problem"])
    return answer(entry, descriptor, lifeline)


def made_ready(options: Mapping[str, Any]) -> dict[str, Any]:
    """Import what the options ask for; what a fork server tells of it: `problem`, `seconds`, `modules`."""
    began = time.monotonic()
    problem = warm_up(options["tensorflow"], options["preload"], options["path"])
    return {"problem": problem, "seconds": time.monotonic() - began, "modules": imported()}


def answer(entry: ModuleType, descriptor: int, lifeline: int) -> Forked:
    """Answer requests until there are no more. Returns in each fork only."""
    entry.load("task/join")  # once, and not in every fork that needs it
    with socket.socket(fileno=descriptor) as channel:
        while (request := receive(channel)) is not None:
            if forked := fork(entry, channel, *request):
                os.close(lifeline)
                return forked
    # The supervisor is gone, or needs no more tasks. What was imported was imported for the forks.
    os._exit(0)


def warm_up(tensorflow: bool, preload: Sequence[str], path: str | None) -> str | None:
    """Import what is asked for; return why no task can be forked then, or None."""
    has_place = not getattr(sys.flags, "safe_path", False)
    if has_place:
        del sys.path[0]  # this file's directory
    gc.disable()  # it would look through ever more objects, and find none of them garbage
    try:
        if tensorflow:
            importlib.import_module("tensorflow")  # which imports the Keras that TF_USE_LEGACY_KERAS chooses
        if has_place:
            sys.path.insert(0, path or "")  # the program's directory, where its own modules are
        for name in preload:
            importlib.import_module(name)
    except Exception as error:
        return f"the import failed: {type(error).__name__}: {error}"
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # what C code has printed is not to be printed by every fork
    if problem := unsafe():
        return problem
    # Neither the forks' collectors nor their reference counts of what is garbage touch the shared pages.
    gc.collect()
    gc.freeze()
    return None


def imported() -> dict[str, str]:
    """The top-level modules that there are, but for `__main__`, and the directory that each comes from, if any."""
    places = {}
    for name, module in list(sys.modules.items()):
        if "." not in name and name != "__main__":
            known = getattr(module, "__dict__", {})
            places[name] = os.path.dirname(next(iter(known.get("__path__") or ()), None) or known.get("__file__") or "")
    return places


def unsafe() -> str | None:
    """Why a fork of this process might not work; None where it will."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        names = ", ".join(t.name for t in threading.enumerate()[1:])
        return f"what is preloaded has started threads ({names}), which no fork has"
    context = sys.modules.get("tensorflow.python.eager.context")
    if context is not None and context._context is not None and context._context._initialized:
        return "what is preloaded has initialized TensorFlow's devices, which can't be used after a fork"
    links = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    if any(link.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")) for link in links):
        return "what is preloaded has opened a GPU, which can't be used after a fork"
    return None


def receive(channel: socket.socket, within: float | None = None) -> tuple[dict[str, Any], list[int]] | None:
    """The next request and its descriptors; None at the end. Raises TimeoutError where it takes more seconds."""
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
    """Fork a task and answer its pid. Returns a value in the task alone."""
    try:
        beside = request["how"] == "command" and CLONE is not None and not sys.modules.get("threading")
        made = (fork_beside if beside else fork_twice)(entry, channel, request, descriptors)
    except OSError as error:
        answer = {"errno": error.errno}
    else:
        if isinstance(made, Forked):
            return made
        answer = {"pid": made}
    for descriptor in descriptors:
        os.close(descriptor)
    with suppress(ConnectionError):
        channel.sendall(json.dumps(answer).encode() + b"\n")
    return None


def fork_twice(
    entry: ModuleType, channel: socket.socket, request: dict[str, Any], descriptors: list[int]
) -> Forked | int:
    """Make a task whose parent ends at once, so that the supervisor, a subreaper, inherits it. Raises OSError.

    Returns its pid; in the task, what it has to run.
    """
    told, tell = os.pipe()
    try:
        middle = quiet_fork()
    except OSError:
        os.close(told)
        os.close(tell)
        raise
    if middle == 0:
        try:
            pid = quiet_fork()
        except OSError as error:
            os.write(tell, b"%d" % -(error.errno or 0))
            os._exit(1)
        if pid:
            os._exit(0)
        for descriptor in (told, channel.detach()):
            os.close(descriptor)
        return become_or_end(entry, request, descriptors, tell)
    os.close(tell)
    os.waitpid(middle, 0)
    return heard(told)


def fork_beside(entry: ModuleType, channel: socket.socket, request: dict[str, Any], descriptors: list[int]) -> int:
    """Make a task that is the supervisor's child from the beginning: twice as fast. Raises OSError.

    Neither Python nor the C library knows of such a fork. So it is for commands only, which exec at once, and where
    nothing was imported that could have threads, and so a lock held by one.
    """
    libc = ctypes.PyDLL(None, use_errno=True)
    told, tell = os.pipe()
    pid = int(libc.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        become_or_end(entry, request, descriptors, tell)
    os.close(tell)
    if pid < 0:
        os.close(told)
        raise OSError(ctypes.get_errno(), "clone")
    return heard(told)


def heard(told: int) -> int:
    """The pid that a task tells once it takes signals. Raises OSError where it is minus an error, or nothing."""
    with os.fdopen(told, "rb") as answer:
        pid = int(answer.read() or 0)
    if pid <= 0:
        raise OSError(-pid or errno.EAGAIN, "fork")
    return pid


def quiet_fork() -> int:
    """Fork without Python's warning about the threads of native libraries: `unsafe` has looked at them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def become_or_end(entry: ModuleType, request: Mapping[str, Any], descriptors: list[int], tell: int) -> Forked:
    """Go on as the task, and never as a second server."""
    try:
        announce(entry, request["how"], tell)
        return become(entry, request, *descriptors)
    except BaseException as error:
        os.write(2, f"clusterkit's fork server can't start this task: {error!r}\n".encode(errors="replace"))
        os._exit(1)


def announce(entry: ModuleType, how: str, tell: int) -> None:
    """Tell this task's pid: from now on it has a group of its own, which takes every signal as a program does."""
    os.setsid()
    if how == "command":  # a handler of Python's that was called between here and exec would be lost
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        entry.reset_signals(kept=())
    else:
        entry.reset_signals()
    os.write(tell, b"%d" % os.getpid())
    os.close(tell)


def become(
    entry: ModuleType, request: Mapping[str, Any], gate: int, output: int, stacks: int, cwd: int, *namespaces: int
) -> Forked:
    """Make of this fork what a fresh interpreter is when it begins with the task's program."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.fchdir(cwd)
    os.close(output)
    os.close(cwd)
    env, words, fresh = request["env"], request["command"], entry.load("warm/fresh")
    is_command = request["how"] == "command"
    if not is_command:
        fresh.show_as(words, env)
    # Only now is it the supervisor's child for certain, and known to it: nothing is written to the gate before.
    if not os.read(gate, 1):
        os._exit(1)  # nobody waits for this one any more
    os.close(gate)
    if namespaces:
        entry.load("task/join").join_or_end(namespaces)
    entry.die_with_parent(request["parent"])
    entry.pin_to_cores(env)
    if is_command:
        os.close(stacks)
        entry.exec_command(words, env)
    fresh.replace_environment(env)
    sys.argv[:] = request["argv"]
    fresh.refresh_streams()
    fresh.refresh_modules()
    return Forked(request["how"], request["argv"][0], stacks)
