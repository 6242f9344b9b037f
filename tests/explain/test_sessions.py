"""Sessions of TensorFlow 1: the same error has other reasons in other tasks."""

from __future__ import annotations

from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, TaskEvidence
from clusterkit.words.model import Task
from tests.explain.test_ordinary_bugs import job_of
from tests.explain.test_recorded import RECORDED


def test_a_variable_that_the_chief_lacks_is_no_variable_of_a_worker() -> None:
    """The chief runs the initializers of all variables that are not the workers' own."""
    text = RECORDED["worker-variable-not-initialized"]
    failed = [TaskEvidence(Task.parse(name), text) for name in ("worker:0", "chief:0")]
    (worker,), (chief,) = (explain(Evidence((task,), job_of(workers=1, ps=1))) for task in failed)
    assert (worker.row, chief.row) == ("worker-variable-not-initialized", "variable-not-initialized")
    assert worker.means.startswith("worker:0 reads its own variable local/copy,")


def test_a_data_service_says_before_its_traceback_that_it_failed() -> None:
    """Without this message, the function runs in another task of the job."""
    text = "Traceback (most recent call last):\nValueError: Could not find callback with key=pyfunc_0 in the registry."
    service = TaskEvidence(text=text, before="InvalidArgumentError: Failed to get element from worker localhost:1: …")
    rows = [explain(Evidence((task,)))[0].row for task in (service, TaskEvidence(text=text))]
    assert rows == ["python-function-in-the-data-service", "python-function-of-another-task"]
