"""Reports the end of a coordinator's program, and keeps its process from hanging at exit."""

from __future__ import annotations

import atexit
from collections import deque
from contextlib import suppress
from typing import Any

# The methods of TensorFlow's context that add or look up a function.
LOOKUPS = (
    "add_c_function", "add_function_def", "get_c_function", "get_function_def", "has_function", "list_function_names",
)  # fmt: skip


def report_end(module: Any, load: Any) -> None:
    """Patch the coordinator to report that the program has ended, since the coordinator's `__del__` can then hang.

    Python calls `__del__` when the interpreter exits, or when the function that created the coordinator returns.
    """
    kind, write = module.ClusterCoordinator, load("task/patches/steps").steps.write
    delete = kind.__del__

    def __del__(coordinator: Any) -> None:
        write("end", '"begun":true')
        try:
            delete(coordinator)
        finally:
            write("end", '"begun":false')

    atexit.register(write, "end", '"begun":true')
    load("task/patches/hook").replace(kind, "__del__", __del__)


def disable_destructor(module: Any, load: Any) -> None:
    """At exit, disable the coordinator's `__del__`, which could wait forever for a lock (see training/server.py)."""
    told = load("task/patches/told")

    def disable() -> None:
        module.ClusterCoordinator.__del__ = lambda self: None
        told.effect("coordinator-end", load)

    atexit.register(disable)


def delay_removals(module: Any, load: Any) -> None:
    """Delay the removal of garbage-collected functions until the coordinator next adds or looks up a function.

    Each removal waits for every server. At the end of a program, the removal of a hundred functions or more can take
    several seconds (TensorFlow 2.21), and is useless because the servers are about to end.
    """
    kind, hook, told = module.Context, load("task/patches/hook"), load("task/patches/told")
    plain, dropped = kind.remove_function, deque[tuple[int, Any]]()

    def remove_function(context: Any, name: Any) -> None:
        dropped.append((id(context._handle), name))
        told.effect("coordinator-functions", load)

    def remove_dropped(context: Any, *args: object, **kwargs: object) -> None:
        with suppress(IndexError):  # the queue is empty
            while True:  # other threads may add names while this thread removes names
                handle, name = dropped.popleft()
                if handle == id(context._handle):  # False if the function belonged to a context that has been replaced
                    # TensorFlow itself ignores a failure to remove a function.
                    with suppress(Exception):
                        plain(context, name)

    hook.replace(kind, "remove_function", remove_function)
    for name in LOOKUPS:
        if hasattr(kind, name):
            hook.before(kind, name, remove_dropped)
