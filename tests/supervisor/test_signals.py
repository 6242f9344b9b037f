"""Ctrl-C, SIGTERM, timeouts: who asks for the end gets it, with the grace period and the logs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusterkit.system import procfs
from tests.support import CHILDREN, ROOT, Command, Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

STUBBORN = CHILDREN / "stubborn.py"
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGCHLD)
Start = Callable[..., Up]
Clusterkit = Callable[..., Command]


def seconds_to_end(run: Up) -> float:
    """From the first word of the end to the last, by the journal."""
    begun = run.events("Stopping")[0]["m"]
    return float(run.events("Finished")[0]["m"] - begun)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_run_with_its_code(up: Start, number: int, code: int) -> None:
    """Tasks get SIGTERM, say goodbye into complete logs, and the exit code names the signal."""
    run = up("--workers", "2", STUBBORN, "obey")
    run.wait_for("Ready", task="worker:0")
    run.wait_for("Ready", task="worker:1")
    run.signal(number)
    assert run.wait(20) == code
    assert run.result["state"] == "stopped"
    for task in ("worker:0", "worker:1"):
        assert run.log(task).endswith(b"got SIGTERM\nlast words\n")
        assert f"{task}   │ last words\n" in run.output


@pytest.mark.parametrize("how", ["signal", "down", "restart"])
def test_a_task_that_somebody_stopped_can_still_save(up: Start, clusterkit: Clusterkit, how: str) -> None:
    """SIGCONT follows SIGTERM: a process that is stopped handles no signal, and would be killed after its grace."""
    run = up("--workers", "2", "--grace-period", "15", STUBBORN, "obey")
    run.wait_for("Ready", task="worker:0")
    run.wait_for("Ready", task="worker:1")
    (spawned,) = run.events("Spawned", task="worker:1")
    pid = int(spawned["where"].removeprefix("pid "))
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: (procfs.stat(pid) or "?")[0] == "T", 5, "the task to stop")
    if how == "signal":
        run.signal(signal.SIGTERM)
    else:
        assert clusterkit(how, *(["worker:1"] if how == "restart" else [])).wait(30) == 0
    if how == "restart":
        run.signal(signal.SIGTERM)
    assert run.wait(20) == 143
    assert run.log("worker:1", 1).endswith(b"got SIGTERM\nlast words\n")
    assert run.events("Exited", task="worker:1")[0]["exit"]["signal"] != signal.SIGKILL


def test_a_task_that_ignores_sigterm_takes_the_grace_period_and_no_more(up: Start) -> None:
    """SIGKILL comes at the end of the grace period, which is one for all tasks."""
    run = up("--workers", "6", "--grace-period", "1.5", STUBBORN, "ignore")
    for index in range(6):
        run.wait_for("Ready", task=f"worker:{index}")
    run.signal(signal.SIGINT)
    assert run.wait(20) == 130
    assert 1.5 <= seconds_to_end(run) < 6 * 1.5
    assert all(a["exit"]["signal"] == signal.SIGKILL for a in run.result["attempts"])


def test_a_second_ctrl_c_kills_at_once(up: Start) -> None:
    """A user who presses Ctrl-C twice does not wait for a grace period of a minute."""
    run = up("--workers", "2", "--grace-period", "60", STUBBORN, "ignore")
    run.wait_for("Ready", task="worker:0")
    run.wait_for("Ready", task="worker:1")
    run.signal(signal.SIGINT)
    run.wait_for("Changed", state="stopping", count=2)
    wait_until(lambda: run.log("worker:0").endswith(b"got SIGTERM\n"), 20, "the word of SIGTERM")
    run.signal(signal.SIGINT)
    assert run.wait(10) == 130
    assert seconds_to_end(run) < 10


def test_sigterm_twice_keeps_the_grace_period(up: Start) -> None:
    """`timeout` and some init systems send SIGTERM twice; that is one wish."""
    run = up("--workers", "1", "--grace-period", "1.5", STUBBORN, "ignore")
    run.wait_for("Ready")
    run.signal(signal.SIGTERM)
    run.wait_for("Changed", state="stopping")
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 143
    assert seconds_to_end(run) >= 1.5


def test_the_timeout_ends_the_job_with_124(up: Start) -> None:
    """--timeout is for the whole job."""
    run = up("--workers", "2", "--timeout", "1s", STUBBORN, "obey")
    assert run.wait(30) == 124
    assert run.result["state"] == "timed out"
    assert "took longer than its timeout of 1 s" in run.output


def test_ctrl_c_during_the_backoff_ends_at_once(up: Start) -> None:
    """A run that waits to restart a task has nothing to wait for."""
    run = up("--workers", "1", "--restart-backoff", "60", CHILDREN / "roles.py", "--fail", "worker:0:1:1:3")
    run.wait_for("RestartPlanned")
    run.signal(signal.SIGINT)
    assert run.wait(10) == 130


@contextmanager
def started_carelessly() -> Iterator[None]:
    """What starts a command in here ignores some signals, as nohup and a script's background do, and blocks others."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in IGNORED}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("mode", [(), ("--start", "cold")], ids=["warm", "cold"])
def test_what_the_caller_ignores_and_blocks_is_nothing_to_a_run(up: Start, mode: tuple[str, ...]) -> None:
    """The end of tasks is noticed, they take every signal, and the run does, but for the hangup that nohup is for."""
    with started_carelessly():
        run = up(*mode, "--restart-backoff", "0", "--grace-period", "60", "sleep", "60")
    for attempt, number in enumerate((signal.SIGINT, signal.SIGHUP, signal.SIGUSR1), 1):
        run.wait_for("Spawned", attempt=attempt)
        run.kill("worker:0", number)
        assert run.wait_for("Exited", deadline=10, attempt=attempt)["exit"]["signal"] == number
    run.wait_for("Spawned", attempt=4)
    run.signal(signal.SIGHUP)
    run.signal(signal.SIGTERM)
    assert run.wait(10) == 143


def test_a_ctrl_c_while_the_run_starts_is_not_lost(up: Start, home: Path) -> None:
    """However early the signal comes, the command ends with its code, or of it where it had not begun."""
    run = up("--workers", "2", STUBBORN, "obey")
    run.signal(signal.SIGINT)
    # Python itself exits with 1 where the signal comes while it makes its streams or looks for its packages.
    assert run.wait(30) in (130, -signal.SIGINT) or "Fatal Python error: init_" in run.output, run.output


ELSEWHERE = """
import os, signal, threading, time
from clusterkit.supervisor.guardian import forwarding, wait_for_supervisor

if (pid := os.fork()) == 0:
    time.sleep(100)

def elsewhere():
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

with forwarding(pid):
    threading.Thread(target=elsewhere).start()
    wait_for_supervisor(pid, os.dup(1), lambda how, left: print(how, left))
"""


def test_the_guardian_passes_on_a_signal_that_does_not_interrupt_its_wait() -> None:
    """As one that comes just before it waits. Here another thread gets it, which leaves the wait alone, too."""
    command = [sys.executable, "-c", ELSEWHERE]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=50, check=False)
    assert told.stdout == b"was killed by SIGTERM 0\n"
