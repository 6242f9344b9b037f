"""Records which tables and JSON documents a task writes, such as a log, so that the exam can compare what is left.

Files that C code opens are not recorded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

MOST = 20  # the maximum number of recorded tables
SUFFIXES = (".csv", ".tsv", ".jsonl", ".json")
MANIFEST = "manifest.json"  # a part of each checkpoint of clusterkit.training


class Tables:
    """The tables that this process has opened for writing, or replaced by a file with another name."""

    def __init__(self, output: Any) -> None:
        self.output = output
        self.known: set[tuple[str, bool]] = set()

    def opening(self, path: Any, flags: int) -> None:
        """Record the size of a table that is about to be opened for writing, before the task changes it."""
        name = os.fsdecode(path)
        if name.endswith(SUFFIXES):
            self.add(name, bool(flags & os.O_APPEND))

    def replaced(self, source: Any, target: Any, *_: object, **__: object) -> None:
        """Record a table that a rename has replaced."""
        name = os.fsdecode(target)
        if name.endswith(SUFFIXES):
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


def watch_os(module: Any, load: Any) -> None:
    """Watch the files of this process from its start, by Python's audit events. The module is not patched."""
    hook, output = load("task/patches/hook"), load("task/patches/recorder/output").output
    phases, tables = load("task/patches/phases").phases, Tables(output)

    def recorded(call: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        if not phases.is_off:  # else the file is one of clusterkit's
            with phases.own():
                output.guarded("A table is not recorded", partial(call, *args, **kwargs))

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike) and args[2] & (os.O_WRONLY | os.O_RDWR):
            recorded(tables.opening, args[0], args[2])

    for name in ("rename", "replace"):
        hook.after(os, name, partial(recorded, tables.replaced))
    sys.addaudithook(audit)
