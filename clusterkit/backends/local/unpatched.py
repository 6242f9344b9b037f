"""Finds programs of a command that have loaded TensorFlow without clusterkit's patches, and reports the first one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from clusterkit.job.plan import DESCENDANTS
from clusterkit.system import procfs
from clusterkit.system.barrier import join, start_thread
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import Crashed, Impaired
from clusterkit.words.model import Task

LOOK_EVERY = 5.0  # seconds
LOOKS = 3  # a program counts once this many looks in a row have found it: the first report follows TensorFlow's import
LIBRARIES = (b"/libtensorflow_framework.so", b"/libtensorflow_cc.so", b"/_pywrap_tensorflow_internal.so")
_UNPATCHED = (
    "A program of {task} (pid {pid}: {line}) has loaded TensorFlow without clusterkit's patches: {why}. Its steps are "
    "not seen, and what the patches correct is not corrected. {advice}"
)
_NO_PATH = (
    "its PYTHONPATH does not have clusterkit's directory",
    "If the command sets PYTHONPATH, let it keep the old value: PYTHONPATH=/your/directory:$PYTHONPATH.",
)
_IGNORED = (
    "its Python is older than 3.11, or does not read PYTHONPATH or sitecustomize.py (-I, -E, -S)",
    "Start it with a Python of version 3.11 or newer, and without these options.",
)
Post = Callable[[Impaired | Crashed], None]


class UnpatchedPrograms:
    """Looks at the processes of commands from time to time, in a thread, until it has found such a program.

    `commands` returns the first process of each running command. `has_reported` returns whether a process has sent a
    report, which shows that it is patched. What such a program starts is not patched on purpose.
    """

    def __init__(
        self,
        commands: Callable[[], Mapping[Task, int]],
        has_reported: Callable[[int], bool],
        post: Post,
        every: float = LOOK_EVERY,
    ) -> None:
        self._commands, self._has_reported, self._post, self._every = commands, has_reported, post, every
        self._found: dict[int, int] = {}  # the number of looks that have found each process, by pid
        self._stopped = threading.Event()
        self._thread = start_thread("unpatched", self._run, post)

    def stop(self) -> None:
        """End the thread. Raises ThreadStuck."""
        self._stopped.set()
        join(self._thread)

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                unpatched = {pid: task for task, first in self._commands().items() for pid in self._unpatched(first)}
            except CannotLook:
                continue
            self._found = {pid: self._found.get(pid, 0) + 1 for pid in unpatched}
            for pid, looks in self._found.items():
                if looks >= LOOKS:
                    self._post(Impaired(sentence(unpatched[pid], pid)))
                    return

    def _unpatched(self, pid: int) -> Iterator[int]:
        """Yield the processes at and below `pid` that have loaded TensorFlow, except below programs that report."""
        todo = [pid]
        while todo:
            one = todo.pop()
            if self._has_reported(one):
                continue
            if has_tensorflow(one):
                yield one
            else:
                todo += procfs.children(one)


def has_tensorflow(pid: int) -> bool:
    """Return whether a process has loaded TensorFlow's libraries; False if this can't be seen."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False
    return any(library in maps for library in LIBRARIES)


def sentence(task: Task, pid: int) -> str:
    """Describe an unpatched program."""
    paths = procfs.environ(pid).get("PYTHONPATH", "").split(":")
    why, advice = _IGNORED if DESCENDANTS in paths else _NO_PATH
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    line = b" ".join(words[:2]).decode(errors="replace")  # arguments may be secret
    return _UNPATCHED.format(task=task, pid=pid, line=line[:200], why=why, advice=advice)
