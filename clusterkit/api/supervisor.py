"""The supervisor as a child process of this one.

Why a child, and not a thread of this process: the supervisor handles signals, forks, and makes itself the reaper of
orphans, and none of that may happen to a notebook, to a test runner, or beside an asyncio loop. A child can be started
from any thread, and what it does to its process is its own affair. It has a session of its own: a Ctrl-C is for this
process, which then ends the run in order, by leaving its `with` block.

Why a pipe ties the two, and not the kernel's parent-death signal: that one is sent when the *thread* that started the
child ends, which may be long before this process does.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
import tempfile
import threading
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from clusterkit.job.options import Gathered
from clusterkit.store.cleaning import MARK
from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs
from clusterkit.system.process import code_of
from clusterkit.warm.warm_client import ApiRequest, WarmSession, handed_over
from clusterkit.words.errors import BadJob, ClusterkitError

_sessions: dict[int, WarmSession] = {}  # by pid: a fork finds its parent's, and must not take it for its own
PUSH = 10.0  # seconds that each rung of the ladder gets, once the first one's time is over


def session() -> WarmSession:
    """The session. The first call also notes where the user's own warm servers are, before a test changes that."""
    pid = os.getpid()
    return _sessions.get(pid) or _sessions.setdefault(pid, WarmSession.new())  # in one step: threads start runs too


@atexit.register
def _end() -> None:
    if (mine := _sessions.get(os.getpid())) is not None:
        mine.remove_directory()


class Temporary:
    """A temporary directory; `remove` removes it, as does the end of this process.

    Why not `tempfile.TemporaryDirectory`: at its exit a fork would remove the files that its parent's tasks read.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="clusterkit-"))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


ROOT = Path(__file__).parent.parent.parent


class Lifeline:
    """The write end of the pipe; the supervisor ends the run when it is closed, which the kernel does at the latest."""

    _all: set[Lifeline] = set()  # noqa: RUF012 - every lifeline of this process, for its forks

    def __init__(self) -> None:
        self.end, self._held = os.pipe2(os.O_CLOEXEC)
        self._all.add(self)
        self._lock = threading.Lock()

    def cut(self) -> None:
        """Let go. The second time, nothing happens."""
        with self._lock:
            self._all.discard(self)
            if self._held >= 0:
                os.close(self._held)
            self._held = -1

    @classmethod
    def forget_all(cls) -> None:
        """A fork of this process (multiprocessing makes some) must not keep the runs of a parent that was killed."""
        for lifeline in cls._all:
            os.close(lifeline._held)
            lifeline._held = -1
        cls._all.clear()


os.register_at_fork(after_in_child=Lifeline.forget_all)


class Supervisor:
    """A `clusterkit up` that runs in the background. Its methods can be called from any thread."""

    def __init__(self, job: Gathered, run_id: str, home: Path, console: Path, words: Sequence[str] = ()) -> None:
        """Start it. `words` is the command line instead of a quiet `up`; the options of `job` are above it."""
        self._run_id, self._home = run_id, home
        self._console, self._owner = console, os.getpid()
        self._lifeline = Lifeline()
        try:
            with console.open("wb") as output:
                self._process = self._start(job, output.fileno(), words)
        except BaseException as error:  # after a Ctrl-C, too: there may be a process that nobody else knows of
            self._lifeline.cut()
            if isinstance(error, OSError):
                raise BadJob([f"The supervisor can't be started: {error.strerror}."]) from None
            raise
        finally:
            os.close(self._lifeline.end)

    @property
    def exit_code(self) -> int | None:
        """None while it runs. Raises ClusterkitError in a fork of the process that started it, as all do that wait."""
        return self._child().poll()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, at the latest after that time."""
        process = self._child()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None

    def interrupt(self) -> None:
        """Do what Ctrl-C does: the first time, tasks get their grace period; the second time, they are killed."""
        self._child().send_signal(signal.SIGINT)

    def end(self, patience: float) -> None:
        """End the run: SIGTERM, which keeps the grace period; after `patience` seconds by force."""
        process = self._child()
        for push, seconds in ((process.terminate, patience), (self._lifeline.cut, PUSH), (self._kill, PUSH)):
            push()
            if self.wait(seconds):
                return
        _kill(self._elsewhere("guardian"))
        process.kill()
        process.wait()

    def close(self, run: RunDirectory) -> None:
        """Close the lifeline, once it has ended, and leave what it printed in the run's directory."""
        self.release()
        with suppress(OSError):
            shutil.copyfile(self._console, run.console)

    def release(self) -> None:
        """Close the lifeline, once it has ended."""
        self._lifeline.cut()

    def problems(self) -> list[str]:
        lines = self._console.read_text(errors="replace").splitlines()
        told = [line.partition(": ")[2] for line in lines if line.startswith(("clusterkit: ", "Error: "))]
        return told or lines[-5:]

    def refusal(self) -> ClusterkitError:
        """Why it ended before the run began, as an exception."""
        if self.exit_code == BadJob.exit_code:
            return BadJob(self.problems())
        return ClusterkitError("\n".join(self.problems()) or f"The supervisor ended with code {self.exit_code}.")

    def _child(self) -> subprocess.Popen[bytes]:
        """The process. In a fork, to which it is no child, Popen would take it for one that has ended."""
        if os.getpid() != self._owner:
            what = f"The run {self._run_id} belongs to the process {self._owner}"
            raise ClusterkitError(f"{what}. A fork of it can neither wait for the run nor end it.")
        return self._process

    def _start(self, job: Gathered, output: int, words: Sequence[str]) -> subprocess.Popen[bytes]:
        # Nobody else can open the file: the job may have secrets, which must not be on a command line.
        with os.fdopen(os.memfd_create("clusterkit-job", os.MFD_CLOEXEC), "w+b") as asked:
            pickle.dump(ApiRequest(job, self._lifeline.end, session()), asked)
            asked.seek(0)
            # -P: whatever lies in the current directory, the supervisor imports what it needs.
            return subprocess.Popen(
                [sys.executable, "-P", "-c", code_of("clusterkit.cli.started"), *words],
                stdin=asked,
                stdout=output,
                stderr=output,
                env=environment(self._home),
                pass_fds=(self._lifeline.end,),
                start_new_session=True,
            )

    def _kill(self) -> None:
        """Kill the supervisor below its guardian, which then ends what is left."""
        _kill(procfs.children(self._process.pid) or self._elsewhere("supervisor"))

    def _elsewhere(self, role: str) -> list[int]:
        """The guardian or the supervisor of a run that a warm server has begun: no descendant of this process."""
        return [pid for name, pid in handed_over(self._run_id, self._home).items() if name == role]


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def environment(home: Path) -> dict[str, str]:
    """This process's, with which the supervisor and its tasks find the clusterkit that this process has."""
    found = {**os.environ, "CLUSTERKIT_HOME": str(home)}
    found.pop(MARK, None)  # the new run is no part of the one that this process may be in
    if found.get("MPLBACKEND", "").startswith("module://matplotlib_inline"):
        del found["MPLBACKEND"]  # of a notebook, in which tasks can't draw
    if not _is_installed():  # a checkout that is on this process's path; it need not be on every one's
        found["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [found.get("PYTHONPATH")])])
    return found


@cache
def _is_installed() -> bool:
    """Whether every interpreter of this environment finds this clusterkit, perhaps as what is installed for editing.

    A PYTHONPATH that nobody needs would keep runs from the user's warm servers, which have none.
    """
    paths = sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()
    places = [*map(Path, paths)]
    named = [line for place in places for file in place.glob("*.pth") for line in _lines(file)]
    return str(ROOT) in [*map(str, places), *named]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").split("\n")
    except OSError:
        return []
