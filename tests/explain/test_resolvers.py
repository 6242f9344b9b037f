"""What TensorFlow says about tasks that do not find each other, as it was recorded, and the row that fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from clusterkit.check.findings import Finding, Location
from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, StuckTask, TaskEvidence
from clusterkit.explain.rows.resolvers import ROWS
from clusterkit.words.distribution import Undistributed, WhyAlone
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit, RunState
from tests.explain.test_ordinary_bugs import job_of

GANG = job_of(workers=2)
WAITS = "waits in MultiWorkerMirroredStrategy() for the others (coordination service)"
FRAME = 'Traceback (most recent call last):\n  File "/home/me/train.py", line 7, in <module>\n    '
DISALLOWED = (
    "ValueError: Disallowed task type found in cluster spec. Allowed types are ('chief', 'worker', 'evaluator', 'ps', "
    "None) and the cluster spec is ClusterSpec({'leader': ['127.0.0.1:4']})."
)
INCARNATION = (
    "InternalError: Barrier failed because: task is set to ERROR: ABORTED: /job:worker/replica:0/task:1 unexpectedly "
    "tried to connect with a different incarnation. It has likely restarted."
)
NOT_JSON = (
    f'{FRAME}strategy = tf.distribute.MultiWorkerMirroredStrategy()\n  File "/v/cluster_resolver/'
    'tfconfig_cluster_resolver.py", line 48, in _load_tf_config\n    return json.loads(os.environ)\n  File "/v/json/'
    'decoder.py", line 353, in raw_decode\njson.decoder.JSONDecodeError: Expecting property name enclosed in double '
)


def worker(index: int) -> Task:
    """A worker of this index."""
    return Task.parse(f"worker:{index}")


def rows(evidence: Evidence) -> list[str]:
    """The ids of the rows of this file that fit."""
    return [explanation.row for explanation in explain(evidence, ROWS)]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (
            "ValueError: When `cluster_spec` is given, you must also specify `task_type` and `task_id`.",
            "resolver-without-task",
        ),
        (
            "ValueError: cluster_resolver must be an instance of tf.distribute.cluster_resolver.ClusterResolver",
            "wrong-resolver-argument",
        ),
        (
            "KeyError: 'SLURM_PROCID'\n\nDuring handling of the above exception, another exception occurred:\n\n"
            "RuntimeError: SLURM_PROCID not found in environment. Not running inside a SLURM step?",
            "slurm-resolver",
        ),
        ("ValueError: Must specify an explicit `job_name`.", "server-without-a-job-name"),
        ("ValueError: Please provide a TPU Name to connect to.", "resolver-of-another-platform"),
        (
            "usage: train.py [-h] --job_name JOB_NAME --task_index TASK_INDEX\n"
            "train.py: error: the following arguments are required: --job_name, --task_index",
            "task-flags-argparse",
        ),
        ("train.py: error: the following arguments are required: --data, --worker-hosts", "task-flags-argparse"),
        (
            "FATAL Flags parsing error:\n"
            "  flag --task_index=None: Flag --task_index must have a value other than None.\n"
            "Pass --helpshort or --helpfull to see help on flags.",
            "task-flags-absl",
        ),
        (
            f"{FRAME}index = int(sys.argv[1])\n                ~~~~~~~~^^^\nIndexError: list index out of range",
            "task-index-from-argv",
        ),
        (f"{FRAME}rank = int(os.environ[\"RANK\"])\nKeyError: 'RANK'", "rank-of-another-launcher"),
        ("KeyError: 'OMPI_COMM_WORLD_RANK'", "rank-of-another-launcher"),
        ("KeyError: 'TF_CONFIG'", "tf-config-missing"),
        (NOT_JSON, "tf-config-not-json"),
        (DISALLOWED, "tf-config-unknown-type"),
        ("ValueError: The `task_id` 2 exceeds the maximum id of worker.", "tf-config-index-too-large"),
        ("ValueError: `task_type` 'chief' not found in cluster_spec.", "tf-config-type-not-in-cluster"),
        ("ValueError: There must be at most one 'chief' job.", "two-chiefs"),
        ("tensorflow.python.framework.errors_impl.UnknownError: Could not start gRPC server", "port-in-use"),
        (INCARNATION, "two-tasks-are-the-same"),
        (INCARNATION.replace("task:1", "task:0"), "own-resolver-same-task"),
        ("RuntimeError: Virtual devices cannot be modified after being initialized", "devices-set-too-late"),
    ],
)
def test_what_tensorflow_says(text: str, row: str) -> None:
    """One row fits, and no other."""
    task = TaskEvidence(worker(1), text, exit=Exit(code=1))
    assert rows(Evidence((task,), GANG, RunState.FAILED)) == [row]


@pytest.mark.parametrize(
    "text",
    [
        "train.py: error: the following arguments are required: --data",
        "FATAL Flags parsing error:\n  flag --data=None: Flag --data must have a value other than None.",
        f"{FRAME}data = open(sys.argv[1]).read()\n         ~~~~~~~~^^^\nIndexError: list index out of range",
        f"{FRAME}first = rows[1]\nIndexError: list index out of range",
        "KeyError: 'HOME'",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    ],
)
def test_a_bug_that_looks_like_one(text: str) -> None:
    """Other flags, lists, variables and files are the program's own."""
    assert rows(Evidence((TaskEvidence(worker(0), text, exit=Exit(code=1)),), GANG, RunState.FAILED)) == []


@pytest.mark.parametrize(
    "text", ["KeyError: 'RANK'", f"{FRAME}rank = sys.argv[1]\nIndexError: list index out of range"]
)
def test_what_is_a_mistake_in_a_run_alone(text: str) -> None:
    """A log of another launcher says so for reasons of its own."""
    assert rows(Evidence((TaskEvidence(text=text),))) == []


def stuck(*tasks: StuckTask) -> Evidence:
    """A run that failed at the startup timeout."""
    return Evidence((), GANG, RunState.FAILED, "worker:0 did not open its port within 10 s", stuck=tasks)


def waiting(index: int, *listens: str, where: str = "train.py:5") -> StuckTask:
    """A worker that waits in its strategy, and listens there."""
    return StuckTask(worker(index), WAITS, where, f"127.0.0.1:{4000 + index}", f"worker:{index}" in listens, listens)


@pytest.mark.parametrize(
    ("tasks", "row", "means"),
    [
        (
            [waiting(0, "port 23451"), waiting(1, "port 23451")],
            "own-resolver-same-task",
            "worker:0 and worker:1 share port 23451",
        ),
        ([waiting(0, "worker:0"), waiting(1, "worker:0")], "own-resolver-same-task", "share worker:0"),
        (
            [waiting(0, "port 2222"), waiting(1)],
            "hosts-of-another-cluster",
            "worker:0 listens at port 2222, but the other tasks expect it at its endpoint 127.0.0.1:4000",
        ),
    ],
)
def test_tasks_that_wait_for_each_other(tasks: Iterable[StuckTask], row: str, means: str) -> None:
    """Where they listen says why."""
    (explanation,) = explain(stuck(*tasks), ROWS)
    assert explanation.row == row
    assert means in explanation.means


@pytest.mark.parametrize(
    "tasks",
    [
        [waiting(0, "worker:0"), waiting(1, "worker:1")],
        [StuckTask(worker(0), "is at train.py:3"), StuckTask(worker(1), "is at train.py:3")],
    ],
)
def test_tasks_that_hang_elsewhere(tasks: Iterable[StuckTask]) -> None:
    """Some that listen where they should, and some that have not come so far."""
    assert rows(stuck(*tasks)) == []


@pytest.mark.parametrize(
    ("strategies", "expected"),
    [
        (("MirroredStrategy",), ["mirrored-strategy-alone"]),
        (("OneDeviceStrategy",), ["mirrored-strategy-alone"]),
        (("CentralStorageStrategy",), ["mirrored-strategy-alone"]),
        ((), []),
    ],
)
def test_strategies_that_train_alone(strategies: tuple[str, ...], expected: list[str]) -> None:
    """Those that are for the devices of one process."""
    seen = Undistributed((worker(0), worker(1)), WhyAlone.NEVER_CONNECTED, strategies)
    assert rows(Evidence((), GANG, RunState.SUCCEEDED, undistributed=seen)) == expected


@pytest.mark.parametrize(
    ("strategies", "expected"),
    [(("MultiWorkerMirroredStrategy",), ["tf-config-without-cluster"]), ((), ["no-strategy"])],
)
def test_a_tf_config_without_cluster(strategies: tuple[str, ...], expected: list[str]) -> None:
    """It matters to strategies that take their cluster from it."""
    found = Finding("tf-config-without-cluster", Location("train.py", 4), "It has no cluster.", "Leave it.")
    seen = Undistributed((worker(0), worker(1)), WhyAlone.NEVER_CONNECTED, strategies)
    evidence = Evidence((), GANG, RunState.SUCCEEDED, findings=(found,), undistributed=seen)
    assert [one.row for one in explain(evidence)] == expected
    assert [one.row for one in explain(replace(evidence, findings=()))] == ["no-strategy"]
