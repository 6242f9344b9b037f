"""TensorFlow jobs over a virtual network, with a host for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from clusterkit.network.virtual import why_not
from clusterkit.system import procfs
from tests.support import CHILDREN, WORKLOADS, Up, processes_of

WHY_NOT = why_not(network=True, disk=False)
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.both_starts,
    pytest.mark.timeout(120),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual network here: {WHY_NOT}"),
]
Start = Callable[..., Up]
JOBS: dict[str, tuple[tuple[str, ...], Path]] = {
    "ps": (("--workers", "2", "--ps", "1"), WORKLOADS / "ps_train.py"),
    "mwms": (("--workers", "2"), WORKLOADS / "mwms_train.py"),
}


def start(up: Start, job: str, step: int, gate: Path, *words: str) -> Up:
    """A job of 60 steps that waits for the gate at one step."""
    tasks, workload = JOBS[job]
    held = (CHILDREN / "held.py", str(step), gate, workload, "--steps", "60")
    return up("--network", "virtual", "--restart-backoff", "0", *tasks, *held, *words)


def exposed(home: Path) -> set[int]:
    """Ports of this machine on which processes of the run listen."""
    return {port for pid in processes_of(home) for port in procfs.listening_ports_of(pid)}


def networks(pids: Iterable[int | str]) -> set[str]:
    """The network namespaces of processes."""
    return {str(Path(f"/proc/{pid}/ns/net").readlink()) for pid in pids}


@pytest.mark.parametrize("job", ["ps", pytest.param("mwms", marks=pytest.mark.long)])
def test_a_job_trains_over_it(up: Start, home: Path, tmp_path: Path, job: str) -> None:
    """Each task's server listens at its own address alone, and this machine has no port of the run's."""
    run = start(up, job, 10, tmp_path / "go", "--checkpoint-every", "30")
    run.wait_for_step(10)
    pids = {task: pids[-1] for task, pids in run.pids().items()}
    assert len(networks(pids.values()) | networks(["self"])) == len(pids) + 1
    assert all(2222 in procfs.listening_ports(pid) for task, pid in pids.items() if task in run.job["endpoints"])
    assert exposed(home) == set()
    (tmp_path / "go").touch()
    assert run.wait(100) == 0, run.output[-4000:]
    assert run.result["last_step"] == 60
    assert run.result["restarts"] == 0


@pytest.mark.long
def test_a_gang_recovers_in_it(up: Start, tmp_path: Path) -> None:
    """The same addresses serve the next attempts."""
    run = start(up, "mwms", 40, tmp_path / "go", "--checkpoint-every", "20", "--step-time", "0.05")
    run.wait_for("Checkpointed")
    run.kill("worker:1")
    run.wait_for("Spawned", task="worker:1", attempt=2)
    (tmp_path / "go").touch()
    assert run.wait(100) == 0, run.output[-4000:]
    assert run.result["last_step"] == 60
    assert run.result["restarts"] == 1
