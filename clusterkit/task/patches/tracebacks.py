"""Keeps clusterkit's frames out of the stacks that TensorFlow prints: of a graph's nodes, and of AutoGraph's code.

Loaded by path: standard library only, and no module that entry.py has not imported. Those of Python are entry.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def hide_in_graphs(tf_stack: Any, load: Any) -> None:
    """Add clusterkit's files to those that TensorFlow's own filter leaves out of every stack, in each thread."""
    names = own_files(load)
    tf_stack.SentinelFilter.get_filtered_filenames = lambda self: names
    load("task/patches/hook").after(tf_stack.SentinelFilter, "__init__", lambda self: self.update())
    for filters in list(tf_stack._source_filter_stacks.values()):  # a fork server has recorded stacks already
        filters[0].update()


def hide_in_user_code(error_utils: Any, load: Any) -> None:
    """Leave them out of "in user code:" too."""
    names, plain = own_files(load), error_utils._stack_trace_inside_mapped_code

    def shown(tb: Sequence[Any], *args: Any) -> Any:
        return plain([frame for frame in tb if frame[0] not in names] or tb, *args)

    error_utils._stack_trace_inside_mapped_code = shown


def own_files(load: Callable[[str], Any]) -> frozenset[str]:
    """The files whose frames are clusterkit's: a fork server's, where it is one, too."""
    entry: dict[str, Any] = load.__globals__  # type: ignore[attr-defined]
    os, found = entry["os"], set[str]()
    for directory in entry["OURS"]:
        for place, _, files in os.walk(directory):
            found.update(os.path.join(place, file) for file in files if file.endswith(".py"))
    return frozenset(found)
