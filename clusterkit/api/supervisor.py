"""Runs the supervisor as a child process of the Python process that started the run.

The supervisor is not a thread, since it handles signals, forks, and becomes a child subreaper, none of which may happen
in a notebook, a test runner or a process with an asyncio loop. A child process, in contrast, can be started from any
thread. It has its own session, so that Ctrl-C reaches only the Python process, which then leaves its `with` block and
ends the run.

A pipe shows the supervisor when the Python process has ended. Why not the parent-death signal: the kernel sends it when
the *thread* that started the child ends, which may be long before the process ends.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import signal
import site
import subprocess
import sysconfig
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from clusterkit.job.options import GivenOptions
from clusterkit.store.cleaning import MARK
from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs
from clusterkit.system.process import code_of, own_python
from clusterkit.warm.warm_client import ApiRequest, WarmSession, pids_of_run
from clusterkit.words.errors import BadJob, ClusterkitError

# Maps pids to sessions, since a fork inherits this dict but must not use its parent's session.
_sessions: dict[int, WarmSession] = {}
PUSH = 10.0  # seconds to wait after each attempt to end the supervisor, except the first


def session() -> WarmSession:
    """Return this process's session.

    The first call also stores the directory of the user's warm servers, since a test may change the environment later.
    """
    pid = os.getpid()
    return _sessions.get(pid) or _sessions.setdefault(pid, WarmSession.new())  # atomic, for concurrent calls


@contextmanager
def sharing(other: WarmSession | None) -> Iterator[WarmSession]:
    """Start runs from the warm servers of another process's session for a while; without one, from this process's.

    The session is not registered for long, since this process must not remove the other one's directory.
    """
    if other is None:
        yield session()
        return
    _sessions[os.getpid()] = other
    try:
        yield other
    finally:
        del _sessions[os.getpid()]


@atexit.register
def _end() -> None:
    if (mine := _sessions.get(os.getpid())) is not None:
        mine.remove_directory()


class Temporary:
    """A temporary directory, which is removed by `remove` or at the end of this process.

    Why not `tempfile.TemporaryDirectory`: a fork would remove the directory at exit, while its parent still uses it.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="clusterkit-"))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


ROOT = Path(__file__).parent.parent.parent


class Lifeline:
    """A pipe to the supervisor, which ends the run after this process has closed the pipe's write end or exited."""

    _all: set[Lifeline] = set()  # noqa: RUF012 - all lifelines of this process, which forks must close

    def __init__(self) -> None:
        self.end, self._held = os.pipe2(os.O_CLOEXEC)
        self._all.add(self)
        self._lock = threading.Lock()

    def cut(self) -> None:
        """Close the write end, if it is still open."""
        with self._lock:
            self._all.discard(self)
            if self._held >= 0:
                os.close(self._held)
            self._held = -1

    @classmethod
    def forget_all(cls) -> None:
        """Close all write ends in a fork. Otherwise, runs would outlive the process that started them."""
        for lifeline in cls._all:
            os.close(lifeline._held)
            lifeline._held = -1
        cls._all.clear()


os.register_at_fork(after_in_child=Lifeline.forget_all)


class Supervisor:
    """A `clusterkit up` command that runs in the background. The methods can be called from any thread."""

    def __init__(self, job: GivenOptions, run_id: str, home: Path, console: Path, words: Sequence[str] = ()) -> None:
        """Start the supervisor. `words` is its command line, by default a quiet `up`; `job` overrides these options."""
        self._run_id, self._home = run_id, home
        self._console, self._owner = console, os.getpid()
        self._lifeline = Lifeline()
        try:
            with console.open("wb") as output:
                self._process = self._start(job, output.fileno(), words)
        except BaseException as error:  # including KeyboardInterrupt, since the process may already have been started
            self._lifeline.cut()
            if isinstance(error, OSError):
                raise BadJob([f"The supervisor can't be started: {error.strerror}."]) from None
            raise
        finally:
            os.close(self._lifeline.end)

    @property
    def exit_code(self) -> int | None:
        """The supervisor's exit code; None while it runs.

        Like the methods that wait, raises ClusterkitError in a fork of the process that started the supervisor.
        """
        return self._child().poll()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the supervisor to end; return whether it has ended."""
        process = self._child()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C does. The first SIGINT gives tasks their grace period, the second kills them."""
        self._child().send_signal(signal.SIGINT)

    def end(self, patience: float) -> None:
        """End the run with SIGTERM, so that tasks get their grace period. Kill the run after `patience` seconds."""
        process = self._child()
        for push, seconds in ((process.terminate, patience), (self._lifeline.cut, PUSH), (self._kill, PUSH)):
            push()
            if self.wait(seconds):
                return
        _kill(self._elsewhere("guardian"))
        process.kill()
        process.wait()

    def close(self, run: RunDirectory) -> None:
        """Close the lifeline, and copy the supervisor's output to the run directory. The supervisor must have ended."""
        self.release()
        with suppress(OSError):
            shutil.copyfile(self._console, run.console)

    def release(self) -> None:
        """Close the lifeline, which ends the run if it is still live."""
        self._lifeline.cut()

    def problems(self) -> list[str]:
        lines = self._console.read_text(errors="replace").splitlines()
        told = [line.partition(": ")[2] for line in lines if line.startswith(("clusterkit: ", "Error: "))]
        return told or lines[-5:]

    def refusal(self) -> ClusterkitError:
        """Return an exception that explains why the supervisor ended before the run began."""
        if self.exit_code == BadJob.exit_code:
            return BadJob(self.problems())
        return ClusterkitError("\n".join(self.problems()) or f"The supervisor ended with code {self.exit_code}.")

    def _child(self) -> subprocess.Popen[bytes]:
        """Return the process. Raises ClusterkitError in a fork, where Popen would wrongly report its end."""
        if os.getpid() != self._owner:
            what = f"The run {self._run_id} belongs to the process {self._owner}"
            raise ClusterkitError(f"{what}. A fork of it can neither wait for the run nor end it.")
        return self._process

    def _start(self, job: GivenOptions, output: int, words: Sequence[str]) -> subprocess.Popen[bytes]:
        # The job is passed in a file that no other process can open, since it may contain secrets.
        with os.fdopen(os.memfd_create("clusterkit-job", os.MFD_CLOEXEC), "w+b") as asked:
            pickle.dump(ApiRequest(job, self._lifeline.end, session()), asked)
            asked.seek(0)
            # -P, so that the supervisor imports no modules from the current directory.
            return subprocess.Popen(
                own_python("-c", code_of("clusterkit.cli.commands.up"), *words),
                stdin=asked,
                stdout=output,
                stderr=output,
                env=environment(self._home),
                pass_fds=(self._lifeline.end,),
                start_new_session=True,
            )

    def _kill(self) -> None:
        """Kill the supervisor, so that its guardian ends the remaining processes."""
        _kill(procfs.children(self._process.pid) or self._elsewhere("supervisor"))

    def _elsewhere(self, role: str) -> list[int]:
        """Return the pid of the guardian or supervisor if a warm server, not this process, has started the run."""
        return [pid for name, pid in pids_of_run(self._run_id, self._home).items() if name == role]


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def environment(home: Path) -> dict[str, str]:
    """Return this process's environment, modified so that the supervisor and its tasks use the same clusterkit."""
    found = {**os.environ, "CLUSTERKIT_HOME": str(home)}
    found.pop(MARK, None)  # this process may be part of a run, to which the new run does not belong
    if found.get("MPLBACKEND", "").startswith("module://matplotlib_inline"):
        del found["MPLBACKEND"]  # tasks can't draw in a notebook
    if not _is_installed():  # clusterkit is in a checkout, which may be only on this process's path
        found["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [found.get("PYTHONPATH")])])
    return found


@cache
def _is_installed() -> bool:
    """Return whether every interpreter of this environment can import this clusterkit, by an installation or .pth file.

    PYTHONPATH is not set unless necessary, since runs with a PYTHONPATH can't use the user's warm servers, which have
    none.
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
