"""A fork server's imports, and the fresh state of its forks: environment, streams, modules and entries in /proc.

The fork server loads this file by path: standard library only.
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
_KEPT: list[mmap.mmap] = []  # memory that /proc reads, which must not be freed


def prepare(options: Mapping[str, Any]) -> dict[str, Any]:
    """Import what the options ask for; return the report: `problem` or None, `seconds`, `modules`."""
    began = time.monotonic()
    problem = import_all(options["tensorflow"], options["preload"], options["path"])
    return {"problem": problem, "seconds": time.monotonic() - began, "modules": imported_modules()}


def import_all(tensorflow: bool, preload: Sequence[str], path: str | None) -> str | None:
    """Import TensorFlow and the modules to preload; return why forks would not work, or None."""
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
    ctypes.CDLL(None).fflush(None)  # else every fork would print what C code has buffered
    if problem := why_unsafe():
        return problem
    # So that the forks' garbage collectors do not write to shared pages, which would copy them. Why not collect first:
    # that takes a tenth of the imports' time, and finds few objects.
    gc.freeze()
    return None


def imported_modules() -> dict[str, str]:
    """Return the imported top-level modules except `__main__`, each with its directory, or ""."""
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


def replace_environment(env: Mapping[str, str]) -> None:
    for name in [name for name in os.environ if name not in env]:
        del os.environ[name]
    for name, value in env.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    time.tzset()


def refresh_streams() -> None:
    """Reopen stdout and stderr on their new descriptors. The objects stay the same, since a logger may hold them."""
    for descriptor, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
        assert stream is not None
        binary: Any = open(descriptor, "wb", 0 if stream.write_through else -1, closefd=False)  # noqa: SIM115
        getattr(binary, "raw", binary).name = stream.name
        settings = stream.encoding, stream.errors, "\n", stream.line_buffering, stream.write_through
        io.TextIOWrapper.__init__(stream, binary, *settings)


def refresh_modules() -> None:
    """Reset what modules have stored at import and each process needs for itself: seeds, ids, keys, times."""
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
    if logging := sys.modules.get("logging"):  # the origin of its records' relativeCreated
        vars(logging)["_startTime"] = time.time_ns() if sys.version_info >= (3, 13) else time.time()
    gc.enable()


def show_as(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Make /proc, and so `ps` and the search for orphans, show this command line and environment.

    The kernel reads them from the process's memory, at addresses that prctl(PR_SET_MM_MAP) sets (man 2 prctl). A
    kernel without that option shows those of the fork server.
    """
    arguments = b"".join(os.fsencode(arg) + b"\0" for arg in argv)
    variables = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in env.items())
    # Private, since /proc does not read them from shared memory (FOLL_ANON in the kernel).
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
