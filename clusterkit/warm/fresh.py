"""Imports a fork server's modules, and gives each fork the state of a new process: environment, streams, seeds, /proc.

The fork server loads this file by path, so the file imports only the standard library.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import io
import mmap
import os
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PR_SET_MM, PR_SET_MM_MAP = 35, 14
_KEPT: list[mmap.mmap] = []  # memory that must not be freed, since the kernel reads /proc entries from it


def prepare(options: Mapping[str, Any]) -> dict[str, Any]:
    """Import the modules that the options name. Return a report: `problem` (or None), `seconds`, imported `modules`."""
    began = time.monotonic()
    problem = import_all(options["tensorflow"], options["preload"], options["path"])
    return {"problem": problem, "seconds": time.monotonic() - began, "modules": imported_modules()}


def import_all(tensorflow: bool, preload: Sequence[str], path: str | None) -> str | None:
    """Import TensorFlow, if requested, and the modules in `preload`. Return why forks would fail, or None."""
    has_first_path = not getattr(sys.flags, "safe_path", False)
    if has_first_path:
        del sys.path[0]  # the directory of entry.py
    gc.disable()  # saves time: imports create many objects, but little garbage
    try:
        if tensorflow:
            importlib.import_module("tensorflow")  # also imports Keras: Keras 2 if TF_USE_LEGACY_KERAS is set
        if has_first_path:
            sys.path.insert(0, path or "")  # the directory of the program's own modules
        for name in preload:
            importlib.import_module(name)
    except Exception as error:
        return f"the import failed: {type(error).__name__}: {error}"
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # otherwise, each fork would print the buffered output of C code again
    if problem := why_unsafe():
        return problem
    # Exclude all existing objects from garbage collection, which would write to memory that forks share with the
    # server, so that the kernel would copy this memory. `gc.collect` is not called first, since it would take a tenth
    # of the imports' time and free few objects.
    gc.freeze()
    return None


def imported_modules() -> dict[str, str]:
    """Map each imported top-level module, except `__main__`, to its directory, or to "" if the module has no file."""
    places = {}
    for name, module in list(sys.modules.items()):
        if "." not in name and name != "__main__":
            attrs = getattr(module, "__dict__", {})
            places[name] = os.path.dirname(next(iter(attrs.get("__path__") or ()), None) or attrs.get("__file__") or "")
    return places


def why_unsafe() -> str | None:
    """Return a clause that explains why a fork of this process might not work; None if forks are safe."""
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


def replace_environment(env: Mapping[str, str]) -> None:
    for name in [name for name in os.environ if name not in env]:
        del os.environ[name]
    for name, value in env.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    time.tzset()


def refresh_streams() -> None:
    """Connect stdout and stderr to the new descriptors 1 and 2. Keep the stream objects, which loggers may refer to."""
    for descriptor, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
        assert stream is not None
        binary: Any = open(descriptor, "wb", 0 if stream.write_through else -1, closefd=False)  # noqa: SIM115
        getattr(binary, "raw", binary).name = stream.name
        settings = stream.encoding, stream.errors, "\n", stream.line_buffering, stream.write_through
        io.TextIOWrapper.__init__(stream, binary, *settings)


def refresh_modules() -> None:
    """Reset seeds, ids, keys and times that imported modules have stored, and that must differ between processes."""
    importlib.invalidate_caches()
    if numpy_random := sys.modules.get("numpy.random"):  # unlike `random`, NumPy does not reseed after a fork
        numpy_random.seed()
    if tempfile := sys.modules.get("tempfile"):
        vars(tempfile)["tempdir"] = None
    if threading := sys.modules.get("threading"):
        threading.main_thread()._native_id = threading.get_native_id()
    if process := sys.modules.get("multiprocessing.process"):
        vars(process)["ORIGINAL_DIR"] = os.getcwd()
        process.current_process().authkey = os.urandom(32)
    if logging := sys.modules.get("logging"):  # log records contain the time since `_startTime`
        vars(logging)["_startTime"] = time.time_ns() if sys.version_info >= (3, 13) else time.time()
    gc.enable()


def show_as(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Make /proc show this command line and environment to `ps` and to the search for orphaned processes.

    The kernel reads both from the process's memory, at addresses that prctl(PR_SET_MM_MAP) sets (man 2 prctl). If the
    kernel lacks this option, /proc shows the command line and environment of the fork server instead.
    """
    arguments = b"".join(os.fsencode(arg) + b"\0" for arg in argv)
    variables = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in env.items())
    # The mapping is private, since the kernel does not read arguments from shared memory (FOLL_ANON).
    memory = mmap.mmap(-1, len(arguments) + len(variables) + 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(arguments + variables)
    _KEPT.append(memory)
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()

    def field(number: int) -> int:  # `number` is the field's number in proc(5)
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
