"""Records which files of checkpoints a task writes, and which it renames before they are on the disk.

Loaded by path: standard library only. TensorFlow's C++ code writes its own checkpoints, and is not seen here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

MOST = 50  # files of each kind


class Files:
    """The files that this process has opened to write them, and those that it has synced."""

    def __init__(self, output: Any) -> None:
        self.output = output
        self.written: set[str] = set()
        self.synced: set[str] = set()
        self.renamed: set[tuple[str, bool]] = set()  # that was recorded

    def opened(self, path: str) -> None:
        """A file is about to be opened to be written."""
        self.synced.discard(text := os.path.realpath(path))
        self.write(text)

    def write(self, path: str) -> None:
        """Record a file once."""
        if path not in self.written and len(self.written) < MOST:
            self.written.add(path)
            self.output.write("file", path=path)

    def sync(self, file: Any, *_: object) -> None:
        """A file is about to be written to the disk."""
        if self.output.is_open:
            number = file if isinstance(file, int) else file.fileno()
            self.synced.add(os.readlink(f"/proc/self/fd/{number}"))

    def rename(self, source: Any, target: Any, *_: object, **__: object) -> None:
        """A file has got its new name."""
        if not self.output.is_open:
            return
        before, after = (os.path.realpath(os.fsdecode(path)) for path in (source, target))
        if before not in self.written:
            return
        self.write(after)
        is_synced = before in self.synced
        (self.synced.add if is_synced else self.synced.discard)(after)
        if (after, is_synced) not in self.renamed:
            self.renamed.add((after, is_synced))
            self.output.write("renamed", path=after, synced=is_synced)


def watch(module: Any, load: Any) -> None:
    """Follow the files of this process from its first code on."""
    hook, output = load("task/patches/hook"), load("task/patches/recorder_output").output
    files, phases = Files(output), load("task/patches/phases").phases
    phases.opened = files.opened

    def recorded(call: Callable[..., None]) -> Callable[..., None]:
        def patched(*args: Any, **kwargs: Any) -> None:
            with phases.own():  # the record is no file of the program's
                output.guarded("A file is not recorded", partial(call, *args, **kwargs))

        return patched

    for name in ("fsync", "fdatasync"):
        hook.before(module, name, recorded(files.sync))
    for name in ("rename", "replace"):
        hook.after(module, name, recorded(files.rename))
