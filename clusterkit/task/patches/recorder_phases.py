"""The phases of a program at which `clusterkit exam` breaks something, and the wait for that.

Loaded by path: standard library only. When a task reaches a phase, it records that; at one that it is to be held at it
waits, at exactly this place, for the signal that ends or stops it. A hook that fails changes nothing.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any

HOLD = 1.5  # seconds that a task waits at a phase; a signal that ends it ends them
MOST_FILES = 50
TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT
WRITES = {  # TensorFlow's operations, in the module of each and in tf.raw_ops
    **dict.fromkeys(("save_v2", "SaveV2"), "saving-write"),
    **dict.fromkeys(("merge_v2_checkpoints", "MergeV2Checkpoints"), "saving-rename"),
}
SAVES = ("save", "write")
LOADS = ("restore", "read")


class Phases:
    """The phases that this process has reached, and those at which it is to wait: `hold=worker-1/saving-rename`."""

    def __init__(self, output: Any, words: Sequence[str]) -> None:
        self.output = output
        task = output.name.rpartition(".")[0]
        held = [word.removeprefix("hold=") for word in words if word.startswith("hold=")]
        self.held = {phase for name, _, phase in (each.partition("/") for each in held) if name in (task, "all")}
        self.is_watched = "phases" in words
        self.reached: set[str] = set()
        self.files: set[str] = set()  # that were opened to be written, or replaced
        self.saves = 0  # how many saves are in progress
        self.directory = os.path.realpath(os.environ.get("CLUSTERKIT_CHECKPOINT_DIR", os.devnull))

    def reach(self, phase: str) -> None:
        """Record that a phase is reached for the first time, and wait if the task is to be held there."""
        if phase in self.reached or not self.output.is_open:
            return
        self.reached.add(phase)
        self.output.write("phase", phase=phase)
        if phase in self.held:
            time.sleep(HOLD)

    def holds(self, name: str, *args: Any) -> None:
        """Take an audit event: a call of the system on a file of a checkpoint that is being written."""
        if name == "open" and len(args) == 3 and isinstance(args[2], int) and args[2] & TO_WRITE:
            path, phase = args[0], "saving-open"
        elif name == "os.rename":
            path, phase = args[1], "saving-rename"
        else:
            return
        if self.is_saved(path):
            self.reach(phase)
            text = os.path.realpath(os.fsdecode(path))
            if text not in self.files and len(self.files) < MOST_FILES:
                self.files.add(text)
                self.output.write("file", path=text)

    def is_saved(self, path: Any) -> bool:
        """Whether a file belongs to a checkpoint: below the run's directory, or opened by a function that saves."""
        with suppress(TypeError, ValueError):
            text = os.path.realpath(os.fsdecode(path))
            is_own = text.startswith(self.output.directory)
            return not is_own and (self.saves > 0 or text.startswith(self.directory + os.sep))
        return False

    def opening(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Return `open` with the phase after it, in which a file of a checkpoint is open and not yet written."""

        @wraps(plain)
        def patched(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            opened = plain(file, mode, *args, **kwargs)
            if "saving-write" not in self.reached and set(mode) & set("wxa+") and self.is_saved(file):
                self.reach("saving-write")
            return opened

        return patched

    def sync(self, fd: Any) -> None:
        """Take a call of `os.fsync`."""
        with suppress(OSError, TypeError):
            if self.is_saved(os.readlink(f"/proc/self/fd/{fd if isinstance(fd, int) else fd.fileno()}")):
                self.reach("saving-sync")


_made: list[Phases] = []  # of this process


def phases_of(load: Any) -> Phases:
    """Return the phases of this process, and watch its files from the first call on."""
    if not _made:
        words = os.environ.get("CLUSTERKIT_RECORD_STEPS", "").split(",")
        _made.append(made := Phases(load("task/patches/recorder_output").output, words))
        if made.is_watched:
            sys.addaudithook(lambda name, args: made.holds(name, *args) if name in ("open", "os.rename") else None)
            os.fsync = _before(os.fsync, made.sync)
            builtins.open = io.open = made.opening(io.open)
            made.reach("importing")
    return _made[0]


def watch(module: Any, load: Any) -> None:
    """Patch what saves, restores and exports in a module."""
    made = phases_of(load)
    if not made.is_watched:
        return
    names = vars(module)
    for name, phase in WRITES.items():
        if name in names:
            setattr(module, name, _before(names[name], lambda *args, phase=phase, **kwargs: made.reach(phase)))
    for kind in ("Checkpoint", "CheckpointManager"):
        if isinstance(found := names.get(kind), type):
            _watch_checkpoints(made, found)
    for name in ("save_model", "save_weights", "export_saved_model"):
        if name in names and callable(names[name]):
            setattr(module, name, _during(made, names[name], "exporting", ""))
    for name in ("load_model", "load_weights"):
        if name in names and callable(names[name]):
            setattr(module, name, _before(names[name], lambda *_, **__: made.reach("restoring")))


def _watch_checkpoints(made: Phases, kind: Any) -> None:
    for name in SAVES:
        if name in vars(kind):
            setattr(kind, name, _during(made, getattr(kind, name), "", "saved"))
    for name in LOADS:
        if name in vars(kind):
            setattr(kind, name, _before(getattr(kind, name), lambda self, path=None, *_, **__: _restore(made, path)))


def _restore(made: Phases, path: Any) -> None:
    if path is not None:
        made.reach("restoring")


def _before(plain: Callable[..., Any], call: Callable[..., object]) -> Callable[..., Any]:
    @wraps(plain)
    def patched(*args: Any, **kwargs: Any) -> Any:
        with suppress(Exception):
            call(*args, **kwargs)
        return plain(*args, **kwargs)

    return patched


def _during(made: Phases, plain: Callable[..., Any], first: str, last: str) -> Callable[..., Any]:
    """Return a function that saves, and reaches a phase before that or after."""

    @wraps(plain)
    def patched(*args: Any, **kwargs: Any) -> Any:
        if first:
            made.reach(first)
        made.saves += 1
        try:
            result = plain(*args, **kwargs)
        finally:
            made.saves -= 1
        if last and not made.saves:
            made.reach(last)
        return result

    return patched
