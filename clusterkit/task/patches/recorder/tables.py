"""Records which tables and JSON documents a task writes, such as a log, so that the exam can compare what is left.

Files that C code opens are not recorded, except those of `tf.io.gfile`, as which Keras 2's CSVLogger writes its log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

MOST = 20  # the maximum number of recorded tables
SUFFIXES = (".csv", ".tsv", ".jsonl", ".json")
REMOTE = "://"  # a part of the names of files that TensorFlow has on other machines
MANIFEST = "manifest.json"  # a part of each checkpoint of clusterkit.training


class Tables:
    """The tables that this process has opened for writing, or replaced by a file with another name."""

    def __init__(self, output: Any) -> None:
        self.output = output
        self.known: set[tuple[str, bool]] = set()

    def opening(self, path: Any, flags: int) -> None:
        """Record the size of a table that is about to be opened for writing, before the task changes it."""
        name = os.fsdecode(path)
        if name.endswith(SUFFIXES) and REMOTE not in name:
            self.add(name, bool(flags & os.O_APPEND))

    def replaced(self, source: Any, target: Any, *_: object, **__: object) -> None:
        """Record a table that a rename has replaced."""
        name = os.fsdecode(target)
        if name.endswith(SUFFIXES) and REMOTE not in name:
            self.add(name, False)

    def add(self, name: str, appends: bool) -> None:
        path = os.path.realpath(name)
        records = os.path.join(os.path.realpath(self.output.directory), "")
        if os.path.basename(path) == MANIFEST or path.startswith(records):
            return
        if (path, appends) in self.known or len(self.known) >= MOST or not self.output.is_open:
            return
        self.known.add((path, appends))
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        self.output.write("table", path=path, size=size, appends=appends)


_tables: list[Tables] = []


def tables_of(load: Any) -> Tables:
    """Return the tables of this process, which the first call creates."""
    if not _tables:
        _tables.append(Tables(load("task/patches/recorder/output").output))
    return _tables[0]


def recorder_for(load: Any) -> Callable[..., None]:
    """Return a function that calls another one for a file, unless the file is one of clusterkit's."""
    output, phases = load("task/patches/recorder/output").output, load("task/patches/phases").phases

    def recorded(call: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        if not phases.is_off:
            with phases.own():
                output.guarded("A table is not recorded", partial(call, *args, **kwargs))

    return recorded


def watch_gfile(module: Any, load: Any) -> None:
    """Patch TensorFlow's Python functions for files, which open them in C++ code with the first write."""
    hook, tables, recorded = load("task/patches/hook"), tables_of(load), recorder_for(load)

    def opening(file: Any) -> None:
        if file._writable_file is None:
            tables.opening(file.name, os.O_APPEND if "a" in file.mode else 0)

    hook.before(module.FileIO, "_prewrite_check", partial(recorded, opening))
    hook.after(module, "rename_v2", lambda src, dst, overwrite=False: recorded(tables.replaced, src, dst))


def watch_os(module: Any, load: Any) -> None:
    """Watch the files of this process from its start, by Python's audit events. The module is not patched."""
    hook, tables, recorded = load("task/patches/hook"), tables_of(load), recorder_for(load)

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike) and args[2] & (os.O_WRONLY | os.O_RDWR):
            recorded(tables.opening, args[0], args[2])

    for name in ("rename", "replace"):
        hook.after(os, name, partial(recorded, tables.replaced))
    sys.addaudithook(audit)
