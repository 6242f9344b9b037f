"""Failures with training data: why Keras is not patched, and what a log shows of batches and optimizers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, TaskEvidence
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind
from clusterkit.words.outcome import Exit, RunState
from tests.explain.test_ordinary_bugs import job_of
from tests.explain.test_own_clusters import failed
from tests.explain.test_silent import ZERO

SHELL = Program(ProgramKind.COMMAND, "./train.sh")
NOT_PATCHED = """Traceback (most recent call last):
  File "/home/me/train.py", line 10, in <module>
    model.fit(data)
  File "/v/site-packages/keras/src/utils/traceback_utils.py", line 122, in error_handler
ValueError: Attempt to convert a value (PerReplica:{
  0: <tf.Tensor: shape=(4, 3), dtype=float32>
}) with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>) to a Tensor."""
PARENT = """
Traceback (most recent call last):
  File "/home/me/start.py", line 3, in <module>
    subprocess.check_call(["python", "train.py"])
subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1."""


@pytest.mark.parametrize(
    ("job", "advice"),
    [
        (replace(job_of(workers=2), patches=False), "Run the job without --no-patches"),
        (job_of(workers=2), "If another Python program of the job has started this one, run the job as a command"),
        (replace(job_of(workers=2), program=SHELL), "clusterkit patches the programs of a command through PYTHONPATH."),
        (None, "Run the program with `clusterkit up`, which patches Keras. Or call clusterkit.patches.apply()"),
    ],
)
@pytest.mark.parametrize("parent", ["", PARENT])
def test_why_keras_is_not_patched(job: JobSpec | None, advice: str, parent: str) -> None:
    """By the user's option, since a program of the user started the one that trains, or outside clusterkit."""
    (one,) = explain(replace(failed(NOT_PATCHED + parent), job=job))
    assert one.row == "per-replica-conversion"
    assert one.advice.startswith(advice)


@pytest.mark.parametrize(("first", "other", "row"), [("0,6,6,4", "0,8,8,4", True), ("2,6,6,4", "2,8,8,4", False)])
def test_a_replica_without_rows(first: str, other: str, row: bool) -> None:
    """The shapes of its batch begin with 0; other shapes that differ are a bug of the model."""
    text = (
        "InvalidArgumentError: Graph execution error:\nInputs to operation gradient_tape/replica_1/re_lu_1/ReluGrad of "
        f"type ReluGrad must have the same size and shape.  Input 0: [{first}] != input 1: [{other}]"
    )
    assert [one.row for one in explain(failed(text))] == ["empty-share"] * row


SKIPPED = (
    "Epoch 1/3\n{}UserWarning: Skipping variable loading for optimizer 'adam_1', because it has {} variables whereas "
    "the saved optimizer has 6 variables. \n{}"
)


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        (SKIPPED.format("", 2, "Epoch 1/3\n"), ["optimizer-not-restored"]),
        (SKIPPED.format("", 2, "3/3 - loss: 0.1\n"), []),
        (SKIPPED.format("Epoch 2/3\n", 2, ""), []),
        (SKIPPED.format("", 8, "Epoch 1/3\n"), []),
    ],
)
def test_an_optimizer_without_its_state(line: str, rows: list[str]) -> None:
    """It matters only if `fit` goes on; a program often loads the best weights in order to evaluate them."""
    done = Evidence((TaskEvidence(ZERO, exit=Exit(code=0), step=3),), job_of(), RunState.SUCCEEDED, log=line)
    assert [one.row for one in explain(done)] == rows


CRASH = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: no rows\n'


@pytest.mark.parametrize(
    ("log", "kind", "state", "rows"),
    [
        (f"Epoch 1\n{CRASH}", ProgramKind.COMMAND, RunState.SUCCEEDED, ["command-hides-a-failure"]),
        (f"{CRASH}the log is in log.txt\n", ProgramKind.COMMAND, RunState.SUCCEEDED, ["command-hides-a-failure"]),
        (CRASH + "Epoch 1\n" * 9, ProgramKind.COMMAND, RunState.SUCCEEDED, []),
        (f"Epoch 1\n{CRASH}", ProgramKind.SCRIPT, RunState.SUCCEEDED, []),
        (f"Epoch 1\n{CRASH}", ProgramKind.COMMAND, RunState.FAILED, []),
        ("Epoch 1\n", ProgramKind.COMMAND, RunState.SUCCEEDED, []),
    ],
)
def test_a_command_that_hides_a_failure(log: str, kind: ProgramKind, state: RunState, rows: list[str]) -> None:
    """Its log ends with an exception, which a Python program of clusterkit's would have ended with."""
    job = replace(job_of(), program=Program(kind, "./train.sh"))
    done = Evidence((TaskEvidence(ZERO, exit=Exit(code=0)),), job, state, log=log)
    found = explain(done)
    assert [one.row for one in found] == rows
    assert all("./train.sh starts ended with an exception, ValueError: no rows" in one.means for one in found)
