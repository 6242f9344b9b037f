"""SIGKILL of a run's fork server at random moments has no effect on the job, and leaves nothing behind."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from clusterkit.warm.fork_client import TRIES
from tests.support import CHILDREN, Up, fork_server_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]

# Every kind of restart: of a worker alone, of the ps with the chief, and of the chief alone.
JOB = ("--workers", "2", "--ps", "1", "--restart-backoff", "0.1", "--grace-period", "1", "--preload", "preloads.good")
FAILS = ("worker:1:1:10:-9", "ps:0:1:30:-9", "chief:0:2:40:3")
# The chief's first attempt does not get to its end before the death of the ps ends it.
HOLD = ("--hold", "chief:0:1:50")
PROGRAM = (CHILDREN / "roles.py", "--steps", "60", *HOLD, *(word for fail in FAILS for word in ("--fail", fail)))
STARTED = {"chief:0": 3, "worker:0": 1, "worker:1": 2, "ps:0": 2}
FORK_NO_EXEC = 0x40  # among the flags in /proc/PID/stat: PF_FORKNOEXEC
Start = Callable[..., Up]

# After which event the server dies, and which one of its kind; None: as soon as there is a server at all.
MOMENTS: list[tuple[str | None, int]] = [
    (None, 1),
    ("Noted", 1),  # a fork server is ready
    *(("Spawned", count) for count in range(1, 9)),
    *(("RestartPlanned", count) for count in (1, 2, 3)),
    *(("Exited", count) for count in (1, 3)),
    ("Progressed", 1),
    ("Succeeded", 1),
]


def is_fork(pid: int) -> bool:
    """Whether a process has its parent's command line, as a task that still looks like the server does."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return bool(int(fields[6]) & FORK_NO_EXEC)


def kill_server(run: Up, home: Path, moment: tuple[str | None, int], later: float) -> bool:
    """Kill the current server a little after that event; return whether there was one."""
    kind, count = moment
    if kind is None:
        wait_until(lambda: fork_server_of(home), 20, "a fork server")
    else:
        wait_until(lambda: len(run.events(kind)) >= count or run.process.poll() is not None, 40, f"{count} {kind}")
    threading.Event().wait(later)  # the moment is the test's subject, not a wait for something
    server = fork_server_of(home)
    if server is None or is_fork(server):
        return False
    with suppress(ProcessLookupError):
        os.kill(server, signal.SIGKILL)
    return True


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(10, 110))])
def test_sigkill_of_the_fork_server_changes_nothing(up: Start, home: Path, seed: int) -> None:
    """Before it is ready, while tasks start and restart, and at the end: attempts and result are the same."""
    rng = random.Random(seed)
    moments = sorted(rng.sample(range(len(MOMENTS)), rng.choice((1, 1, 2, 4))))
    if seed < len(MOMENTS):
        moments = sorted({*moments, seed})  # each of them at least once
    run = up(*JOB, *PROGRAM)
    for number in moments:
        later = rng.choice((0.0, rng.uniform(0.0, 0.02), rng.uniform(0.0, 0.3)))
        found = kill_server(run, home, MOMENTS[number], later)
        print(f"seed {seed}: SIGKILL {later:.3f} s after {MOMENTS[number]}{'' if found else ', but there was none'}")
    assert run.wait(40) == 0, run.output[-4000:]
    assert {task: len(pids) for task, pids in run.pids().items()} == STARTED, run.output[-4000:]
    assert run.result["restarts"] == 3
    failed = [(event["failure"]["task"], event["failure"]["attempt"]) for event in run.events("Failed")]
    assert sorted(failed) == [("chief:0", 2), ("ps:0", 1), ("worker:1", 1)]


def test_each_server_is_killed_as_soon_as_it_is_ready(up: Start, tmp_path: Path) -> None:
    """The run continues between servers, and without one once three of them have forked nothing."""
    enough = tmp_path / "enough"
    run = up(*JOB, *PROGRAM, "--until", enough)
    killed = 0
    while run.process.poll() is None:
        ready = run.events("Noted", server="ready")
        if len(ready) > killed:
            killed = len(ready)
            with suppress(ProcessLookupError):
                os.kill(int(ready[-1]["pid"]), signal.SIGKILL)
        if killed >= TRIES:
            enough.touch()
        threading.Event().wait(0.005)
    assert run.wait(1) == 0, run.output[-4000:]
    assert {task: len(pids) for task, pids in run.pids().items()} == STARTED
    assert killed >= TRIES
