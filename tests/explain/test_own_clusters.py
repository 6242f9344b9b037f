"""Clusters, servers and devices that a program names itself: what `check` finds needs what the run shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, StuckTask, TaskEvidence
from clusterkit.words.outcome import Exit, RunState
from tests.explain.test_ordinary_bugs import job_of
from tests.explain.test_silent import DONE, ENDED, ZERO, found

CONNECTS = StuckTask(ZERO, "waits in MultiWorkerMirroredStrategy() for it", "train.py:9", "a:1", False, ("b:2",))
BY_HAND = StuckTask(ZERO, "waits in tf.config.experimental_connect_to_cluster", "train.py:9", "a:1", False, ("b:2",))
COMPUTES = StuckTask(ZERO, "computes at train.py:9", "train.py:9", "a:1", False, ("port 8080",))
COORDINATES = StuckTask(ZERO, "waits in ClusterCoordinator.fetch", "train.py:9")
TIMED_OUT = Evidence((TaskEvidence(ZERO),), job_of(workers=2), RunState.TIMED_OUT)
NOT_REACHED = (
    "InternalError: failed to connect to all addresses; last error: refused\n"
    "Additional GRPC error information from remote target /job:chief/replica:0/task:0 while calling Enqueue:\n"
    ":UNKNOWN:Error received from peer\n\t [[{{node MultiDeviceIteratorGetNextFromShard}}]]"
)


def failed(text: str) -> Evidence:
    """A run that failed with this error."""
    return Evidence((TaskEvidence(ZERO, text, exit=Exit(code=1)),), job_of(workers=2), RunState.FAILED)


@pytest.mark.parametrize(
    ("evidence", "row"),
    [
        (replace(TIMED_OUT, stuck=(CONNECTS,)), "tf-config-of-other-tasks"),
        (replace(TIMED_OUT, stuck=(CONNECTS,)), "server-beside-the-strategy"),
        (replace(TIMED_OUT, stuck=(BY_HAND,)), "connected-by-hand"),
        (failed("UnknownError: Could not start gRPC server"), "server-beside-the-strategy"),
        (failed("Fatal Python error: Segmentation fault"), "device-of-another-worker"),
        (failed(NOT_REACHED), "cluster-without-the-chief"),
        (replace(TIMED_OUT, stuck=(COORDINATES,)), "cluster-without-the-chief"),
        (Evidence((DONE, ENDED), job_of(workers=2), RunState.SUCCEEDED, diverged=True), "division-by-no-rows"),
    ],
)
def test_a_finding_explains_what_it_fits(evidence: Evidence, row: str) -> None:
    """It does not explain an error of another kind, a run that did not hang, or a loss that is a number."""
    more = ["ended-with-the-chief"] if evidence.diverged else []  # a fact about this run, whatever its loss is
    assert [one.row for one in explain(replace(evidence, findings=found(row)))] == [row, *more]
    others = (failed("ValueError: no"), TIMED_OUT, replace(TIMED_OUT, stuck=(COMPUTES,)))
    for other in others:
        assert explain(replace(other, findings=found(row))) == []


NOT_DEFINED = 'InternalError: Task {} was not defined in job "worker"'


@pytest.mark.parametrize(
    ("index", "word", "row"),
    [(1, "", "cluster-too-small"), (2, "worker", "cluster-too-small"), (2, "ps", "task-not-defined")],
)
def test_a_cluster_lacks_a_task_that_the_job_has(index: int, word: str, row: str) -> None:
    """A task that the job lacks, too, is a wrong index, unless `check` has found a cluster that is too small."""
    short = tuple(replace(finding, word=word) for finding in found("cluster-too-small"))
    (explanation,) = explain(replace(failed(NOT_DEFINED.format(index)), findings=short))
    assert explanation.row == row


TAKEN = "add_port.cc:83] Failed to add port to server: No address added out of total 1 resolved for '0.0.0.0:2223'"


@pytest.mark.parametrize(
    ("endpoints", "row"),
    [(("a:2222", "b:2222"), "own-port-in-use"), (("a:2222", "b:2223"), "reuse-port-lost"), ((), "port-in-use")],
)
def test_a_port_that_the_program_chooses(endpoints: tuple[str, ...], row: str) -> None:
    """It is told from one that clusterkit has assigned."""
    taken = failed("UnknownError: Could not start gRPC server")
    first = replace(taken.first, before=TAKEN)
    (explanation,) = explain(replace(taken, tasks=(first,), endpoints=endpoints))
    assert explanation.row == row
    assert ("2223" in explanation.means) == (row != "port-in-use")


INDEXED = (
    'Traceback (most recent call last):\n  File "/home/me/train.py", line {}, in step\n    rows[i]\nIndexError: {}'
)


def test_an_index_that_is_the_id_of_a_replica() -> None:
    """The error is raised in the line that `check` has found."""
    index = found("replica-id-as-an-index")
    out_of_range = "list index out of range"
    (explanation,) = explain(replace(failed(INDEXED.format(3, out_of_range)), findings=index))
    assert explanation.row == "replica-id-as-an-index"
    assert explain(replace(failed(INDEXED.format(4, out_of_range)), findings=index)) == []
    assert explain(replace(failed(INDEXED.format(3, "pop from empty list")), findings=index)) == []


def test_a_port_of_another_kind_is_no_explanation_of_a_timeout() -> None:
    """Only a task that connects listens at an address of a cluster."""
    assert [one.row for one in explain(replace(TIMED_OUT, stuck=(CONNECTS,)))] == ["hosts-of-another-cluster"]
    assert explain(replace(TIMED_OUT, stuck=(COMPUTES,))) == []


def test_a_chief_that_no_worker_reaches_is_explained_without_a_finding() -> None:
    """The error says which task was not reached, and for what."""
    (explanation,) = explain(failed(NOT_REACHED))
    assert (explanation.row, "Add the chief" in explanation.advice) == ("cluster-without-the-chief", True)
