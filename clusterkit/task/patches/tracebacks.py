"""Removes clusterkit's frames from the stacks that a program prints and that TensorFlow records for graph nodes.

This file imports only standard modules that entry.py has already imported. entry.py itself removes the frames from the
exception that ends the program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any


def hide_in_graphs(tf_stack: Any, load: Any) -> None:
    """Patch SentinelFilter, by which TensorFlow removes frames from stacks, to remove clusterkit's frames too."""
    names = own_files(load)
    tf_stack.SentinelFilter.get_filtered_filenames = lambda self: names
    load("task/patches/hook").after(tf_stack.SentinelFilter, "__init__", lambda self: self.update())
    for filters in list(tf_stack._source_filter_stacks.values()):  # a fork server may have created filters already
        filters[0].update()


def hide_in_prints(traceback: Any, load: Any) -> None:
    """Patch Python's `traceback`, which AutoGraph, TensorFlow, Keras and logging use, to skip clusterkit's frames."""
    ours = load.__globals__["OURS"]
    for name in ("walk_tb", "_walk_tb_with_full_positions", "walk_stack"):
        if hasattr(traceback, name):
            setattr(traceback, name, skipping(ours, getattr(traceback, name)))


def hide_in_threads(threading: Any, load: Any) -> None:
    """Patch `threading.excepthook` to remove clusterkit's frames from the exception that ends a thread."""
    plain = threading.excepthook

    def excepthook(args: Any) -> None:
        if args.exc_value is not None:
            load.__globals__["hide_own_frames"](args.exc_value)
            args = type(args)((args.exc_type, args.exc_value, args.exc_value.__traceback__, args.thread))
        plain(args)

    threading.excepthook = excepthook


def skipping(ours: tuple[str, ...], plain: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Iterable[Any]]:
    """Return a function that yields the frames that `plain` yields, except those of files in the directories `ours`."""

    def walk(first: Any) -> Iterable[Any]:
        entries = plain(first)
        if first is None:  # then `plain` looks up its caller's frame, and a generator would be that caller
            return entries
        return (each for each in entries if not each[0].f_code.co_filename.startswith(ours))

    return walk


def own_files(load: Any) -> frozenset[str]:
    """Return the paths of clusterkit's files that may be on the stack of a task."""
    walked = [entry for directory in load.__globals__["OURS"] for entry in os.walk(directory)]
    return frozenset(os.path.join(place, file) for place, _, files in walked for file in files if file.endswith(".py"))
