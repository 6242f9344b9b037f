"""TF_CONFIG as every kind of task gets it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from clusterkit.job.plan import cluster_json, cluster_spec, tf_config
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task, TaskType
from tests.histories import job, task

PS = job(workers=2, ps=1, evaluator=1)


def endpoints(spec: JobSpec) -> dict[Task, str]:
    """A port for each task that has one."""
    tasks = [t for t in spec.tasks if t.type is not TaskType.EVALUATOR]
    return {t: f"localhost:{2000 + i}" for i, t in enumerate(tasks)}


def config_of(spec: JobSpec, name: str) -> str | None:
    """What the task gets."""
    return tf_config(spec, task(name), cluster_json(spec, endpoints(spec)))


@pytest.mark.parametrize(
    ("spec", "name", "cluster"),
    [
        (
            PS,
            "worker:1",
            {"chief": ["localhost:2000"], "worker": ["localhost:2001", "localhost:2002"], "ps": ["localhost:2003"]},
        ),
        (job(workers=2), "worker:0", {"worker": ["localhost:2000", "localhost:2001"]}),
        (job(workers=1, chief=1), "chief:0", {"chief": ["localhost:2000"], "worker": ["localhost:2001"]}),
    ],
)
def test_a_task_gets_the_cluster_and_who_it_is(spec: JobSpec, name: str, cluster: dict[str, list[str]]) -> None:
    """Endpoints stand in the order of the indices; the evaluator is left out of them."""
    config = config_of(spec, name)
    assert config is not None
    assert json.loads(config) == {"cluster": cluster, "task": {"type": name[:-2], "index": int(name[-1])}}


@pytest.mark.parametrize(
    ("name", "index"), [("worker:0", 0), ("worker:2", 1), ("worker:4", 2), ("chief:0", 0), ("ps:0", 0)]
)
def test_the_workers_after_one_that_was_given_up_move_up(name: str, index: int) -> None:
    """TensorFlow counts from 0 without gaps; each keeps its name and its endpoint."""
    spec = job(workers=5, ps=1)
    every, left = endpoints(spec), replace(spec, given_up=(task("worker:1"), task("worker:3")))
    config = json.loads(tf_config(left, task(name), cluster_json(left, every)) or "")
    assert config["task"] == {"type": name[:-2], "index": index}
    assert config["cluster"]["worker"] == [every[task(f"worker:{n}")] for n in (0, 2, 4)]
    assert config["cluster"][name[:-2]][index] == every[task(name)]


def test_a_worker_that_is_left_alone_still_has_a_cluster() -> None:
    """The program is the same: it asks TF_CONFIG who it is."""
    left = replace(job(workers=2), given_up=(task("worker:0"),))
    config = json.loads(config_of(left, "worker:1") or "")
    assert config == {"cluster": {"worker": ["localhost:2000"]}, "task": {"type": "worker", "index": 0}}


def test_the_evaluator_is_told_the_cluster_that_it_is_no_part_of() -> None:
    """Training tasks would wait for it, so that nobody sees it."""
    config = json.loads(config_of(PS, "evaluator:0") or "")
    assert config["task"] == {"type": "evaluator", "index": 0}
    assert "evaluator" not in config["cluster"]


@pytest.mark.parametrize(("spec", "name"), [(job(workers=1), "worker:0"), (job(chief=1, evaluator=1), "chief:0")])
def test_one_training_task_needs_no_cluster(spec: JobSpec, name: str) -> None:
    """It gets no TF_CONFIG at all."""
    assert config_of(spec, name) is None


def test_the_side_car_of_one_training_task_is_told_that_it_is_one() -> None:
    """It gets a TF_CONFIG although the training task gets none."""
    spec = job(workers=1, evaluator=1)
    config = json.loads(config_of(spec, "evaluator:0") or "")
    assert config["task"]["type"] == "evaluator"


def test_more_than_ten_tasks_keep_the_order_of_their_indices() -> None:
    """worker:10 comes after worker:9, not after worker:1."""
    spec = job(workers=12)
    ports = [int(endpoint[-4:]) for endpoint in cluster_spec(spec, endpoints(spec))["worker"]]
    assert ports == list(range(2000, 2012))
