"""Each fault in a real parameter-server job: the job ends well, and its report says what its journal says.

Faults that need not end a job are in one, some hundred steps apart, and the tests look at what came of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clusterkit import Cluster
from clusterkit.api import Result
from clusterkit.network.virtual import why_not
from clusterkit.pytest_plugin import Clusters
from clusterkit.words.account import InjectedFault
from clusterkit.words.events import Failed, FaultHealed, FaultTook, Resumed, Spawned
from tests.recoveries import check_report
from tests.support import CHILDREN, WORKLOADS, processes_of

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300), pytest.mark.cluster(timeout=200, workers=2, ps=1)]

ARGS = ("--steps", 200, "--checkpoint-every", 40, "--step-time", 0.02)
ALL = ("chief:0", "worker:0", "worker:1", "ps:0")
# With what each of them restarts.
OF_PROCESSES: dict[str, dict[str, int]] = {
    "hang-start worker:1 for=3s": {},
    "slow worker:* share=30% for=2s @ step=20": {},
    "term ps:0 @ checkpoint=2": {"ps:0": 1, "chief:0": 1},
    "stop worker:1 for=2s @ step=220": {},
    "kill worker:1 @ step=300": {"worker:1": 1},
}
OF_THE_NETWORK = (
    "partition worker:1 for=2s @ step=40",
    "delay worker:1 by=20ms jitter=5ms for=2s @ step=140",
    "loss any share=5% for=2s @ step=260",
    "rate worker:1 limit=2MB for=2s @ step=380",
    "reset worker:1 @ step=500",
)


def attempts_of(result: Any) -> dict[str, int]:
    """The number of starts of each task."""
    counts = dict.fromkeys(ALL, 0)
    for attempt in result.attempts:
        counts[str(attempt.task)] += 1
    return counts


def row_of(result: Result, fault: str) -> InjectedFault:
    """The recovery from the only fault of this kind in the run."""
    (row,) = (row for row in result.faults if row.action == fault.split()[0])
    return row


def restarted_by(result: Result, number: int) -> Counter[str]:
    """The tasks that started again because of a fault, and how often."""
    return Counter(
        str(one.task) for recovery in result.recoveries if number in recovery.faults for one in recovery.returns
    )


def held(gate: Path, step: int, *args: object) -> dict[str, Any]:
    """The training program, whose chief waits at a step until the gate is there."""
    return {"program": CHILDREN / "held.py", "args": [step, gate, WORKLOADS / "ps_train.py", *args]}


@contextmanager
def whole_run(home: Path, faults: tuple[str, ...], steps: int, **options: Any) -> Iterator[Cluster]:
    """A job into which all of these faults are injected; it waits for the gate `go` shortly before its end."""
    job = held(home / "go", steps - 20, "--steps", steps, "--checkpoint-every", 60, "--step-time", 0.05)
    job |= {"workers": 2, "ps": 1, "timeout": 200, "fault": list(faults)} | options
    with Cluster(home=home, patience=220, **job) as cluster:
        yield cluster
    assert processes_of(home) == {}


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """All faults of processes."""
    home = tmp_path_factory.mktemp("processes")
    with whole_run(home, tuple(OF_PROCESSES), 400) as run:
        run.wait_for_event(Spawned, task="worker:1", attempt=2)
        (home / "go").touch()
        yield run.wait()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """All faults of the network."""
    if reason := why_not(network=True, disk=False):
        pytest.skip(f"no virtual network here: {reason}")
    home = tmp_path_factory.mktemp("network")
    with whole_run(home, OF_THE_NETWORK, 600, network="virtual", seed=5) as run:
        run.wait_for_event(FaultTook, number=len(OF_THE_NETWORK))
        (home / "go").touch()
        yield run.wait()


@pytest.mark.parametrize("fault", OF_PROCESSES)
def test_faults_of_processes(processes: Result, fault: str) -> None:
    """Dead tasks restart together with those that depend on them; stopped or slowed tasks continue afterwards."""
    row = row_of(processes, fault)
    assert row.done
    assert restarted_by(processes, row.number) == OF_PROCESSES[fault]
    assert bool(row.died) == bool(OF_PROCESSES[fault])
    assert row.died or row.healed is not None


def test_a_job_survives_all_faults_of_processes(processes: Result) -> None:
    """The job ends at its last step, no task restarted for another reason, and the report matches the journal."""
    assert processes.last_step == 400
    started = Counter(dict.fromkeys(ALL, 1))
    for restarted in OF_PROCESSES.values():
        started.update(restarted)
    assert attempts_of(processes) == started
    check_report(processes.directory)


@pytest.mark.parametrize("fault", OF_THE_NETWORK)
def test_faults_of_the_network(network: Result, fault: str) -> None:
    """Late, limited or lost packets slow training down, but no task dies."""
    row = row_of(network, fault)
    assert row.done
    assert row.died == ()
    assert row.went_on or row.first_step is not None
    assert fault.startswith("reset") or row.healed is not None


def test_a_job_survives_all_faults_of_the_network(network: Result) -> None:
    """No process ends: even after reset connections the coordinator reconnects to the worker."""
    assert network.last_step == 600
    assert attempts_of(network) == dict.fromkeys(ALL, 1)
    check_report(network.directory)


@pytest.mark.long
def test_a_task_without_more_memory(cluster: Clusters, tmp_path: Path) -> None:
    """A ps that needs memory dies without it, and recovers."""
    job = held(tmp_path / "go", 140, *ARGS) | {"program": CHILDREN / "needs_memory.py"}
    run = cluster(**job, fault="memory ps:0 @ step=50")
    run.wait_for_event(FaultTook)
    (tmp_path / "go").touch()
    result = run.wait()
    assert result.last_step == 200
    attempts = attempts_of(result)
    # An operation of the ps may fail first, which ends the chief, and the ps itself a moment later: the chief's third.
    assert attempts["chief:0"] in (2, 3)
    assert attempts | {"chief:0": 2} == dict.fromkeys(ALL, 1) | {"ps:0": 2, "chief:0": 2}
    assert run.wait_for_event(FaultHealed).why == "its process has ended"
    check_report(run.directory)


def test_a_checkpoint_that_is_damaged(cluster: Clusters, tmp_path: Path) -> None:
    """The chief resumes from the checkpoint before it, and the steps between are lost."""
    run = cluster(**held(tmp_path / "go", 100, *ARGS), fault="corrupt-checkpoint @ checkpoint=2")
    run.wait_for_event(FaultTook)
    run.wait_for_step(100)
    run.fault("kill chief")
    run.wait_for_event(Spawned, task="chief:0", attempt=2)
    (tmp_path / "go").touch()
    result = run.wait()
    assert result.last_step == 200
    assert attempts_of(result) == dict.fromkeys(ALL, 1) | {"chief:0": 2}
    assert run.wait_for_event(Resumed, task="chief:0", attempt=2).step == 40
    check_report(run.directory)
    (recovery,) = result.recoveries
    assert recovery.lost is not None
    assert recovery.lost >= 40


@pytest.mark.long
def test_a_disk_that_is_full(cluster: Clusters, tmp_path: Path) -> None:
    """The chief fails to save and ends; when there is space again, it resumes from the last checkpoint."""
    run = cluster(**held(tmp_path / "go", 50, *ARGS), fault="disk-full @ checkpoint=1")
    run.wait_for_event(FaultTook)
    (tmp_path / "go").touch()
    run.wait_for_event(Failed)
    run.heal()
    result = run.wait()
    assert result.last_step == 200
    assert attempts_of(result)["chief:0"] >= 2
    assert run.wait_for_event(Resumed, task="chief:0", attempt=2).step == 40
    check_report(run.directory)
