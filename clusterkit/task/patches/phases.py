"""Reports the phases of a program at which faults may come, and waits there for a moment if one does.

Loaded by path: only modules that entry.py has imported. A failure of its own is noted once, and the program goes on.
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

WAIT, NAP = 1.0, 0.005  # seconds at a phase until the program goes on without a fault; and between two looks
FRAMEWORKS = frozenset({"tensorflow", "keras", "tf_keras"})
OPEN, WRITE, SYNC, RENAME = "saving-open", "saving-write", "saving-sync", "saving-rename"
AT_ENTRY = frozenset({"exporting", "evaluating"})  # reached when a function begins; the others at its first call
BY_DESCRIPTOR = {**dict.fromkeys(("write", "pwrite", "writev", "sendfile"), WRITE), "fsync": SYNC, "fdatasync": SYNC}


class Save:
    """A save that has begun outside of a function known to save: of one file, or of all those in one directory."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.paths = set[str]()
        self.files = 0  # Python's file objects that are open


class ThreadState(_thread._local):
    """What one thread does."""

    is_reporting = False
    save: Save | None = None  # outside of functions
    read: frozenset[str] = frozenset()  # what was read outside of functions since the last save began

    def __init__(self) -> None:
        self.depth: dict[str, int] = {}  # of functions in one another, by what they do
        self.reached = set[str]()  # what the outermost function has reached


class Phases:
    """Counts and reports the phases of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.state = ThreadState()
        self.counts: dict[str, int] = {}
        self.lock = _thread.allocate_lock()
        self.write: Callable[[str, str], object] = lambda kind, fields: None
        self.opened: Callable[[str], object] = lambda path: None  # for who wants the files of the saves
        self.is_noted = False
        plain = os.path.abspath(os.environ.get("CLUSTERKIT_CHECKPOINT_DIR", os.devnull))
        self.directories = tuple({os.path.join(path, "") for path in (plain, os.path.realpath(plain))})
        self.wanted: dict[str, tuple[int, int]] = {}
        with self.own():
            words = [word.split(":") for word in os.environ.get("CLUSTERKIT_PHASES", "").split()]
            self.wanted = {phase: (int(reported), int(waited)) for phase, reported, waited in words}

    @contextmanager
    def own(self) -> Iterator[None]:
        """Let nothing that clusterkit does here be reported, or fail the program."""
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
        """Report a phase; if a fault waits for it, give the fault time to take hold before the program goes on."""
        if self.is_off:
            return
        waited = number = 0
        with self.own(), self.lock:
            number = self.counts[phase] = self.counts.get(phase, 0) + 1
            reported, waited = self.wanted.get(phase, (1, 0))
            if number <= reported:
                self.write("moment", f'"phase":"{phase}","number":{number}')
        if 0 < number <= waited:  # what a signal's handler raises here is the program's own
            for _ in range(round(WAIT / NAP)):
                time.sleep(NAP)

    def reach_once(self, phase: str, *_: object, **__: object) -> None:
        if phase not in self.counts:
            self.reach(phase)

    def step(self, *_: object, **__: object) -> None:
        """The program begins a step, unless it evaluates."""
        if "starting" not in self.counts and not self.state.depth.get("evaluating"):
            self.reach_once("starting")

    def evaluate(self, *_: object, **__: object) -> None:
        """Keras begins to evaluate; `evaluate` has reported it already."""
        if not self.inside("evaluating"):
            self.reach("evaluating")

    def enter(self, kind: str) -> None:
        """A function begins to save, to read, or the like."""
        state = self.state
        state.depth[kind] = state.depth.get(kind, 0) + 1
        if state.depth[kind] == 1 and kind in AT_ENTRY:
            self.reach(kind)
        elif kind == "loading":
            self.read("")
        elif kind == "saving":
            state.save = None

    def leave(self, kind: str, has_returned: bool) -> None:
        """The function ends."""
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
        """A system call of a save comes next."""
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
        """Outside of functions, opening a file begins a save, unless it belongs to the last one."""
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
        """A file or directory has its new name: outside of functions, that ends a save."""
        if self.state.save is not None and any(map(self.find, paths[:2])):
            self.state.save = None
            self.reach("saved")

    def read(self, path: str) -> None:
        """A checkpoint is about to be read; all that belongs to it counts once."""
        state = self.state
        if self.is_off or self.inside("saving") or state.save is not None:
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
        """The path if a file there belongs to a checkpoint or to what a function saves; else an empty one."""
        name = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else os.path.abspath(os.fsdecode(path))
        is_kept = name.startswith("/") and not name.startswith(("/dev/", "/proc/")) and "/__pycache__/" not in name
        return name if name.startswith(self.directories) or (is_kept and self.inside("saving")) else ""

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Take in one of Python's audit events, of which there are many."""
        if event == "open" and not isinstance(args[0], int):
            self.opening(args[0], args[2])
        elif event == "os.rename":
            self.renaming(*args[:2])
        elif event == "import" and args[0] in FRAMEWORKS:
            self.reach_once("importing")

    def find(self, path: Any) -> str:
        """The same, and an empty one where nothing is reported now, or for what is no path."""
        if not self.is_off:
            with self.own():
                return self.concerned(path)
        return ""

    def opening(self, path: Any, flags: int) -> None:
        """A file is about to be opened."""
        found = self.find(path)
        if found and flags & (os.O_WRONLY | os.O_RDWR):
            self.save(OPEN, found)
        elif found.startswith(self.directories) and not os.path.isdir(found):
            self.read(found)

    def renaming(self, *paths: Any) -> None:
        """A file or directory is about to get another name."""
        if any(map(self.find, paths[:2])):
            self.save(RENAME)

    def descriptor(self, phase: str, file: Any, *_: object, **__: object) -> None:
        """A function of `os` is about to act on a descriptor, or on an object that has one."""
        number = file if isinstance(file, int) else getattr(file, "fileno", int)()
        if number > 2 and self.find(number):
            self.save(phase)

    def watch_file(self, made: Any, file: Any) -> None:
        """Have a file object that was opened for writing report each of its system calls, and its end."""
        if self.find(file):
            with self.own():
                raw = getattr(made, "buffer", made)
                raw, save = getattr(raw, "raw", raw), self.state.save
                watched = WatchedFile(raw, save)
                raw.write, raw.close = watched.write, watched.close
                if save is not None:
                    save.files += 1


class WatchedFile:
    """The calls of a raw file object. Python clears the reference before it closes a file that is in a cycle."""

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
    """Begin to follow the process: its files, its imports and its end."""
    hook, entry = load("task/patches/hook"), sys.modules.get(getattr(load, "__module__", ""))
    phases.write = load("task/patches/steps").steps.write
    plain_open = builtins.open

    @wraps(plain_open)
    def patched(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        made = plain_open(file, mode, *args, **kwargs)
        if not set("wax+").isdisjoint(mode):
            phases.watch_file(made, file)
        return made

    with phases.own():
        builtins.open = io.open = patched
        for name, phase in BY_DESCRIPTOR.items():
            hook.before(os, name, partial(phases.descriptor, phase))
        for name in ("rename", "replace"):
            hook.after(os, name, phases.renamed)
        sys.addaudithook(phases.audit)
        if hasattr(entry, "run"):
            watch_end(entry)
    if not FRAMEWORKS.isdisjoint(sys.modules):  # this is a fork
        phases.reach_once("importing")


def watch_end(entry: Any) -> None:
    """Report the end of the program's main code, however it ends."""
    run = entry.run

    def patched(how: str, target: str) -> None:
        try:
            run(how, target)
        finally:
            phases.reach_once("ending")

    entry.run = patched
