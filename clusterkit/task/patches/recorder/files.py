"""Records the files that a task saves, reads, renames (and if they were synced before), and overwrites with a model.

Checkpoints that TensorFlow writes in C++ code are not recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

MOST = 50  # the maximum number of recorded files of each kind
MODEL = "saved_model.pb"  # the last file that a save of a model writes, first as `saved_model.pb.tmp…`

# Part of the path of a directory for what the other workers of a gang save where the chief's file alone is kept.
# Keras 2 and task/patches/callbacks.py make such directories and remove them.
TEMPORARY = f"{os.sep}workertemp_"


class Files:
    """The files that this process has opened for writing, synced and renamed."""

    def __init__(self, output: Any) -> None:
        self.output = output
        self.written: set[str] = set()
        self.synced: set[str] = set()
        self.renamed: set[tuple[str, bool]] = set()  # recorded renames: the new path, and True if the file was synced
        self.exporting: Callable[[], int] = int  # returns the number of the current export; 0 if there is none
        self.exported: dict[str, int] = {}  # maps a file to the number of the last export that wrote it
        self.replaced: set[str] = set()
        self.read: set[str] = set()

    def opened(self, path: str) -> None:
        """Record that a file is about to be opened for writing."""
        self.synced.discard(text := os.path.realpath(path))
        self.write(text)
        if number := self.exporting():
            self.export(text, number)

    def export(self, path: str, number: int) -> None:
        """If an export overwrites an old model, record this. Ignore files of weights, which are checkpoints."""
        if TEMPORARY in path:
            return
        directory, name = os.path.split(path)
        model = os.path.join(directory, MODEL) if name.startswith(f"{MODEL}.tmp") else path
        last, self.exported[model] = self.exported.get(model), number
        if last == number or model.endswith(".weights.h5") or not os.path.isfile(model) or not os.path.getsize(model):
            return
        if model not in self.replaced and len(self.replaced) < MOST:
            self.replaced.add(model)
            self.output.write("replaced", path=directory if name != os.path.basename(model) else model)

    def write(self, path: str) -> None:
        """Record the path of a saved file, unless it has already been recorded."""
        if path not in self.written and len(self.written) < MOST:
            self.written.add(path)
            self.output.write("file", path=path)

    def reading(self, path: str) -> None:
        """Record that a file of a checkpoint is about to be read."""
        text = os.path.realpath(path)
        if text not in self.read and len(self.read) < MOST:
            self.read.add(text)
            self.output.write("read", path=text)

    def sync(self, file: Any, *_: object) -> None:
        """Store the path of a file that is about to be synced to disk."""
        if self.output.is_open:
            number = file if isinstance(file, int) else file.fileno()
            self.synced.add(os.readlink(f"/proc/self/fd/{number}"))

    def rename(self, source: Any, target: Any, *_: object, **__: object) -> None:
        """Record that a saved file has been renamed, and whether it had been synced."""
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
    """Patch `os` to record the files of this process from its start."""
    hook, output = load("task/patches/hook"), load("task/patches/recorder/output").output
    files, phases = Files(output), load("task/patches/phases").phases
    phases.opened, phases.reading = files.opened, files.reading
    files.exporting = lambda: phases.counts.get("exporting", 0) if phases.inside("exporting") else 0

    def recorded(call: Callable[..., None]) -> Callable[..., None]:
        def patched(*args: Any, **kwargs: Any) -> None:
            with phases.own():  # do not record files of the record itself
                output.guarded("A file is not recorded", partial(call, *args, **kwargs))

        return patched

    for name in ("fsync", "fdatasync"):
        hook.before(module, name, recorded(files.sync))
    for name in ("rename", "replace"):
        hook.after(module, name, recorded(files.rename))
