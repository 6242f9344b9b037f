"""TensorFlow's own list of what a parameter-server job has to survive, with clusterkit as the cluster.

The names in the docstrings are those of tensorflow/python/distribute/coordinator/fault_tolerance_test_base.py.
"""

from __future__ import annotations

import pytest

from clusterkit import Cluster
from clusterkit.api import Result
from clusterkit.pytest_plugin import Clusters
from clusterkit.words.events import Checkpointed, CheckpointFound, Failed, Ready, Resumed, Spawned
from tests.support import CHILDREN, checkpoint_number, wait_until

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(240),
    pytest.mark.cluster(workers=2, ps=1, timeout=100, restart_backoff="100ms"),
]

STEPS, CHECKPOINT_EVERY = 200, 20
NO_RESTARTS = {"chief:0": 1, "worker:0": 1, "worker:1": 1, "ps:0": 1}


def held(cluster: Clusters, program: str, word: str) -> Cluster:
    """A run whose chief waits for `go`."""
    run = cluster(CHILDREN / program, args=[word])
    said = "during" if program == "faults_cancelled.py" else word
    chief = run.tasks["chief:0"]
    wait_until(lambda: said in chief.logs().splitlines(), 60, lambda: f"{said!r}; the chief said {chief.logs()}")
    run.wait_for_event(Checkpointed)  # a thread of the chief writes it meanwhile
    return run


def go(run: Cluster) -> Result:
    """Let the chief continue to the end of the run."""
    (run.directory / "go").touch()
    return run.wait()


def kill(run: Cluster, *tasks: str) -> None:
    """Kill tasks at one moment; when this returns, their next attempts are ready."""
    attempts = {task: len(run.tasks[task].attempts) for task in tasks}
    for task in tasks:
        run.tasks[task].kill()
    for task, number in attempts.items():
        run.wait_for_event(Ready, task=task, attempt=number + 1)


def check_recovered(run: Cluster, result: Result, restarted: dict[str, int], steps: int = STEPS) -> None:
    """Exactly these tasks restarted, this often; training ended at its last step, and nothing is lost."""
    assert {name: len(task.attempts) for name, task in run.tasks.items()} == NO_RESTARTS | restarted
    assert (result.last_step, result.exit_code) == (steps, 0)
    check_resumptions(run)


def check_resumptions(run: Cluster) -> None:
    """A restarted chief resumed at the checkpoint that was the newest when it was started."""
    newest, at_start = 0, {1: 0}
    for event in run.events():
        if isinstance(event, Checkpointed):
            newest = event.step
        elif isinstance(event, Spawned) and str(event.task) == "chief:0":
            at_start[event.attempt] = newest
        elif isinstance(event, CheckpointFound) and str(event.task) == "chief:0":  # a killed one may not be reported
            at_start[event.attempt] = max(newest, checkpoint_number(event.path))
        elif isinstance(event, Resumed):
            assert event.step == at_start[event.attempt]
            assert event.attempt == 1 or event.step > 0


def all_train(run: Cluster) -> bool:
    """Whether the last steps were done by both workers."""
    return f"{STEPS} steps, the last ones by workers [0, 1]" in run.tasks["chief:0"].logs()


def test_a_worker_is_preempted_between_steps(cluster: Clusters) -> None:
    """testWorkerPreemptionBetweenFunctions: it is back before the coordinator schedules a step on it."""
    run = held(cluster, "faults_ps.py", "between")
    kill(run, "worker:1")
    check_recovered(run, go(run), {"worker:1": 2})
    assert all_train(run)


def test_a_worker_is_preempted_during_a_step(cluster: Clusters) -> None:
    """testWorkerPreemptionMidstFunction: its step is repeated."""
    run = held(cluster, "faults_ps.py", "during")
    kill(run, "worker:1")
    check_recovered(run, go(run), {"worker:1": 2})
    assert all_train(run)


@pytest.mark.long
def test_two_workers_are_preempted_at_once(cluster: Clusters) -> None:
    """testTwoWorkersPreempted: all workers, each during a step."""
    run = held(cluster, "faults_ps.py", "during")
    kill(run, "worker:0", "worker:1")
    check_recovered(run, go(run), {"worker:0": 2, "worker:1": 2})
    assert all_train(run)


@pytest.mark.long
def test_a_worker_is_preempted_three_times(cluster: Clusters) -> None:
    """testWorkerContinuousFailure: each time as soon as it is back."""
    run = held(cluster, "faults_ps.py", "during")
    for _ in range(3):
        kill(run, "worker:1")
    check_recovered(run, go(run), {"worker:1": 4})
    assert all_train(run)


def test_a_ps_fails_while_a_worker_recovers(cluster: Clusters) -> None:
    """testPSFailureWhileRecoveryFromWokerFailure: the chief restarts and resumes from a checkpoint."""
    run = held(cluster, "faults_ps.py", "during")
    run.tasks["worker:1"].kill()
    run.wait_for_event(Spawned, task="worker:1", attempt=2)
    run.tasks["ps:0"].kill()
    check_recovered(run, run.wait(), {"worker:1": 2, "ps:0": 2, "chief:0": 2})
    assert run.wait_for_event(Resumed, task="chief:0", attempt=2).step == CHECKPOINT_EVERY
    assert all_train(run)


@pytest.mark.long
def test_a_ps_fails_during_a_step(cluster: Clusters) -> None:
    """testJoinRaisesUnavailableErrorAtPsFailure: clusterkit restarts the chief with the ps."""
    run = held(cluster, "faults_ps.py", "during")
    run.tasks["ps:0"].kill()
    check_recovered(run, run.wait(), {"ps:0": 2, "chief:0": 2})
    assert run.wait_for_event(Resumed, task="chief:0", attempt=2).step == CHECKPOINT_EVERY
    assert str(run.wait_for_event(Failed).failure.task) == "ps:0"
    assert all_train(run)


def test_a_cancellation_while_a_worker_recovers(cluster: Clusters) -> None:
    """testOneWorkerPreemptionWithCancellation: join() raises, running steps are cancelled, and it can continue."""
    run = held(cluster, "faults_cancelled.py", "caught")
    run.tasks["worker:1"].kill()
    run.wait_for_event(Spawned, task="worker:1", attempt=2)
    check_recovered(run, go(run), {"worker:1": 2}, steps=60)
    said = run.tasks["chief:0"].logs().splitlines()
    assert [line for line in said if line.startswith("join: InvalidArgumentError: ")]
    assert "fetch: CancelledError" in said


def test_a_cancellation_that_ends_the_chief(cluster: Clusters) -> None:
    """The exception from join() is the cause; the chief's next attempt uses the same workers."""
    run = held(cluster, "faults_cancelled.py", "raised")
    check_recovered(run, go(run), {"chief:0": 2}, steps=60)
    failure = run.wait_for_event(Failed).failure
    assert (str(failure.task), failure.exit.code) == ("chief:0", 1)
    assert "InvalidArgumentError" in (failure.exception or "")


def test_a_chief_that_is_done_ends_while_a_worker_is_down(cluster: Clusters) -> None:
    """TensorFlow's coordinator by itself would wait for it forever; see test_tensorflow_facts.py."""
    run = cluster(CHILDREN / "facts_end.py", env={"HELPED": 1})
    wait_until(lambda: '"step": 16' in run.tasks["chief:0"].logs(), 60, "steps")
    run.fault("hang-start worker:1 for=1h")
    run.fault("kill worker:1")
    run.wait_for_event(Failed)
    wait_until(lambda: "UnavailableError" in run.tasks["chief:0"].logs(), 30, "the chief to notice")
    assert go(run).ok
