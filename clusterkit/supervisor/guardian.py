"""The guardian: the supervisor's parent process. If either is killed, the other ends all processes of the run.

In a run that a warm server has started, this module is the main program of both processes:

    python -c ... RUN_ID guardian SUPERVISOR REPORT HELD
    python -c ... RUN_ID supervisor FORK_SERVER CHANNEL LIFELINE JOB GUARDIAN COMMAND [OWNER]

SUPERVISOR and FORK_SERVER are pids; the other arguments after the role are descriptors. HELD is the guardian's end of
its lifeline to the supervisor. GUARDIAN, COMMAND and OWNER are lifelines to processes that the run must not outlive.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from clusterkit.store.directory import RunDirectory
from clusterkit.supervisor.signals import Watchdog
from clusterkit.supervisor.terminal_stop import pausing_on_stop
from clusterkit.system.barrier import reporting_shortage
from clusterkit.system.poller import Wakeup
from clusterkit.system.process import ENDING, become_subreaper
from clusterkit.system.sweep import KILL_TIMEOUT, ProcessesSurvived, end_descendants
from clusterkit.words.errors import BadJob
from clusterkit.words.outcome import signal_name

Supervise = Callable[[int], int]  # takes the lifeline to the guardian, returns the exit code
# Called with a clause that describes how the supervisor was killed, and the number of processes that it left behind.
# Returns the exit code; None stands for 1.
Lost = Callable[[str, int], int | None]
Signals = Sequence[signal.Signals]


def guard(
    supervise: Supervise,
    on_lost: Lost,
    signals: Signals = ENDING,
    watchdog: Watchdog | None = None,
    run: RunDirectory | None = None,
) -> int:
    """Run `supervise` in a child process and return its exit code; call `on_lost` if the child was killed.

    The `signals` are passed on to the child; the `watchdog` ends a child that does not react. If the
    terminal stops this process, the `run` is paused. Raises OutOfResources.
    Call this before any thread is started: the child is forked, which takes a hundredth of an interpreter's start time.
    The child leads its own process group, so that it receives a Ctrl-C once: from this process, not from the terminal.
    """
    become_subreaper()
    flush()
    # Signals are blocked until both processes have installed handlers, so that no default action occurs.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        with reporting_shortage():
            pid, lifeline, own_end = _fork()
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    if pid == 0:
        os.close(own_end)
        exit_after(lambda: _run_supervisor(supervise, lifeline))
    os.close(lifeline)
    with suppress(OSError):  # the child does the same, and either process may be first
        os.setpgid(pid, pid)
    with forwarding(pid, signals, watchdog), nullcontext() if run is None else pausing_on_stop(run, pid):
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return wait_for_supervisor(pid, own_end, on_lost, watchdog)


def _fork() -> tuple[int, int, int]:
    """Fork, and return the pid and the ends of the lifeline: a pipe without data that closes when the guardian ends."""
    lifeline, own_end = os.pipe2(os.O_CLOEXEC)
    try:
        return os.fork(), lifeline, own_end
    except OSError:
        os.close(lifeline)
        os.close(own_end)
        raise


@contextmanager
def forwarding(pid: int, signals: Signals = ENDING, watchdog: Watchdog | None = None) -> Iterator[None]:
    """Pass signals on to a process, and report them to the `watchdog`."""

    def forward(number: int, _: FrameType | None) -> None:
        if watchdog is not None:
            watchdog.note_signal(number)
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    handled = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, forward) for number in handled}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def wait_for_supervisor(pid: int, own_end: int, on_lost: Lost, watchdog: Watchdog | None = None) -> int:
    """Wait for the supervisor, end the processes that it leaves, and close the lifeline; return the exit code."""
    with suppress(OSError), Wakeup() as wakeup:  # without a free descriptor, the user may have to send a signal twice
        pidfd = os.pidfd_open(pid)
        while not wakeup.wait(pidfd, None if watchdog is None else watchdog.check(pid)):
            pass
        os.close(pidfd)
    _, status = os.waitpid(pid, 0)
    # A supervisor that was not killed has already ended its processes.
    left_behind = _end_descendants(KILL_TIMEOUT if os.WIFSIGNALED(status) else 2.0)
    os.close(own_end)
    if os.WIFSIGNALED(status):
        killed = watchdog.killed if watchdog is not None else ""
        return on_lost(killed or f"was killed by {signal_name(os.WTERMSIG(status))}", left_behind) or 1
    return os.WEXITSTATUS(status)


def check_lifeline(lifeline: int) -> None:
    """Check that a descriptor is an inherited pipe, and keep tasks from inheriting it. Raises BadJob."""
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(lifeline).st_mode)
        os.set_inheritable(lifeline, False)
    except (OSError, OverflowError, ValueError):
        is_pipe = False
    if not is_pipe:
        raise BadJob([f"--lifeline {lifeline} is not a pipe that this process has inherited."])


def flush() -> None:
    """Write out buffered output, which would otherwise be written twice after a fork."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def handle_sigttou() -> None:
    """Let this process write from the background to a terminal with `stty tostop` without being stopped.

    SIGTTOU is handled instead of ignored, since the tasks would inherit SIG_IGN.
    """
    signal.signal(signal.SIGTTOU, lambda number, frame: None)


def exit_after(work: Callable[[], int]) -> NoReturn:
    """Run `work`, and then exit this process with the code that it returned, or with 1 after an exception."""
    code = 1
    try:
        code = work()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        flush()
        os._exit(code)


def _run_supervisor(supervise: Supervise, lifeline: int) -> int:
    with suppress(OSError):
        os.setpgid(0, 0)
    become_subreaper()
    handle_sigttou()
    return supervise(lifeline)


def _end_descendants(within: float) -> int:
    try:
        return end_descendants(within)
    except ProcessesSurvived as error:
        with suppress(OSError, ValueError):  # the output may be closed, but the result must still be written
            print(f"clusterkit: {error}", file=sys.stderr, flush=True)
        return len(error.pids)


def detach(work: Callable[[], int], console: Path, kept_fd: int | None = None) -> int:
    """Run `work` in a child process with its own session; return the pid at once. Raises OutOfResources.

    The child's output is appended to `console`; `kept_fd` stays open in the child. Call this function before starting
    threads. It forks only once, so that the caller can learn how the child ends. If the caller ends, init adopts the
    child.
    """
    flush()
    with reporting_shortage():
        pid = os.fork()

    def detached() -> int:
        _leave_terminal(console, kept_fd)
        return work()

    if pid == 0:
        exit_after(detached)
    return pid


def _leave_terminal(console: Path, kept_fd: int | None) -> None:
    """Leave the terminal, and close inherited pipes and locks, since other processes may wait until they are closed."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(console, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    highest = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, highest if kept_fd is None else kept_fd)
    if kept_fd is not None:
        os.closerange(kept_fd + 1, highest)


def exit_code(status: int) -> int:
    """Return the exit code from a wait status, or 1 if a signal ended the process."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1


def main() -> None:
    run_id, role, *numbers = sys.argv[1:]
    other, *descriptors = map(int, numbers)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    exit_after(
        lambda: run_guardian(run_id, other, *descriptors) if role == "guardian" else run_supervisor(other, *descriptors)
    )


def run_guardian(run_id: str, supervisor: int, report: int, own_end: int) -> int:
    """Wait for the supervisor, and write its exit code to the pipe `report` for the command that started the run."""
    from clusterkit.store.store import RunStore
    from clusterkit.supervisor.crashes import supervisor_lost

    watchdog = Watchdog(RunStore().run(run_id))
    with forwarding(supervisor, watchdog=watchdog):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        code = wait_for_supervisor(supervisor, own_end, lambda how, left: supervisor_lost(run_id, how, left), watchdog)
    with suppress(BrokenPipeError):  # the command was killed
        os.write(report, str(code).encode())
    return code


def run_supervisor(server: int, channel: int, lifeline: int, job: int, *owners: int) -> int:
    """Run the job that is pickled in the file `job`, with a fork server that is already running."""
    import pickle  # imported here, since most guardians do not need it

    from clusterkit.supervisor.prepare import PendingRun
    from clusterkit.supervisor.up import GUARDIAN, OWNER
    from clusterkit.supervisor.up import supervise as supervise_run
    from clusterkit.warm.fork_client import StartedServer

    handle_sigttou()
    with os.fdopen(job, "rb") as file:
        run: PendingRun = pickle.load(file)
    names = (GUARDIAN, "the command that started the run", OWNER)
    return supervise_run(run, dict(zip(owners, names, strict=False)), StartedServer(server, channel, lifeline))
