"""Records which files a task saves, which it renames before they are on the disk, and which old model it writes over.

Loaded by path: standard library only. TensorFlow's C++ code writes its own checkpoints, and is not seen here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

MOST = 50  # files of each kind
MODEL = "saved_model.pb"  # TensorFlow writes it last, beside the variables, and renames it: `saved_model.pb.tmp12ab`


class Files:
    """The files that this process has opened to write them, and those that it has synced."""

    def __init__(self, output: Any) -> None:
        self.output = output
        self.written: set[str] = set()
        self.synced: set[str] = set()
        self.renamed: set[tuple[str, bool]] = set()  # that was recorded
        self.exporting: Callable[[], int] = int  # the number of the export that has begun; 0 outside of exports
        self.exported: dict[str, int] = {}  # the last export that wrote a file
        self.replaced: set[str] = set()

    def opened(self, path: str) -> None:
        """A file is about to be opened to be written."""
        self.synced.discard(text := os.path.realpath(path))
        self.write(text)
        if number := self.exporting():
            self.export(text, number)

    def export(self, path: str, number: int) -> None:
        """Record that a model is written over an old one. Weights alone are checkpoints, which may be read again."""
        directory, name = os.path.split(path)
        model = os.path.join(directory, MODEL) if name.startswith(f"{MODEL}.tmp") else path
        last, self.exported[model] = self.exported.get(model), number
        if last == number or model.endswith(".weights.h5") or not os.path.isfile(model) or not os.path.getsize(model):
            return
        if model not in self.replaced and len(self.replaced) < MOST:
            self.replaced.add(model)
            self.output.write("replaced", path=directory if name != os.path.basename(model) else model)

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
    files.exporting = lambda: phases.counts.get("exporting", 0) if phases.inside("exporting") else 0

    def recorded(call: Callable[..., None]) -> Callable[..., None]:
        def patched(*args: Any, **kwargs: Any) -> None:
            with phases.own():  # the record is no file of the program's
                output.guarded("A file is not recorded", partial(call, *args, **kwargs))

        return patched

    for name in ("fsync", "fdatasync"):
        hook.before(module, name, recorded(files.sync))
    for name in ("rename", "replace"):
        hook.after(module, name, recorded(files.rename))
