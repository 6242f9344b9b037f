"""Whatever is killed, nothing of a run is left once its command has ended, which is two seconds later."""

from __future__ import annotations

import os
import random
import select
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.system import procfs
from tests.losses import lose
from tests.support import CHILDREN, Up, processes_of, wait_until

pytestmark = pytest.mark.process

SOON = 2.0  # seconds: the promise; `make soak` has a machine that is quiet enough to keep it
QUICK = 12  # seeds that are tried without it
JOB = ("--workers", "2", "--ps", "1", "--restart-backoff", "0.1", "--grace-period", "0.5")
Start = Callable[..., Up]


def supervisor_of(run: Up) -> int:
    """The supervisor's pid from the first moment at which it exists."""
    return int(wait_until(lambda: next(iter(procfs.children(run.process.pid)), None), 20, "the supervisor"))


def remains(run: Up, home: Path) -> tuple[dict[int, str], set[int]]:
    """What of the run is alive, and on which of its ports anything listens."""
    started = bool([job for job in home.glob("runs/*/job.json") if job.read_text()])
    return processes_of(home), (run.ports() if started else set()) & procfs.listening_ports()


def end_of(pid: int) -> Callable[[], None]:
    """What waits for the end of a process; asked for before the process can be gone."""
    pidfd = os.pidfd_open(pid)

    def wait() -> None:
        assert select.select([pidfd], [], [], 20)[0], f"{pid} does not end"
        os.close(pidfd)

    return wait


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(QUICK, 300))]
)
def test_sigkill_of_the_supervisor_leaves_nothing(up: Start, home: Path, seed: int) -> None:
    """At a random moment of start, training, restart or teardown the supervisor dies, and everything with it."""
    moment = random.Random(seed).uniform(0.0, 2.0)  # a run takes about two seconds
    print(f"seed {seed}: SIGKILL after {moment:.3f} s")
    run = up(*JOB, CHILDREN / "clinging.py", "1.2", random.Random(seed).choice(["worker:1", "chief:0", "ps:0"]))
    supervisor = supervisor_of(run)
    threading.Event().wait(moment)  # the moment is the test's subject, not a wait for something
    try:
        os.kill(supervisor, signal.SIGKILL)
    except ProcessLookupError:
        print("the run was over by then")
    assert run.wait(20 if seed < QUICK else SOON) in (0, 1)
    assert remains(run, home) == ({}, set())


@pytest.mark.slow
@pytest.mark.parametrize("target", ["guardian", "supervisor"])
def test_each_of_the_two_ends_everything_when_the_other_is_killed(up: Start, home: Path, target: str) -> None:
    """Killing the guardian or the supervisor while all tasks cling to life ends them all."""
    run = up(*JOB, CHILDREN / "clinging.py", "60")
    wait_until(lambda: len(processes_of(home)) >= 2 + 4 * 4, 20, "every task and its three children")
    pair = (run.process.pid, run.supervisor)
    killed, other = pair if target == "guardian" else pair[::-1]
    last = end_of(other)
    os.kill(killed, signal.SIGKILL)
    last()
    assert remains(run, home) == ({}, set())
    assert run.wait(20) == (-signal.SIGKILL if target == "guardian" else 1)
    assert run.result["state"] == "failed"
    assert target in run.result["reason"]


def test_the_supervisors_death_is_told(up: Start) -> None:
    """Whoever watches the terminal learns that the supervisor was killed and that its tasks were ended."""
    run = up(*JOB, CHILDREN / "clinging.py", "60")
    run.wait_for("Spawned", task="ps:0")
    os.kill(run.supervisor, signal.SIGKILL)
    assert run.wait(10) == 1
    assert "the supervisor was killed by SIGKILL" in run.output
    assert "Traceback" not in run.output
    result = run.result
    assert [one["task"] for one in result["attempts"]] == ["chief:0", "worker:0", "worker:1", "ps:0"]
    assert all(one["exit"]["lost"] for one in result["attempts"])
    assert result["duration"] > 0
    assert result["goodput"] is not None


def test_both_killed_at_once_take_the_tasks_with_them(up: Start, home: Path) -> None:
    """When guardian and supervisor die together, the parent-death signal ends every task's first process."""
    run = up(*JOB, CHILDREN / "roles.py", "--steps", "100000")
    run.wait_for_step(1)
    lose(run)
    run.wait(20)
    # Nobody is there who has waited for the end of the tasks, which have half an hour to do.
    wait_until(lambda: remains(run, home) == ({}, set()), 20, lambda: f"nothing is left; there is {remains(run, home)}")


@pytest.mark.slow
def test_a_task_that_exits_leaves_no_descendants(up: Start, home: Path) -> None:
    """Children that left a failed task's group are dead before its next attempt starts."""
    run = up("--workers", "1", "--restart-backoff", "0", CHILDREN / "clinging.py", "1", "worker:0")
    first = run.wait_for("Spawned", task="worker:0")["pid"]
    run.wait_for("Swept")
    second = run.wait_for("Spawned", attempt=2)
    left = [e["left"] for e in run.events("Swept")]
    assert left[0] == 3  # the child in the group, the one in a session of its own, and the daemon that has no mark
    assert run.events("Swept")[0]["m"] < second["m"]
    assert procfs.stat(first) is None
    assert run.wait(20) == 0
    assert remains(run, home) == ({}, set())
