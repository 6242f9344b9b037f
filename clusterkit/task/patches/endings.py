"""Reports the end of a coordinator's program, and lets its process end then, also without `clusterkit.training`.

Loaded by path: standard library only.
"""

from __future__ import annotations

import atexit
from collections import deque
from contextlib import suppress
from typing import Any

# The methods of TensorFlow's context that depend on which functions it has.
LOOKS = (
    "add_c_function", "add_function_def", "get_c_function", "get_function_def", "has_function", "list_function_names",
)  # fmt: skip


def report_end(module: Any, load: Any) -> None:
    """Report that the program has ended: its process can hang after that, when the coordinator is deleted.

    That happens while the interpreter exits, or when the function returns that created the coordinator.
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


def end_without_workers(module: Any, load: object) -> None:
    """Skip the coordinator's farewell to its workers at exit, as `training.serve()` does, which explains why."""
    atexit.register(setattr, module.ClusterCoordinator, "__del__", lambda self: None)


def remove_functions_later(module: Any, load: Any) -> None:
    """Have the coordinator remove the functions that it has dropped when it next adds or looks for one.

    A coordinator waits for every server whenever a traced function is garbage-collected. Most are when the program
    ends, a hundred or more one by one, which takes up to several seconds (TensorFlow 2.21) and is of no use to servers
    that are about to be ended.
    """
    kind, hook = module.Context, load("task/patches/hook")
    plain, dropped = kind.remove_function, deque[tuple[int, Any]]()

    def remove_function(context: Any, name: Any) -> None:
        dropped.append((id(context._handle), name))

    def remove_dropped(context: Any, *args: object, **kwargs: object) -> None:
        with suppress(IndexError):  # none is left
            while True:  # others may be dropped meanwhile, by any thread
                handle, name = dropped.popleft()
                if handle == id(context._handle):  # else they went with a context that was replaced
                    # A failure would have been ignored, since functions are removed when they are garbage-collected.
                    with suppress(Exception):
                        plain(context, name)

    hook.replace(kind, "remove_function", remove_function)
    for name in LOOKS:
        if hasattr(kind, name):
            hook.before(kind, name, remove_dropped)
