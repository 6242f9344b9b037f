"""Processes that SIGKILL does not end, here since a debugger holds them: nobody waits longer than it says."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from clusterkit.system.process import AttemptChild, exit_of
from clusterkit.system.sweep import ProcessesSurvived, kill_until_gone
from tests.support import CHILDREN, Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]

THREADED = CHILDREN / "threaded.py"
Start = Callable[..., Up]


@contextmanager
def held(thread: int) -> Iterator[None]:
    """Somebody debugs a thread: when it dies, it stays until that one takes notice, here never."""
    words = [sys.executable, str(CHILDREN / "debugger.py"), str(thread)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as debugger:
        assert debugger.stdout is not None
        said = debugger.stdout.readline()
        if said != "held\n":
            debugger.kill()
            pytest.skip(f"no process can be traced here: {said.strip()}")
        yield


def second_thread(run: Up, task: str) -> int:
    """The thread of a task that is not its first one."""
    pid = run.wait_for("Spawned", task=task)["pid"]
    wait_until(lambda: b"two threads" in run.log(task), 30, "both threads")
    (thread,) = {int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()} - {pid}
    return thread


def test_a_run_ends_without_a_task_that_does_not_die(up: Start) -> None:
    """One thread of it is there yet, and so the process. The run says which, and has its result. Cold and warm."""
    modes = {"cold": ("--start", "cold"), "warm": ("--preload", "preloads.good")}
    job = ("--workers", "2", "--grace-period", "0.2", THREADED)
    runs = [up("--run-id", name, *mode, *job) for name, mode in modes.items()]  # at once: each waits for 10 s
    with ExitStack() as holding:
        for run in runs:
            holding.enter_context(held(second_thread(run, "worker:1")))
        for run in runs:
            run.signal(signal.SIGINT)
        for run in runs:
            assert run.wait(40) == 130
            pid = run.pids()["worker:1"][-1]
            assert f"worker:1 (pid {pid}) did not die within 10 s of SIGKILL: a debugger holds it" in run.output
            assert f"(pid {pid}): a debugger holds them" in run.output, "the guardian says it, too"
            assert (run.result["state"], run.result["reason"]) == ("stopped", "clusterkit got SIGINT")
            assert "Traceback" not in run.output
    gone = [Path(f"/proc/{run.pids()['worker:1'][-1]}") for run in runs]
    wait_until(lambda: not any(place.exists() for place in gone), 10, "their ends, when nobody holds them")


def test_a_task_whose_death_a_debugger_holds_back_keeps_no_other_waiting(up: Start) -> None:
    """How it ended is known when the debugger lets go; until then the others are looked after."""
    run = up("--start", "cold", "--workers", "2", "--restart-scope", "task", "--restart-backoff", "0", THREADED)
    second_thread(run, "worker:0")
    second_thread(run, "worker:1")
    with held(run.pids()["worker:0"][0]):
        run.kill("worker:0")
        run.kill("worker:1")
        run.wait_for("Spawned", task="worker:1", attempt=2, deadline=20)
        assert run.events("Exited", task="worker:0") == []
    assert run.wait_for("Exited", task="worker:0", deadline=10)["exit"]["signal"] == signal.SIGKILL
    run.wait_for("Spawned", task="worker:0", attempt=2, deadline=20)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 143


def test_a_zombie_that_a_debugger_holds_is_dead() -> None:
    """Its status can't be had yet, and a sweep does not wait for that."""
    process = subprocess.Popen(["sleep", "60"])
    pidfd = os.pidfd_open(process.pid)
    with held(process.pid):
        begun = time.monotonic()
        assert kill_until_gone(lambda: [process.pid]) == 1
        assert time.monotonic() - begun < 5
        assert exit_of(AttemptChild(process.pid, pidfd, "", 0)) is None
    select.select([pidfd], [], [])
    assert process.wait(10) == -signal.SIGKILL
    os.close(pidfd)


def test_what_is_made_faster_than_it_is_killed_ends_the_sweep() -> None:
    """With the pids that are there then."""
    made = list[subprocess.Popen[bytes]]()

    def find() -> list[int]:
        made.append(subprocess.Popen(["sleep", "60"]))
        return [made[-1].pid]

    with pytest.raises(ProcessesSurvived) as raised:
        kill_until_gone(find, 0.3)
    assert raised.value.pids == (made[-1].pid,)
    for process in made:
        process.kill()
        process.wait(10)
