"""Reports the phases of a program, in which faults can be injected, and pauses the program if a fault is due.

This file imports only standard modules that entry.py has already imported. The program never gets its exceptions.
"""

from __future__ import annotations

import _thread
import builtins
import io
import os
import sys
import time
from _weakref import ref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

WAIT, NAP = 1.0, 0.005  # seconds; the length of a pause, and of each sleep during a pause
FRAMEWORKS = frozenset({"tensorflow", "keras", "tf_keras"})
OPEN, WRITE, SYNC, RENAME = "saving-open", "saving-write", "saving-sync", "saving-rename"
AT_ENTRY = frozenset({"exporting", "evaluating"})  # phases that begin when a function is called, not at its first I/O
# The names of files that hold no state: without a rename, they are not taken for a checkpoint.
LOGS = (".csv", ".tsv", ".jsonl", ".log", ".txt", ".png", ".svg", ".html", ".yaml", ".yml", ".toml")
BY_DESCRIPTOR = {**dict.fromkeys(("write", "pwrite", "writev", "sendfile"), WRITE), "fsync": SYNC, "fdatasync": SYNC}


class Save:
    """A save of a file, or of the files in `place`, that the program makes without functions of TensorFlow or Keras."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.paths = set[str]()
        self.files = 0  # the number of open Python file objects that belong to this save
        self.has_state = False  # True if a file may hold state: not if all are appended to or have names of LOGS


class ThreadState(_thread._local):
    """A thread's phases. "Function" here means a function of TensorFlow or Keras that saves, restores or evaluates."""

    is_reporting = False
    has_continued = False  # True if the thread has made a step, or something that steps consist of
    save: Save | None = None  # the current save, if the program makes it without a function
    read: frozenset[str] = frozenset()  # paths that have been read outside a function since the last save

    def __init__(self) -> None:
        self.depth: dict[str, int] = {}  # maps a phase to the number of its running functions, which may be nested
        self.reached = set[str]()  # the phases reported since the outermost running function began


class Phases:
    """Counts and reports the phases of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.state = ThreadState()
        self.counts: dict[str, int] = {}
        self.lock = _thread.allocate_lock()
        self.write: Callable[[str, str], object] = lambda kind, fields: None
        # Called with the path of each file that a save is about to open, or that the program is about to read.
        self.opened: Callable[[str], object] = lambda path: None
        self.reading: Callable[[str], object] = lambda path: None
        self.is_noted = False
        plain = os.path.abspath(os.environ.get("CLUSTERKIT_CHECKPOINT_DIR", os.devnull))
        self.directories = tuple({os.path.join(path, "") for path in (plain, os.path.realpath(plain))})
        self.wanted: dict[str, tuple[int, int]] = {}
        with self.own():
            words = [word.split(":") for word in os.environ.get("CLUSTERKIT_PHASES", "").split()]
            self.wanted = {phase: (int(reported), int(waited)) for phase, reported, waited in words}

    @contextmanager
    def own(self) -> Iterator[None]:
        """Within the context, which runs clusterkit's own code, report no phases and suppress exceptions."""
        was_reporting, self.state.is_reporting = self.state.is_reporting, True
        try:
            yield
        except Exception as error:
            if not self.is_noted:
                self.is_noted = True
                os.write(2, f"clusterkit: the phases of this task are not all reported: {error!r}\n".encode())
        finally:
            self.state.is_reporting = was_reporting

    @property
    def is_off(self) -> bool:
        return self.state.is_reporting or os.getpid() != self.pid

    def reach(self, phase: str) -> None:
        """Report a phase. If a fault is due in this phase, pause the program, so that the fault can take effect."""
        if self.is_off:
            return
        waited = number = 0
        with self.own(), self.lock:
            number = self.counts[phase] = self.counts.get(phase, 0) + 1
            reported, waited = self.wanted.get(phase, (1, 0))
            if number <= reported:
                self.write("moment", f'"phase":"{phase}","number":{number}')
        if 0 < number <= waited:  # outside `own`, which would suppress exceptions of the program's signal handlers
            for _ in range(round(WAIT / NAP)):
                time.sleep(NAP)

    def reach_once(self, phase: str, *_: object, **__: object) -> None:
        if phase not in self.counts:
            self.reach(phase)

    def settle(self, *_: object, **__: object) -> None:
        """Report "saved" for a save without a rename: training continues, and the files of the save are closed.

        Why not as soon as the files are closed: a program that renames them does so after that. What is written before
        the first step, such as the program's configuration, is no checkpoint.
        """
        state = self.state
        save, has_continued, state.has_continued = state.save, state.has_continued, True
        if save is None or save.files or self.is_off or not save.paths:
            return
        state.save = None
        if has_continued and save.has_state:
            self.reach("saved")

    def step(self, *_: object, **__: object) -> None:
        """Report the end of a save, if any, and "starting" before the first step, but not during an evaluation."""
        self.settle()
        if "starting" not in self.counts and not self.state.depth.get("evaluating"):
            self.reach_once("starting")

    def evaluate(self, *_: object, **__: object) -> None:
        """Report an evaluation by Keras's `fit`. If the program calls `evaluate`, `enter` reports the evaluation."""
        if not self.inside("evaluating"):
            self.reach("evaluating")

    def enter(self, kind: str) -> None:
        """Record that a function of the phase `kind` begins."""
        state = self.state
        state.depth[kind] = state.depth.get(kind, 0) + 1
        if state.depth[kind] == 1 and kind in AT_ENTRY:
            self.reach(kind)
        elif kind == "loading":
            self.read("")
        elif kind == "saving":
            state.save = None

    def leave(self, kind: str, has_returned: bool) -> None:
        """Record that a function of the phase `kind` ends; report "saved" if it has saved and returned normally."""
        state = self.state
        state.depth[kind] -= 1
        if not state.depth[kind]:
            was_reached = kind in state.reached
            state.reached.discard(kind)
            if kind == "saving" and was_reached and has_returned:
                self.reach("saved")

    def inside(self, kind: str) -> bool:
        return self.state.depth.get(kind, 0) > 0

    def save(self, phase: str, path: str = "") -> None:
        """Report the phase of a save's next system call, such as WRITE; before its first call, report "saving" too."""
        state = self.state
        if self.is_off:
            return
        if path:
            with self.own():
                self.opened(path)
        if self.inside("saving"):
            if "saving" not in state.reached:
                state.reached.add("saving")
                state.read = frozenset()
                self.reach("saving")
        elif phase == OPEN:
            self.begin_save(path)
        self.reach(phase)

    def begin_save(self, path: str) -> None:
        """Begin a `Save` with a file that is about to be opened, unless the file belongs to the current `Save`."""
        state, place = self.state, os.path.dirname(path)
        if os.path.join(place, "") in self.directories:
            place = path
        last = state.save
        if last is None or (path and not last.files and last.place and (place != last.place or path in last.paths)):
            state.save, state.read = Save(place), frozenset()
            self.reach("saving")
        elif not last.place:
            last.place = place
        if state.save is not None:
            state.save.paths.add(path)

    def renamed(self, *paths: Any, **_: object) -> None:
        """End the current `Save`, if any, after a file or directory of a checkpoint has been renamed."""
        if self.state.save is not None and any(map(self.find, paths[:2])):
            self.state.save = None
            self.reach("saved")

    def read(self, path: str) -> None:
        """Report that a file of a checkpoint is about to be read, but only once for the checkpoint."""
        state = self.state
        if self.is_off or self.inside("saving"):
            return
        if path:
            with self.own():
                self.reading(path)
        if state.save is not None:
            return
        if self.inside("restoring"):
            if "restoring" in state.reached:
                return
            state.reached.add("restoring")
        elif state.read and path not in state.read:
            state.read |= {path}
            return
        else:
            state.read = frozenset({path})
        self.reach("restoring")

    def concerned(self, path: Any) -> str:
        """Return a file's absolute path if it is in the checkpoint directory or a function is saving; otherwise ""."""
        name = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else os.path.abspath(os.fsdecode(path))
        is_kept = name.startswith("/") and not name.startswith(("/dev/", "/proc/")) and "/__pycache__/" not in name
        return name if name.startswith(self.directories) or (is_kept and self.inside("saving")) else ""

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Handle an audit event of Python. This must be fast, since Python raises many events."""
        if event == "open" and not isinstance(args[0], int):
            self.opening(args[0], args[2])
        elif event == "os.rename":
            self.renaming(*args[:2])
        elif event == "import" and args[0] in FRAMEWORKS:
            self.reach_once("importing")

    def find(self, path: Any) -> str:
        """Return the result of `concerned`, or "" if reporting is off or `path` is not a path."""
        if not self.is_off:
            with self.own():
                return self.concerned(path)
        return ""

    def opening(self, path: Any, flags: int) -> None:
        """Report that a file of a checkpoint is about to be opened, for writing or reading."""
        found = self.find(path)
        if found and flags & (os.O_WRONLY | os.O_RDWR):
            self.save(OPEN, found)
            if self.state.save is not None and not flags & os.O_APPEND and not found.endswith(LOGS):
                self.state.save.has_state = True
        elif found.startswith(self.directories) and not os.path.isdir(found):
            self.read(found)

    def renaming(self, *paths: Any) -> None:
        """Report that a file or directory of a checkpoint is about to be renamed."""
        if any(map(self.find, paths[:2])):
            self.save(RENAME)

    def descriptor(self, phase: str, file: Any, *_: object, **__: object) -> None:
        """Report the phase of an `os` function, such as `fsync`, whose argument is a descriptor or a file object."""
        number = file if isinstance(file, int) else getattr(file, "fileno", int)()
        if number > 2 and self.find(number):
            self.save(phase)

    def watch_file(self, opened: Any, file: Any) -> None:
        """Patch a file object that was opened for writing to report each write, and to record when it is closed."""
        if self.find(file):
            with self.own():
                raw = getattr(opened, "buffer", opened)
                raw, save = getattr(raw, "raw", raw), self.state.save
                watched = WatchedFile(raw, save)
                raw.write, raw.close = watched.write, watched.close
                if save is not None:
                    save.files += 1


class WatchedFile:
    """Replacements for a raw file's `write` and `close`. They work even while garbage collection closes the file."""

    def __init__(self, raw: Any, save: Save | None) -> None:
        self.raw, self.save, self.number, self.is_owner = ref(raw), save, raw.fileno(), raw.closefd

    def write(self, data: Any) -> Any:
        phases.save(WRITE)
        return io.FileIO.write(self.raw() or io.FileIO(self.number, "w", closefd=False), data)

    def close(self) -> None:
        file, number, self.number = self.raw(), self.number, -1
        if self.save is not None and number >= 0:
            self.save.files -= 1
        if file is not None:
            io.FileIO.close(file)
        elif self.is_owner and number >= 0:
            os.close(number)


phases = Phases()


def begin(_: object, load: Any) -> None:
    """Install the hooks that detect phases by file operations, by imports and by the end of the program."""
    hook, entry = load("task/patches/hook"), sys.modules.get(getattr(load, "__module__", ""))
    phases.write = load("task/patches/steps").steps.write
    plain_open = builtins.open

    @wraps(plain_open)
    def patched(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        opened = plain_open(file, mode, *args, **kwargs)
        if not set("wax+").isdisjoint(mode):
            phases.watch_file(opened, file)
        return opened

    with phases.own():
        builtins.open = io.open = patched
        for name, phase in BY_DESCRIPTOR.items():
            hook.before(os, name, partial(phases.descriptor, phase))
        for name in ("rename", "replace"):
            hook.after(os, name, phases.renamed)
        sys.addaudithook(phases.audit)
        if hasattr(entry, "run"):
            watch_end(entry)
    if not FRAMEWORKS.isdisjoint(sys.modules) or entry is None:  # a fork with TensorFlow, or descendants/ patches this
        phases.reach_once("importing")


def watch_end(entry: Any) -> None:
    """Patch entry.py to report the end of the program's main code, whether it returns or raises."""
    run = entry.run

    def patched(how: str, target: str) -> None:
        try:
            run(how, target)
        finally:
            phases.settle()
            phases.reach_once("ending")

    entry.run = patched
