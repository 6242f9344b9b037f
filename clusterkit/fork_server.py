"""The fork server: imports once what every task imports, then forks a task for each request.

It runs inside entry.py, with the tasks' own interpreter: standard library only. It has one thread and reads one
socket: a request is four bytes of length, JSON, and descriptors beside the first byte; the answer is a line of JSON.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import io
import json
import mmap
import os
import signal
import socket
import struct
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

PR_SET_MM, PR_SET_MM_MAP = 35, 14
CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)  # the system call's number
CLONE_PARENT = 0x8000


class Forked(NamedTuple):
    """What a fork has become: the task whose program it has to run."""

    how: str
    target: str
    stacks: int


def serve(entry: ModuleType, descriptor: int, options: Mapping[str, Any]) -> Forked:
    """Import, say so on the descriptor `options["lifeline"]`, then answer requests. Returns in each fork only.

    `descriptor` is the socket; `options` are `tensorflow` (whether to import it and Keras), `preload` (other modules)
    and `path` (the program's directory).
    """
    lifeline = options["lifeline"]
    os.set_inheritable(descriptor, False)
    os.set_inheritable(lifeline, False)
    began = time.monotonic()
    problem = warm_up(options["tensorflow"], options["preload"], options["path"])
    modules = sorted({name.partition(".")[0] for name in sys.modules} - {"__main__"})
    ready = {"problem": problem, "seconds": time.monotonic() - began, "modules": modules}
    os.write(lifeline, json.dumps(ready).encode() + b"\n")
    if problem:
        sys.exit(problem)
    return answer(entry, descriptor, lifeline)


def answer(entry: ModuleType, descriptor: int, lifeline: int) -> Forked:
    """Answer requests until there are no more. Returns in each fork only."""
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
            importlib.import_module("tensorflow")
            with suppress(ImportError):  # TensorFlow does without it
                importlib.import_module("keras")
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


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next request and its descriptors; None at the end."""
    try:
        head, descriptors, _, _ = socket.recv_fds(channel, 4, 8, socket.MSG_CMSG_CLOEXEC)
        body = b""
        size = int.from_bytes(head, "big")
        while len(body) < size and (more := channel.recv(size - len(body))):
            body += more
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
    middle = quiet_fork()
    if middle == 0:
        try:
            pid = quiet_fork()
        except OSError as error:
            os.write(tell, b"%d" % -(error.errno or 0))
            os._exit(1)
        if pid:
            os.write(tell, b"%d" % pid)
            os._exit(0)
        for descriptor in (told, tell, channel.detach()):
            os.close(descriptor)
        return become_or_end(entry, request, descriptors)
    os.close(tell)
    with os.fdopen(told, "rb") as answer:
        os.waitpid(middle, 0)
        pid = int(answer.read(16) or 0)
    if pid <= 0:
        raise OSError(-pid or errno.EAGAIN, "fork")
    return pid


def fork_beside(entry: ModuleType, channel: socket.socket, request: dict[str, Any], descriptors: list[int]) -> int:
    """Make a task that is the supervisor's child from the beginning: twice as fast. Raises OSError.

    Neither Python nor the C library knows of such a fork. So it is for commands only, which exec at once, and where
    nothing was imported that could have threads, and so a lock held by one.
    """
    libc = ctypes.PyDLL(None, use_errno=True)
    pid = int(libc.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")
    if pid == 0:
        become_or_end(entry, request, descriptors)
    return pid


def quiet_fork() -> int:
    """Fork without Python's warning about the threads of native libraries: `unsafe` has looked at them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def become_or_end(entry: ModuleType, request: Mapping[str, Any], descriptors: list[int]) -> Forked:
    """Go on as the task, and never as a second server."""
    try:
        return become(entry, request, *descriptors)
    except BaseException as error:
        os.write(2, f"clusterkit's fork server can't start this task: {error!r}\n".encode(errors="replace"))
        os._exit(1)


def become(entry: ModuleType, request: Mapping[str, Any], gate: int, output: int, stacks: int, cwd: int) -> Forked:
    """Make of this fork what a fresh interpreter is when it begins with the task's program."""
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.fchdir(cwd)
    os.close(output)
    os.close(cwd)
    env, words = request["env"], request["command"]
    is_command = request["how"] == "command"
    if not is_command:
        show_as(words, env)
    # Only now is it the supervisor's child for certain, and known to it: nothing is written to the gate before.
    if not os.read(gate, 1):
        os._exit(1)  # nobody waits for this one any more
    os.close(gate)
    entry.die_with_parent(request["parent"])
    if is_command:
        os.close(stacks)
        entry.execute(words, env)
    replace_environment(env)
    sys.argv[:] = request["argv"]
    refresh_streams()
    refresh_modules()
    return Forked(request["how"], request["argv"][0], stacks)


def replace_environment(env: Mapping[str, str]) -> None:
    """Set just these variables, also for what reads them in C."""
    for name in [name for name in os.environ if name not in env]:
        del os.environ[name]
    for name, value in env.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    time.tzset()


def refresh_streams() -> None:
    """Have the streams look at what their descriptors are now. The objects stay: a logger may hold them."""
    for descriptor, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
        assert stream is not None
        binary: Any = open(descriptor, "wb", 0 if stream.write_through else -1, closefd=False)  # noqa: SIM115
        getattr(binary, "raw", binary).name = stream.name
        settings = stream.encoding, stream.errors, "\n", stream.line_buffering, stream.write_through
        io.TextIOWrapper.__init__(stream, binary, *settings)


def refresh_modules() -> None:
    """What modules remember of the process that imported them and that each process has to have of its own."""
    importlib.invalidate_caches()
    if numpy_random := sys.modules.get("numpy.random"):  # Python's own generator does this by itself
        numpy_random.seed()
    if tempfile := sys.modules.get("tempfile"):
        vars(tempfile)["tempdir"] = None
    if threading := sys.modules.get("threading"):
        threading.main_thread()._native_id = threading.get_native_id()
    if process := sys.modules.get("multiprocessing.process"):
        vars(process)["ORIGINAL_DIR"] = os.getcwd()
        process.current_process().authkey = os.urandom(32)
    if logging := sys.modules.get("logging"):  # what its records' relativeCreated counts from
        vars(logging)["_startTime"] = time.time_ns() if sys.version_info >= (3, 13) else time.time()
    gc.enable()


def show_as(words: Sequence[str], env: Mapping[str, str]) -> None:
    """Have /proc, and so `ps` and the search for strays, show this command line and environment.

    The kernel reads them from the process's memory; prctl(PR_SET_MM_MAP) tells it from where (man 2 prctl). A kernel
    built without it shows the fork server's own.
    """
    arguments = b"".join(os.fsencode(word) + b"\0" for word in words)
    variables = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in env.items())
    # Private: of what is shared, /proc shows nothing here (FOLL_ANON in the kernel).
    memory = mmap.mmap(-1, len(arguments) + len(variables) + 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(arguments + variables)
    _KEPT.append(memory)
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()

    def field(number: int) -> int:  # as proc(5) numbers them
        return int(fields[number - 3])

    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    places = (
        field(26), field(27), field(45), field(46), field(47), libc.sbrk(0), field(28),
        at, at + len(arguments), at + len(arguments), at + len(arguments) + len(variables),
        0, 0, 0xFFFFFFFF,
    )  # fmt: skip
    layout = struct.pack("=11Q Q 2I", *places)
    libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.c_char_p(layout), ctypes.c_ulong(len(layout)), 0)


_KEPT: list[mmap.mmap] = []  # what /proc reads has to stay where it is
