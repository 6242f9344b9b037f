"""Each fault in a real parameter-server job: the job ends well, and its report says what its journal says."""

from __future__ import annotations

from typing import Any

import pytest

from clusterkit.pytest_plugin import Clusters
from clusterkit.words.events import FaultHealed, Resumed
from tests.recoveries import check_report

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240), pytest.mark.cluster(timeout=200, workers=2, ps=1)]

PROGRAM = "workloads/ps_train.py"
ARGS = ("--steps", 200, "--checkpoint-every", 40, "--step-time", 0.02)
ALL = ("chief:0", "worker:0", "worker:1", "ps:0")


def attempts_of(result: Any) -> dict[str, int]:
    """How often each task was started."""
    counts = dict.fromkeys(ALL, 0)
    for attempt in result.attempts:
        counts[str(attempt.task)] += 1
    return counts


@pytest.mark.parametrize(
    ("fault", "restarted"),
    [
        ("kill worker:1 @ step=100", {"worker:1": 2}),
        ("term ps:0 @ checkpoint", {"ps:0": 2, "chief:0": 2}),
        ("stop worker:1 for=2s @ step=60", {}),
        ("slow worker:* share=30% for=2s @ step=60", {}),
        ("hang-start worker:1 for=3s", {}),
    ],
)
def test_faults_of_processes(cluster: Clusters, fault: str, restarted: dict[str, int]) -> None:
    """What dies is started again, with what has to be; what is held up goes on afterwards."""
    run = cluster(PROGRAM, args=ARGS, fault=fault)
    result = run.wait()
    assert result.last_step == 200
    assert attempts_of(result) == dict.fromkeys(ALL, 1) | restarted
    check_report(run.directory)


@pytest.mark.parametrize(
    "fault",
    [
        "partition worker:1 for=2s @ step=60",
        "delay worker:1 by=20ms jitter=5ms for=2s @ step=60",
        "loss any share=5% for=2s @ step=60",
        "rate worker:1 limit=2MB for=2s @ step=60",
    ],
)
def test_faults_of_the_network(cluster: Clusters, fault: str) -> None:
    """Packets that are late, few or lost hold training up; nothing dies of it, and it goes on."""
    run = cluster(PROGRAM, args=ARGS, fault=fault, network="virtual", seed=5)
    result = run.wait()
    assert result.last_step == 200
    assert attempts_of(result) == dict.fromkeys(ALL, 1)
    check_report(run.directory)


def test_connections_that_are_reset(cluster: Clusters) -> None:
    """The coordinator takes the worker for lost, finds it again, and uses it again; no process ends."""
    run = cluster(PROGRAM, args=ARGS, fault="reset worker:1 @ step=60", network="virtual")
    result = run.wait()
    assert result.last_step == 200
    assert attempts_of(result) == dict.fromkeys(ALL, 1)
    check_report(run.directory)


def test_a_task_that_gets_no_more_memory(cluster: Clusters) -> None:
    """A ps needs some to save its variables, and dies without."""
    run = cluster(PROGRAM, args=ARGS, fault="memory ps:0 @ step=50")
    result = run.wait()
    assert result.last_step == 200
    attempts = attempts_of(result)
    # An operation of the ps may fail first, which ends the chief, and the ps itself a moment later: the chief's third.
    assert attempts["chief:0"] in (2, 3)
    assert attempts | {"chief:0": 2} == dict.fromkeys(ALL, 1) | {"ps:0": 2, "chief:0": 2}
    assert run.wait_for_event(FaultHealed).why == "its process has ended"
    check_report(run.directory)


def test_a_checkpoint_that_is_damaged(cluster: Clusters) -> None:
    """The chief goes on from the one before it, and the steps between are lost."""
    faults = ["corrupt-checkpoint @ checkpoint=2", "kill chief @ step=95"]
    run = cluster(PROGRAM, args=ARGS, fault=faults)
    result = run.wait()
    assert result.last_step == 200
    assert attempts_of(result) == dict.fromkeys(ALL, 1) | {"chief:0": 2}
    assert run.wait_for_event(Resumed, task="chief:0", attempt=2).step == 40
    check_report(run.directory)
    (recovery,) = result.recoveries
    assert recovery.lost is not None
    assert recovery.lost >= 40


def test_a_disk_that_is_full(cluster: Clusters) -> None:
    """The chief can't save, ends, and goes on from the checkpoint that there is once there is room again."""
    run = cluster(PROGRAM, args=ARGS, fault="disk-full for=2s @ step=50")
    result = run.wait()
    assert result.last_step == 200
    assert attempts_of(result)["chief:0"] >= 2
    assert run.wait_for_event(Resumed, task="chief:0", attempt=2).step == 40
    check_report(run.directory)
