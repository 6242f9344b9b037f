"""Processes: made, signalled, waited for without reaping, reaped."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from clusterkit.system import procfs
from clusterkit.words.outcome import SIGKILL, Exit

PR_SET_CHILD_SUBREAPER = 36
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the signals that end a run, or a campaign
KILLED_WITHIN = 2.0  # seconds that are waited for the end of a process of clusterkit's own that was killed


@dataclass(slots=True)
class Child:
    """A started attempt: its first process leads a session and a process group of its own."""

    pid: int  # also the id of its process group and its session
    pidfd: int
    pipe: str  # how /proc names the pipe that its output goes to
    oom_kills: int  # the system's count when it was started
    process: subprocess.Popen[bytes] | None = None  # None where a fork server made it
    reached: list[int] = field(default_factory=list)  # the signals that were sent while its first process ran


def code_of(module: str) -> str:
    """A text for `python -c` that runs `main` of a module. Not `-m`: wherever this clusterkit is, it finds the same."""
    root = str(Path(__file__).resolve().parents[2])
    return f"import sys; sys.path.insert(0, {root!r}); from {module} import main; main()"


def start_beside(words: Sequence[str], channel: int, log: int, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process of clusterkit's own beside the tasks, which has the descriptor `channel` too. Raises OSError."""
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=env,
        cwd="/",
        pass_fds=(channel,),
        start_new_session=True,
    )


def end_beside(process: subprocess.Popen[bytes], pidfd: int, within: float) -> None:
    """Wait until it has ended, which it was told to; after so many seconds it is killed, and soon left to itself."""
    ended = select.poll()
    ended.register(pidfd, select.POLLIN)
    if not ended.poll(within * 1000):
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_WITHIN)


def become_subreaper() -> None:
    """Inherit the orphans among this process's descendants."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def signal_attempt(child: Child, number: int) -> None:
    """Signal every process of the group, and note whether the first one still ran, so that it can answer.

    One that ends between the look and the signal counts as reached: that only restarts a program once more, while
    the other way round a program that obeyed could pass for one that was done.
    """
    ended = select.poll()
    ended.register(child.pidfd, select.POLLIN)
    if not ended.poll(0):
        child.reached.append(number)
    signal_group(child, number)


def signal_group(child: Child, number: int) -> None:
    """Signal every process of the group. The leader is not reaped before the group is swept, so the id is ours."""
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):  # all gone, or none left that we may signal
        return


def exit_of(child: Child) -> Exit | None:
    """How the process ended, without reaping it. Call it when its pidfd says that it has.

    None where a debugger holds its status; it comes when the debugger takes notice, or leaves.
    """
    info = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if info is None:
        return None
    if info.si_code == os.CLD_EXITED:
        return Exit(code=info.si_status)
    out_of_memory = info.si_status == SIGKILL and _killed_for_memory(child)
    return Exit(signal=info.si_status, out_of_memory=out_of_memory)


def reap(child: Child) -> None:
    """Give the pid back to the system."""
    with suppress(ChildProcessError):
        os.waitpid(child.pid, os.WNOHANG)
    if child.process is not None:
        # Popen would wait for this pid once more when it is collected, when the pid may be another's.
        child.process.returncode = 0
    os.close(child.pidfd)


def _killed_for_memory(child: Child) -> bool:
    """Whether the kernel says that it killed this process; where its log is closed to us, whether it killed any."""
    if procfs.oom_kills() <= child.oom_kills:
        return False
    try:
        log = _kernel_log()
    except OSError:
        return True
    return f"Killed process {child.pid} " in log


def _kernel_log() -> str:
    descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    records = []
    try:
        while True:
            try:
                records.append(os.read(descriptor, 8192))
            except BrokenPipeError:  # this record was overwritten meanwhile
                continue
    except BlockingIOError:
        return b"\n".join(records).decode(errors="replace")
    finally:
        os.close(descriptor)


def runs(python: str, env: Mapping[str, str]) -> str | None:
    """Why an interpreter does not start; None where it does."""
    try:
        probe = subprocess.run(
            [python, "-S", "-c", "pass"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            env={**os.environ, **env},
        )
    except OSError as error:
        return error.strerror or str(error)
    except ValueError:
        return "a name can't have a NUL character in it"
    except subprocess.TimeoutExpired:
        return "it did not answer within 20 s"
    if probe.returncode == 0:
        return None
    last = (probe.stderr or probe.stdout).decode(errors="replace").strip().splitlines()[-1:]
    return f"it ends with code {probe.returncode}" + (f" ({last[0]})" if last else "")
