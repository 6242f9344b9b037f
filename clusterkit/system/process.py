"""Starts, signals and reaps processes, and reads how a process ended before reaping it."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from clusterkit.system import procfs
from clusterkit.system.files import open_fd
from clusterkit.words.outcome import SIGKILL, Exit

PR_SET_CHILD_SUBREAPER = 36
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the signals that end a run or a campaign
LEFT: list[subprocess.Popen[bytes]] = []  # processes that nobody waits for, kept since Popen complains otherwise
HELPER_PIDS: set[int] = set()  # pids of the helper processes, which only `Helper.end` reaps
KILLED_WITHIN = 2.0  # seconds; how long to wait for a helper process to end after SIGKILL


@dataclass(slots=True)
class AttemptChild:
    """A started attempt; its first process leads a new session and process group."""

    pid: int  # also the id of its process group and its session
    pidfd: int
    pipe: str  # the name of its output pipe in /proc
    oom_kills: int  # the system's count of OOM kills when the process started
    process: subprocess.Popen[bytes] | None = None  # None if a fork server started the process
    signals_sent: list[int] = field(default_factory=list)  # the signals sent while the first process ran
    grace_until: float = 0.0  # monotonic time; the end of the grace period


def code_of(module: str) -> str:
    """Return code for `python -c` that runs a module's `main`. Unlike `-m`, it always uses this copy of clusterkit."""
    root = str(Path(__file__).resolve().parents[2])
    return f"import sys; sys.path.insert(0, {root!r}); from {module} import main; main()"


def own_python(*words: str) -> list[str]:
    """Return the command line of clusterkit's own interpreter with these words.

    `-P` keeps the interpreter from importing what lies in the working directory: `typing.py`, say, or `clusterkit.py`.
    """
    return [sys.executable, "-P", *words]


def start_session(
    argv: Sequence[str],
    output: int | IO[bytes],
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program without input as the leader of a session; `output` gets its stdout and stderr. Raises OSError."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=env,
        cwd=cwd,
        pass_fds=pass_fds,
        start_new_session=True,
    )


class Helper:
    """A helper process of the supervisor, such as the switch, connected by the socket `channel`. Raises OSError.

    `argv` takes the descriptor of the helper's end of the socket, and returns the helper's command line. `env` is added
    to the inherited environment.
    """

    def __init__(self, argv: Callable[[int], Sequence[str]], log: Path, env: Mapping[str, str]) -> None:
        self.channel, other = socket.socketpair()
        try:
            with other, log.open("ab") as output:
                end = other.fileno()
                self._process = start_session(argv(end), output, {**os.environ, **env}, "/", (end,))
        except OSError:
            self.channel.close()
            raise
        self.pid = self._process.pid
        HELPER_PIDS.add(self.pid)
        self.pidfd = os.pidfd_open(self.pid)

    def has_ended(self, within: float) -> bool:
        """Wait up to so many seconds for the end of the process, and return whether it has ended."""
        return first_readable((self.pidfd,), within) is not None

    def leave(self) -> None:
        """Let the process go on, which ends by itself."""
        LEFT.append(self._process)
        HELPER_PIDS.discard(self.pid)
        os.close(self.pidfd)

    def end(self, within: float) -> None:
        """Wait for the process, which has been asked to end; kill it after `within` seconds. Always returns."""
        if first_readable((self.pidfd,), within) is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(KILLED_WITHIN)
        HELPER_PIDS.discard(self.pid)
        os.close(self.pidfd)


def first_readable(descriptors: Sequence[int], seconds: float | None = None) -> int | None:
    """Wait until one of the descriptors is readable or closed, and return that descriptor; None after `seconds`."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    found = poll.poll(None if seconds is None else max(0.0, seconds) * 1000)
    return found[0][0] if found else None


def become_subreaper() -> None:
    """Make this process the new parent of every descendant whose parent ends. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def on_child_end(callback: Callable[[], None]) -> Callable[[], object]:
    """Call `callback` whenever a child has ended; return a function that stops this. Both run in the main thread."""
    previous = signal.signal(signal.SIGCHLD, lambda *_: callback())
    return lambda: signal.signal(signal.SIGCHLD, previous)


def signal_attempt(child: AttemptChild, number: int) -> None:
    """Signal every process of the attempt's group; record the signal in `child.signals_sent` if the first process runs.

    A process that ends between the check and the signal counts as signalled. At worst, a program that had finished is
    restarted once more. With the opposite order, a program that obeyed the signal could count as finished.
    """
    if first_readable((child.pidfd,), 0) is None:
        child.signals_sent.append(number)
    signal_group(child, number)


def signal_group(child: AttemptChild, number: int) -> None:
    """Signal every process of the group. The leader is reaped last, so the group's id can't have been reused."""
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):  # no process is left that this user may signal
        return


def exit_of(child: AttemptChild) -> Exit | None:
    """Return how a process with a readable pidfd ended, without reaping it; None while a debugger holds the process."""
    info = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if info is None:
        return None
    if info.si_code == os.CLD_EXITED:
        return Exit(code=info.si_status)
    out_of_memory = info.si_status == SIGKILL and _killed_for_memory(child)
    return Exit(signal=info.si_status, out_of_memory=out_of_memory)


def reap_ended(pid: int) -> bool:
    """Reap a child if all of its threads have ended; return whether the child is gone."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    return True


def reap(child: AttemptChild) -> None:
    reap_ended(child.pid)
    if child.process is not None:
        # Otherwise Popen would wait for this pid in its finalizer, by which time the pid may belong to another process.
        child.process.returncode = 0
    os.close(child.pidfd)


def _killed_for_memory(child: AttemptChild) -> bool:
    """Return whether the OOM killer killed this process or, if the kernel's log is not readable, any process."""
    if procfs.oom_kills() <= child.oom_kills:
        return False
    try:
        log = _kernel_log()
    except OSError:
        return True
    return f"Killed process {child.pid} " in log


def _kernel_log() -> str:
    records = []
    with open_fd("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK) as descriptor, suppress(BlockingIOError):
        while True:
            with suppress(BrokenPipeError):  # the record was overwritten before it was read
                records.append(os.read(descriptor, 8192))
    return b"\n".join(records).decode(errors="replace")


def why_not_startable(python: str, env: Mapping[str, str]) -> str | None:
    """Try to start an interpreter; return the reason for a failure, as a clause, or None."""
    try:
        probe = subprocess.run(
            [python, "-I", "-S", "-c", "pass"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            env={**os.environ, **env},
        )
    except OSError as error:
        return error.strerror or str(error)
    except ValueError:
        return "a name can't contain a NUL character"
    except subprocess.TimeoutExpired:
        return "it did not answer within 20 s"
    if probe.returncode == 0:
        return None
    last = (probe.stderr or probe.stdout).decode(errors="replace").strip().splitlines()[-1:]
    return f"it exits with code {probe.returncode}" + (f" ({last[0]})" if last else "")
