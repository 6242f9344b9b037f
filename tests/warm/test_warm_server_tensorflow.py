"""The warm server with real TensorFlow; tests/warm/test_warm_server.py has the tests without it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_recovery import PS_JOB, check_recovered
from tests.servers import Commands, Start, Warm, parent, short_home
from tests.support import CHILDREN, is_fork_of, processes_of, wait_until

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]


@pytest.fixture
def home() -> Iterator[Path]:
    """Sockets are in it."""
    with short_home() as path:
        yield path


@pytest.fixture
def warm(home: Path, up: Start, clusterkit: Commands) -> Iterator[Warm]:
    """Start a server with TensorFlow, which ends after the test."""
    made = Warm(home, up, clusterkit, stub=False)
    yield made
    made("stop")


def test_a_job_comes_from_the_server_and_recovers(warm: Warm, home: Path) -> None:
    """A worker dies, then the server: the run's own fork server forks restarts. Then a run without the server."""
    pid = warm.start()
    run = warm.up(*PS_JOB, "--steps", "400")
    server = run.fork_server()
    run.wait_for("Checkpointed", deadline=90)
    assert parent(parent(run.supervisor)) == pid
    assert is_fork_of(server, pid), "it imports nothing"
    assert all(is_fork_of(pids[0], server) and is_fork_of(pids[0], pid) for pids in run.pids().values())
    os.kill(pid, signal.SIGKILL)
    run.kill("worker:1")
    again = run.wait_for("Spawned", task="worker:1", attempt=2)
    assert is_fork_of(again["pid"], server)
    check_recovered(run, {"worker:1": 2}, 400)
    assert run.events("Noted", server="lost") == []
    wait_until(lambda: not processes_of(home), 5, lambda: f"the end of it; left: {processes_of(home)}")


@pytest.mark.long
def test_a_gang_comes_from_the_server(warm: Warm) -> None:
    """Two at once; Ctrl-C ends one of them."""
    pid = warm.start()
    program = (CHILDREN / "preempted.py", "60")
    runs = [warm.up("--workers", "2", "--run-id", name, *program) for name in ("ended", "whole")]
    for run in runs:
        run.wait_for("Noted", server="ready", deadline=20)
        run.wait_for("Spawned", count=2)
        assert all(is_fork_of(pids[0], pid) for pids in run.pids().values())
    runs[0].signal(signal.SIGINT)
    assert runs[0].wait(30) == 130
    assert runs[1].wait(90) == 0, runs[1].output[-4000:]
    wait_until(lambda: "0 of 2 runs live" in warm("status"), 5, "their end")
