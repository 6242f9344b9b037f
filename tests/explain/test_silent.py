"""Runs that succeed although they do not train as meant: each mistake is told, and only after a success."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterkit.check.findings import Finding, Location
from clusterkit.explain.log import explain_log
from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, StuckTask, TaskEvidence
from clusterkit.explain.rows.silent import ROWS as SILENT
from clusterkit.explain.rows.warned import ROWS as WARNED
from clusterkit.explain.table import TABLE
from clusterkit.words.distribution import Undistributed, WhyAlone
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, Exit, RunState
from tests.explain.test_ordinary_bugs import job_of

ZERO, ONE = Task.parse("worker:0"), Task.parse("worker:1")
DONE = TaskEvidence(ZERO, exit=Exit(code=0), step=30)
ENDED = TaskEvidence(ONE, exit=Exit(signal=15, asked=Asked.SUCCESS), step=29)
GOOD = Evidence((DONE, ENDED), job_of(workers=2), RunState.SUCCEEDED)
WARNING = "UserWarning: Your input ran out of data; interrupting training."
OUT: dict[str, Any] = {"short": True, "log": f"step 1\n{WARNING}"}
FOUND = [row.id for row in SILENT if row.id != "data-ran-out"]


def found(id_: str) -> tuple[Finding, ...]:
    """A finding of the check."""
    return (Finding(id_, Location("train.py", 3), "This is wrong.", "Mend it."),)


@pytest.mark.parametrize("id_", FOUND)
def test_what_check_finds_is_told_after_a_success(id_: str) -> None:
    """With the line of the mistake."""
    (explanation,) = explain(replace(GOOD, findings=found(id_)), SILENT)
    assert (explanation.row, explanation.means, explanation.advice) == (id_, "train.py:3: This is wrong.", "Mend it.")
    assert explain(replace(GOOD, findings=found("shared-file")), SILENT) == []


@pytest.mark.parametrize(
    "other",
    [
        replace(GOOD, state=RunState.FAILED),
        replace(GOOD, tasks=(replace(DONE, exit=Exit(code=1)), ENDED)),
        replace(GOOD, undistributed=Undistributed((ZERO, ONE), WhyAlone.NO_SCOPE)),
    ],
)
def test_a_failure_has_another_reason(other: Evidence) -> None:
    """So has training that was not distributed at all."""
    assert "mean-of-parts" not in [one.row for one in explain(replace(other, findings=found("mean-of-parts")), TABLE)]


def test_data_that_ended() -> None:
    """The leader is named, wherever it stands, with its last step."""
    (explanation,) = explain(replace(GOOD, tasks=(ENDED, DONE), **OUT), SILENT)
    assert explanation.row == "data-ran-out"
    assert "worker:0 stopped after step 30, without an error." in explanation.means
    assert ".repeat()" in explanation.advice
    assert explain(GOOD, SILENT) == []
    assert explain(replace(GOOD, tasks=(replace(DONE, exit=Exit(code=1)),), **OUT), SILENT) == []
    assert explain(replace(GOOD, log=WARNING), SILENT) == []
    assert explain(replace(GOOD, short=True), SILENT) == []


def test_data_that_ended_in_a_log() -> None:
    """Without an error in the log."""
    log = f"Epoch 1/3\n{WARNING}\n".encode()
    assert [one.row for one in explain_log([log]).explanations] == ["data-ran-out"]
    failed = b"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 'x'\n"
    assert explain_log([log + failed]).explanations == []


def test_workers_without_a_cluster_in_a_log() -> None:
    """TensorFlow says that a strategy for several workers has found no other."""
    said = b"INFO:tensorflow:Single-worker MultiWorkerMirroredStrategy with local_devices = ('/device:CPU:0',)\n"
    (explanation,) = explain_log([said]).explanations
    assert explanation.row == "no-strategy"
    assert "no other task" in explanation.means
    assert "TF_CONFIG" in explanation.advice


WARNINGS = {
    "steps-without-a-graph": "WARNING:tensorflow:Using MirroredStrategy eagerly has significant overhead currently.\n"
    * 3,
    "traced-in-each-step": (
        "WARNING:tensorflow:5 out of the last 5 calls to <function Trainer.train_step at 0x7f01> triggered tf.function "
        "retracing. Tracing is expensive\n"
    ),
    "metric-not-there": "UserWarning: Can save best model only with val_loss available.\n",
    "devices-not-there": (
        "WARNING:tensorflow:Some requested devices in `tf.distribute.Strategy` are not visible to TensorFlow: "
        "/replica:0/task:0/device:GPU:0,/replica:0/task:0/device:GPU:1\n"
    ),
}


@pytest.mark.parametrize(("id_", "said"), WARNINGS.items())
def test_a_warning_in_the_log_of_a_run_without_an_error(id_: str, said: str) -> None:
    """It is explained, also in a log without a run, and not after an error."""
    (explanation,) = explain(replace(GOOD, log=f"step 1\n{said}step 2"), WARNED)
    assert explanation.row == id_
    assert "…" not in explanation.means
    assert [one.row for one in explain_log([f"step 1\n{said}".encode()]).explanations] == [id_]
    failed = b"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 'x'\n"
    assert explain_log([said.encode(), failed]).explanations == []


@pytest.mark.parametrize(
    "said",
    [
        WARNINGS["steps-without-a-graph"][: len(WARNINGS["steps-without-a-graph"]) // 3],
        WARNINGS["metric-not-there"] + "8/8 - 0s - loss: 0.5 - val_loss: 0.6\n",
        WARNINGS["traced-in-each-step"].replace("Trainer.train_step", "TensorFlowTrainer._make_function.<locals>.step"),
    ],
)
def test_a_warning_that_is_usual(said: str) -> None:
    """A single step without a graph, a metric of every other epoch, and a function of Keras."""
    assert explain(replace(GOOD, log=said), WARNED) == []


RETRACED = "WARNING:tensorflow:6 out of the last 6 calls to <function {} at 0x7f01> triggered tf.function retracing.\n"


@pytest.mark.parametrize(
    ("function", "own", "named"),
    [
        ("MultiDeviceSaver.save.<locals>.tf_function_save", None, False),
        ("MultiDeviceSaver.restore.<locals>.tf_function_restore", {"main"}, False),
        ("TensorFlowTrainer.make_train_function.<locals>.one_step_on_data", None, False),
        ("Model.make_predict_function.<locals>.predict_function", None, False),
        ("BaseOptimizer._update_step_xla", None, False),
        ("train_step", None, True),
        ("main.<locals>.step", None, True),
        ("train_step", {"train_step", "main"}, True),
        ("main.<locals>.step", {"step", "main"}, True),
        ("main.<locals>.<lambda>", {"main"}, True),
        ("train_step", {"main"}, False),
        ("Agent.train_step", {"train_step", "main"}, False),
    ],
)
def test_only_functions_of_the_program_are_named_as_retraced(function: str, own: set[str] | None, named: bool) -> None:
    """Of a library's function, nobody can follow the advice. What the program defines is known, except in a log."""
    known = replace(GOOD, log=RETRACED.format(function), own=None if own is None else frozenset(own))
    assert [one.row for one in explain(known, WARNED)] == ["traced-in-each-step"] * named


def test_a_function_of_the_program_is_found_behind_one_of_a_library() -> None:
    """Each warning is looked at."""
    both = RETRACED.format("MultiDeviceSaver.save.<locals>.tf_function_save") + RETRACED.format("train_step")
    (explanation,) = explain(replace(GOOD, log=both, own=frozenset({"train_step"})), WARNED)
    assert "train_step" in explanation.means


def test_a_service_that_does_not_answer() -> None:
    """A run that hung for it; others have reached it after all."""
    said = (
        "I0000 00:00:1795805259.306807 5963 grpc_util.cc:86] Failed to register dataset with dispatcher at "
        "localhost:5050: UNAVAILABLE: Failed to register dataset: failed to connect. Will retry in 140ms.\n"
    )
    stuck = (StuckTask(ZERO, "waits in TensorFlow's runtime (a step or a collective)"),)
    (explanation,) = explain(replace(GOOD, state=RunState.TIMED_OUT, log=said, stuck=stuck), TABLE)
    assert explanation.row == "dispatcher-not-there"
    assert "address, localhost:5050." in explanation.means
    assert explain(replace(GOOD, log=said), WARNED) == []


def test_what_a_warning_names() -> None:
    """The function, the metric or the devices."""
    means = [explain(replace(GOOD, log=said), WARNED)[0].means for said in WARNINGS.values()]
    assert "rebuilds the graph of train_step in" in means[1]
    assert "the metric val_loss" in means[2]
    assert "/replica:0/task:0/device:GPU:0,/replica:0/task:0/device:GPU:1" in means[3]
