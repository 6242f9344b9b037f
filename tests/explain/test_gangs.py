"""What TensorFlow says about workers that do not do the same, as it was recorded, and the row that fits."""

from __future__ import annotations

import pytest

from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, StuckTask, TaskEvidence
from clusterkit.explain.rows import gangs, shared
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, Exit, RunState
from tests.explain.test_ordinary_bugs import job_of

ROWS = (*gangs.ROWS, *shared.ROWS)
GANG = job_of(workers=2)
ZERO, ONE = Task.parse("worker:0"), Task.parse("worker:1")
OWN = 'Traceback (most recent call last):\n  File "/home/me/train.py", line 11, in <module>\n    {0}\n'
HIDDEN = '  File "/v/site-packages/keras/src/utils/traceback_utils.py", line 122, in error_handler\n    raise e\n'
SHAPES = (
    "Collective ops is aborted by: Shape mismatch in the collective instance 100. Op at device "
    "/job:worker/replica:0/task:1/device:CPU:0 expected shape [4] but another member in the group expected shape []. "
    "This is likely due to different input shapes at different members of the collective op.\n"
)
UNHEALTHY = (
    "tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: Error reported from "
    "/job:worker/task:1: The following tasks are unhealthy (stopped sending heartbeats):\n/job:worker/replica:0/task:1"
)
CROSS = "Method requires being in cross-replica context, use get_replica_context().merge_call()"
DATA_TYPE = "Collective instance 100 expected type 0 and data_type 1 but got type 0 and data_type 3"
NONE = "AttributeError: 'NoneType' object has no attribute"
WRITES = '  File "/v/site-packages/tensorflow/python/checkpoint/checkpoint.py", line 2000, in write\n'
IN_FIT = '  File "/v/site-packages/keras/src/backend/tensorflow/trainer.py", line 399, in fit\n'
IN_MERGE = (
    '  File "/v/merge_call_interim.py", line 53, in maybe_merge_call\n    return get_replica_context().merge_call(\n'
)


def rows(*tasks: TaskEvidence) -> list[str]:
    """The ids of the rows of this file that fit a failed run."""
    return [explanation.row for explanation in explain(Evidence(tasks, GANG, RunState.FAILED), ROWS)]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (f"InvalidArgumentError: {SHAPES}", "shapes-differ"),
        (f"InvalidArgumentError: Graph execution error:\n{IN_FIT}\n{SHAPES}", "calls-differ"),
        (
            f"InvalidArgumentError: {{{{function_node __wrapped__CollectiveBcastRecv_device_CPU:0}}}} {SHAPES}",
            "variables-in-another-order",
        ),
        (
            "RuntimeError: Unable to automatically build the model. Please build it yourself.\n"
            f"'{{{{function_node __wrapped__CollectiveBcastRecv_device_CPU:0}}}} {SHAPES}'",
            "models-differ",
        ),
        (f"InternalError: Collective ops is aborted by: {DATA_TYPE}", "types-of-a-collective-differ"),
        (
            "DeadlineExceededError: Collective has timed out waiting for other workers. [Op:CollectiveReduceV2]",
            "collective-timeout",
        ),
        (f"RuntimeError: in user code:\n    RuntimeError: {CROSS}", "reduce-in-a-replica"),
        (
            '    File "/lib/keras/src/backend/tensorflow/trainer.py", line 622, in train_on_batch  **\n'
            f"        self._maybe_symbolic_build(data_batch=(x, y, sample_weight))\n    RuntimeError: {CROSS}",
            "train-on-batch-in-run",
        ),
        (
            f"    tf.distribute.get_replica_context().all_reduce(1)\n    ^^^^^^^^\n{NONE} 'all_reduce'",
            "replica-context-outside-run",
        ),
        (f"{IN_MERGE}           ^^^^^\n{NONE} 'merge_call'", "gradients-outside-run"),
        (
            "ValueError: SyncOnReadVariable does not support `assign_add` in cross-replica context when aggregation "
            "is set to `tf.VariableAggregation.SUM`.",
            "assign-to-a-sum",
        ),
    ],
)
def test_what_tensorflow_says(text: str, row: str) -> None:
    """One row fits, and no other."""
    assert rows(TaskEvidence(ONE, text, exit=Exit(code=1))) == [row]


MATRICES = SHAPES.replace("[4]", "[4,5]").replace("[]", "[4,4]")
IN_A_CALL = "InvalidArgumentError: {{function_node __wrapped__Collective%s_device_CPU:0}} %s"


@pytest.mark.parametrize(
    ("operation", "shapes", "step", "row"),
    [
        ("ReduceV2", MATRICES, None, "models-differ"),
        ("ReduceV2", MATRICES, 3, "calls-differ"),  # it trained, so that the models were built
        ("ReduceV2", SHAPES, None, "calls-differ"),  # a metric's number beside something else
        ("GatherV2", MATRICES, None, "gather-of-different-rows"),
    ],
)
def test_a_mismatch_that_arrives_after_keras_has_built(operation: str, shapes: str, step: int | None, row: str) -> None:
    """TensorFlow learns of it in the background: the next collective operation of `fit` raises it."""
    text = f"{OWN.format(f'model.fit(data){chr(10)}{HIDDEN}')}{IN_A_CALL % (operation, shapes)}"
    assert rows(TaskEvidence(ONE, text, exit=Exit(code=1), step=step)) == [row]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (f"model.fit(data, epochs=4)\n{HIDDEN}", "different-epochs"),
        (f"print(model.evaluate(data))\n          ^^^^^^^^^\n{HIDDEN}", "only-the-chief-evaluates"),
        (f"model.predict(data)\n{HIDDEN}", "only-the-chief-evaluates"),
        (
            f'checkpoint.write("saved")\n{WRITES}',
            "only-the-chief-saves",
        ),
        ('strategy.reduce("SUM", loss, axis=None)\n', "leaves-early"),
    ],
)
def test_a_worker_that_has_ended_while_another_one_waits(line: str, row: str) -> None:
    """What the one that waits does decides; both are named, and the line."""
    left = TaskEvidence(ONE, exit=Exit(code=0), step=16)
    waits = TaskEvidence(ZERO, f"{OWN.format(line)}{UNHEALTHY}", exit=Exit(code=1), step=16)
    (explanation,) = explain(Evidence((left, waits), GANG, RunState.FAILED), ROWS)
    assert explanation.row == row
    assert explanation.means.startswith("worker:1 ended its program")
    assert "worker:0" in explanation.means
    assert "train.py:11" in explanation.means


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (TaskEvidence(ONE, exit=Exit(code=0)), TaskEvidence(ZERO, "KeyError: 'label'", exit=Exit(code=1))),
        (TaskEvidence(ONE, "KeyError: 'label'", exit=Exit(code=1)), TaskEvidence(ZERO, UNHEALTHY, exit=Exit(code=1))),
        (TaskEvidence(ONE, exit=Exit(signal=9)), TaskEvidence(ZERO, UNHEALTHY, exit=Exit(code=1))),
    ],
)
def test_another_cause(first: TaskEvidence, second: TaskEvidence) -> None:
    """An error of one's own, before or after another worker has ended."""
    assert rows(first, second) == []


@pytest.mark.parametrize("stopped", [ZERO, ONE])
def test_a_worker_that_waits_alone(stopped: Task) -> None:
    """The others wait for it, whichever of them was stopped for it."""
    busy = StuckTask(ONE, "sleeps (time.sleep) at train.py:19 in on_epoch_end", "train.py:19")
    waits = StuckTask(ZERO, "waits in fit (a step or a collective)", "train.py:23")
    first = TaskEvidence(stopped, exit=Exit(signal=9, asked=Asked.STALL))
    (explanation,) = explain(Evidence((first,), GANG, RunState.FAILED, stuck=(waits, busy)), ROWS)
    assert explanation.row == "waits-alone"
    assert explanation.means.startswith("worker:1 sleeps (time.sleep) at train.py:19 in on_epoch_end, while worker:0 ")
    for both in (busy, busy), (waits, waits), ():
        assert explain(Evidence((first,), GANG, RunState.FAILED, stuck=both), ROWS) == []


def test_what_one_worker_alone_finds_made_another_has_made() -> None:
    """If each of them finds it, or in another job, it was there before."""
    text = OWN.format('os.mkdir("data")') + "FileExistsError: [Errno 17] File exists: 'data'\n"
    found, waits = TaskEvidence(ONE, text, exit=Exit(code=1)), TaskEvidence(ZERO, UNHEALTHY, exit=Exit(code=1))
    assert rows(found, waits) == ["prepared-by-each-worker"]
    assert rows(found, TaskEvidence(ZERO, text, exit=Exit(code=1))) == []
    assert rows(found) == []
    alone = Evidence((found, waits), job_of(workers=1), RunState.FAILED)
    assert explain(alone, ROWS) == []


@pytest.mark.parametrize("code", ["shutil.rmtree(path)", "os.remove('a')", "Path('a').unlink()", "file.unlink()"])
def test_what_one_worker_alone_misses_another_has_removed(code: str) -> None:
    """If each of them misses it, or none removes anything, it was never there."""
    missing = "FileNotFoundError: [Errno 2] No such file or directory: 'a'\n"
    text = OWN.format(code) + missing
    misses, waits = TaskEvidence(ONE, text, exit=Exit(code=1)), TaskEvidence(ZERO, UNHEALTHY, exit=Exit(code=1))
    assert rows(misses, waits) == ["removed-by-each-worker"]
    assert rows(misses, TaskEvidence(ZERO, text, exit=Exit(code=1))) == []
    assert rows(misses) == []
    reads = TaskEvidence(ONE, OWN.format("open('a')") + missing, exit=Exit(code=1))
    assert rows(reads, waits) == []


def test_what_workers_share_is_no_matter_of_a_single_process() -> None:
    """Nor of a log, of which nobody knows where it comes from."""
    locked = "AlreadyExistsError: cache lockfile already exists ('/data/train_0.lockfile'). If you are sure no other"
    index = OWN.format("gpu = gpus[rank]") + "IndexError: list index out of range\n"
    for text, row in ((locked, "cache-of-all-workers"), (index, "gpu-of-the-rank")):
        failed = (TaskEvidence(ONE, text, exit=Exit(code=1)),)
        assert [one.row for one in explain(Evidence(failed, GANG, RunState.FAILED), ROWS)] == [row]
        assert explain(Evidence(failed, job_of(workers=1), RunState.FAILED), ROWS) == []
        assert explain(Evidence(failed), ROWS) == []
    other = OWN.format("row = rows[rank]") + "IndexError: list index out of range\n"
    assert rows(TaskEvidence(ONE, other, exit=Exit(code=1))) == []


def test_what_one_worker_alone_cannot_open_another_has_opened() -> None:
    """A port; if each of them fails so, another program has it."""
    text = OWN.format('socket.create_server(("", 80))') + "OSError: [Errno 98] Address already in use\n"
    found, waits = TaskEvidence(ONE, text, exit=Exit(code=1)), TaskEvidence(ZERO, UNHEALTHY, exit=Exit(code=1))
    assert rows(found, waits) == ["port-of-each-worker"]
    assert rows(found, TaskEvidence(ZERO, text, exit=Exit(code=1))) == []
    assert rows(found) == []


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("sqlite3.OperationalError: database is locked", "database-of-all-workers"),
        (
            "NotFoundError: {{function_node __wrapped__MergeV2Checkpoints_device_/job:worker/task:1/device:CPU:0}} "
            "checkpoints/ckpt-28_temp/part-00000-of-00001.index; No such file or directory [Op:MergeV2Checkpoints]",
            "checkpoint-of-all-workers",
        ),
        ("errors_impl.NotFoundError: scratch/0 not found", "removed-by-each-worker"),
    ],
)
def test_files_of_all_workers(text: str, row: str) -> None:
    """Of a single process it is not true."""
    failed = TaskEvidence(ONE, f"{OWN.format('tf.io.gfile.rmtree(path)')}{text}\n", exit=Exit(code=1))
    waits = TaskEvidence(ZERO, UNHEALTHY, exit=Exit(code=1))
    assert rows(failed, waits) == [row]
    assert explain(Evidence((failed,), job_of(workers=1), RunState.FAILED), ROWS) == []


def test_a_bus_error_is_known_by_its_signal() -> None:
    """Whatever the log says; but not if clusterkit sent it."""
    assert rows(TaskEvidence(ONE, "Fatal Python error: Bus error", exit=Exit(signal=7))) == ["bus-error"]
    assert rows(TaskEvidence(ONE, exit=Exit(signal=7))) == ["bus-error"]
    assert rows(TaskEvidence(ONE, exit=Exit(signal=7, asked=Asked.TEARDOWN))) == []
