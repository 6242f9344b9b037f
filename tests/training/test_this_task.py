"""What a task is, read from TF_CONFIG."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from clusterkit.training import server, this_task

PS_JOB = {"chief": ["h:1"], "worker": ["h:2", "h:3"], "ps": ["h:4"]}
WORKERS = {"worker": ["h:1", "h:2"]}
WITH_CHIEF = {"chief": ["h:1"], "worker": ["h:2", "h:3"]}
ONE = {"worker": ["h:1"]}


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "TF_CONFIG",
        "CLUSTERKIT_TASK",
        "CLUSTERKIT_ATTEMPT",
        "CLUSTERKIT_RUN_ID",
        "CLUSTERKIT_CHECKPOINT_DIR",
    ):
        monkeypatch.delenv(name, raising=False)


def be(monkeypatch: pytest.MonkeyPatch, cluster: dict[str, list[str]], task: str) -> None:
    task_type, _, index = task.partition(":")
    config = {"cluster": cluster, "task": {"type": task_type, "index": int(index)}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


@pytest.mark.parametrize(
    ("cluster", "task", "chief", "coordinator", "together", "workers"),
    [
        (PS_JOB, "chief:0", True, True, True, 2),
        (PS_JOB, "worker:0", False, False, True, 2),
        (PS_JOB, "ps:0", False, False, True, 2),
        (WORKERS, "worker:0", True, False, True, 2),
        (WORKERS, "worker:1", False, False, True, 2),
        (WITH_CHIEF, "chief:0", True, False, True, 3),
        (WITH_CHIEF, "worker:0", False, False, True, 3),
        (WITH_CHIEF, "evaluator:0", False, False, False, 3),
        (ONE, "worker:0", True, False, False, 1),
        (ONE, "evaluator:0", False, False, False, 1),
    ],
)
def test_roles(
    monkeypatch: pytest.MonkeyPatch,
    cluster: dict[str, list[str]],
    task: str,
    chief: bool,
    coordinator: bool,
    together: bool,
    workers: int,
) -> None:
    """Every task of every cluster shape is identified correctly."""
    be(monkeypatch, cluster, task)
    assert this_task.task() == task
    assert this_task.is_chief() is chief
    assert this_task.is_coordinator() is coordinator
    assert this_task.in_cluster() is together
    assert this_task.num_workers() == workers


@pytest.mark.parametrize(
    ("cluster", "task"), [(PS_JOB, "chief:0"), (PS_JOB, "evaluator:0"), (WORKERS, "worker:0"), (ONE, "worker:0")]
)
def test_serve_returns_in_tasks_that_do_not_serve(
    monkeypatch: pytest.MonkeyPatch, cluster: dict[str, list[str]], task: str
) -> None:
    """serve() returns in the chief, in the evaluator, and in all tasks of other jobs."""
    be(monkeypatch, cluster, task)
    server.serve()


@pytest.mark.parametrize("cluster", [PS_JOB, WORKERS, WITH_CHIEF, ONE])
def test_one_chief(monkeypatch: pytest.MonkeyPatch, cluster: dict[str, list[str]]) -> None:
    """Exactly one task of a cluster is the chief; otherwise two would write the same checkpoint."""
    chiefs = 0
    for task_type, endpoints in cluster.items():
        for index in range(len(endpoints)):
            be(monkeypatch, cluster, f"{task_type}:{index}")
            chiefs += this_task.is_chief()
    assert chiefs == 1


def test_outside_a_cluster() -> None:
    """A plain program is the chief of a job with one task."""
    assert this_task.task() == "worker:0"
    assert this_task.is_chief()
    assert not this_task.in_cluster()
    assert (this_task.num_workers(), this_task.num_ps(), this_task.attempt(), this_task.run_id()) == (1, 0, 1, "")


def test_lone_task_takes_clusterkits_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TF_CONFIG a task has the name the supervisor gave it."""
    monkeypatch.setenv("CLUSTERKIT_TASK", "evaluator:0")
    assert this_task.task() == "evaluator:0"
    assert this_task.is_evaluator()
    assert not this_task.is_chief()


def test_index_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some cluster engines write the index as a string, which TensorFlow accepts."""
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": WORKERS, "task": {"type": "worker", "index": "1"}}))
    assert this_task.task_index() == 1


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ("{", "is not JSON"),
        ("[]", "must be a JSON object"),
        ({"cluster": [], "task": {"type": "worker", "index": 0}}, "must map task types"),
        ({"cluster": {"worker": "h:1"}, "task": {"type": "worker", "index": 0}}, "must be a list"),
        ({"cluster": WORKERS}, "'task' must be an object"),
        ({"cluster": WORKERS, "task": {"index": 0}}, "'task' must be an object"),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": -1}}, "not a number from 0 up"),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": 2}}, "not in its cluster"),
        ({"cluster": WORKERS, "task": {"type": "ps", "index": 0}}, "not in its cluster"),
    ],
)
def test_malformed(monkeypatch: pytest.MonkeyPatch, config: Any, why: str) -> None:
    """An unusable TF_CONFIG is rejected with the reason and its text."""
    text = config if isinstance(config, str) else json.dumps(config)
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=f"TF_CONFIG cannot be used: .*{why}") as caught:
        this_task.task()
    assert text[:100] in str(caught.value)


def test_empty_config_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty TF_CONFIG means the same as none."""
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert this_task.task() == "worker:0"


def test_checkpoint_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    """clusterkit's directory overrides the default, and both are absolute."""
    assert this_task.checkpoint_dir("here").endswith("/here")
    monkeypatch.setenv("CLUSTERKIT_CHECKPOINT_DIR", "/shared/run")
    assert this_task.checkpoint_dir("here") == "/shared/run"


def test_attempt_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid CLUSTERKIT_ATTEMPT is rejected with a clear message."""
    monkeypatch.setenv("CLUSTERKIT_ATTEMPT", "two")
    with pytest.raises(ValueError, match="CLUSTERKIT_ATTEMPT is 'two'"):
        this_task.attempt()


def test_no_tensorflow_for_report_and_roles() -> None:
    """Reporting and reading the task's name import neither TensorFlow nor NumPy."""
    program = (
        "import sys; from clusterkit.training import report, task, is_chief; report(1, loss=0.5); task(); is_chief();"
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'numpy', 'keras')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
