"""Imports modules in a fork server, and checks that it can fork afterwards. Loaded by path: standard library only."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any


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
