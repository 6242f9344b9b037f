"""Many clusters at once, and one of many tasks: every task has a port of its own, for as long as its run lives."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.system import procfs
from tests.support import CHILDREN, Up, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(180), pytest.mark.slow]

Start = Callable[..., Up]
TOGETHER = CHILDREN / "together.py"
ADDRESS = "127.0.0.77"  # one at which nobody else has a port, but who has it at all of them, as a run


def can_bind(port: int) -> bool:
    """Whether a program that knows nothing of clusterkit could take the port."""
    for reuse in (0, 1):
        with socket.socket() as rival:
            rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
            try:
                rival.bind((ADDRESS, port))
            except OSError:
                continue
            return True
    return False


def test_twenty_clusters_started_at_the_same_moment_share_no_port(up: Start, tmp_path: Path) -> None:
    """All of them are up together, no task fails to bind its port, and every cluster ends well."""
    go = tmp_path / "go"
    runs = [up("--run-id", f"run-{n}", "--workers", "2", TOGETHER, go) for n in range(20)]
    for run in runs:
        run.wait_for("Ready", deadline=100, count=2)
    ports = [port for run in runs for port in run.ports()]
    assert len(ports) == len(set(ports)) == 40
    assert set(ports) <= procfs.listening_ports()
    go.touch()
    assert [run.wait(60) for run in runs] == [0] * 20


def test_a_job_of_sixty_four_tasks(up: Start, tmp_path: Path) -> None:
    """Every task comes up on a port of its own, and the end takes no longer for there being many."""
    go = tmp_path / "go"
    run = up("--workers", "60", "--ps", "3", TOGETHER, go)
    run.wait_for("Ready", deadline=100, count=64)
    assert len(run.ports()) == 64
    assert len(run.pids()) == 64
    go.touch()
    assert run.wait(30) == 0


def test_a_port_stays_held_between_two_attempts(up: Start) -> None:
    """Nobody else gets the port of a task that waits for its restart."""
    steps = ("--steps", "150", "--fail", "worker:1:1:3:1")
    run = up("--workers", "2", "--restart-backoff", "1s", CHILDREN / "roles.py", *steps)
    run.wait_for("RestartPlanned", deadline=20)
    port = int(run.job["endpoints"]["worker:1"].rpartition(":")[2])

    def is_back() -> bool:
        assert not can_bind(port)
        return bool(run.events("Spawned", task="worker:1", attempt=2))

    wait_until(is_back, 20, "the second attempt")
    assert run.wait(20) == 0


def test_ports_are_given_back_after_the_run(up: Start, home: Path, tmp_path: Path) -> None:
    """Once the command has ended, anybody can bind them."""
    (tmp_path / "go").touch()
    run = up("--workers", "2", TOGETHER, tmp_path / "go")
    assert run.wait(20) == 0
    assert processes_of(home) == {}
    assert all(can_bind(port) for port in run.ports())
