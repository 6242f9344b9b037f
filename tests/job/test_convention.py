"""What tasks get beside TF_CONFIG for Keras on JAX and for JAX, and what contradicts it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import Any

import pytest

from clusterkit.job.plan import plan_tasks
from clusterkit.store.paths import Paths
from clusterkit.words.errors import BadJob
from clusterkit.words.job import Convention, JobSpec, Setup
from clusterkit.words.model import ProgramKind
from tests.histories import build_job, job, task


def planned(spec: JobSpec, host: str = "127.0.0.1") -> dict[str, dict[str, str]]:
    """The environment of each task, by its name."""
    endpoints = {one: f"{host}:{2000 + number}" for number, one in enumerate(spec.tasks)}
    plans = plan_tasks(spec, endpoints, Paths(PurePath("/runs/one")), "python")
    return {str(one): dict(plan.env) for one, plan in plans.items()}


def of(env: dict[str, str], *words: str) -> dict[str, str]:
    """The variables whose names begin like that."""
    return {name: value for name, value in env.items() if name.startswith(words)}


def test_jax_gets_its_coordinator_and_the_numbers() -> None:
    """The first worker is the coordinator; on loopback, its service listens there only."""
    found = planned(replace(job(workers=3), convention=Convention.JAX))
    assert of(found["worker:2"], "JAX", "KERAS") == {
        "JAX_COORDINATOR_ADDRESS": "127.0.0.1:2000",
        "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:2000",
        "JAX_NUM_PROCESSES": "3",
        "JAX_PROCESS_ID": "2",
    }
    assert found["worker:0"]["JAX_PROCESS_ID"] == "0"
    assert "TF_CONFIG" in found["worker:2"]
    left = planned(replace(job(workers=3), convention=Convention.JAX, given_up=(task("worker:0"),)))
    assert of(left["worker:2"], "JAX_NUM", "JAX_PROC") == {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "1"}
    elsewhere = planned(replace(job(workers=2), convention=Convention.JAX), "n1.example")
    assert "JAX_COORDINATOR_BIND_ADDRESS" not in elsewhere["worker:0"]


def test_keras_gets_every_address_and_the_backend() -> None:
    """A job may choose another backend."""
    spec = replace(job(workers=2), convention=Convention.KERAS)
    assert of(planned(spec)["worker:1"], "JAX", "KERAS") == {
        "KERAS_BACKEND": "jax",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": "127.0.0.1:2000,127.0.0.1:2001",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
        "KERAS_DISTRIBUTION_PROCESS_ID": "1",
        "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:2000",
    }
    torch = replace(spec, setup=Setup(env={"KERAS_BACKEND": "torch"}))
    assert planned(torch)["worker:1"]["KERAS_BACKEND"] == "torch"


@pytest.mark.parametrize("convention", [Convention.KERAS, Convention.JAX])
def test_a_single_worker_needs_no_others(convention: Convention) -> None:
    """It is a single process."""
    found = of(planned(replace(job(workers=1), convention=convention))["worker:0"], "JAX", "KERAS")
    assert found == ({"KERAS_BACKEND": "jax"} if convention is Convention.KERAS else {})


def test_those_that_are_left_count_without_gaps() -> None:
    """When a worker is given up, as TensorFlow's do."""
    found = planned(replace(job(workers=3), convention=Convention.JAX, given_up=(task("worker:0"),)))
    assert [found[name]["JAX_PROCESS_ID"] for name in ("worker:1", "worker:2")] == ["0", "1"]
    assert {env["JAX_COORDINATOR_ADDRESS"] for env in found.values()} == {found["worker:1"]["JAX_COORDINATOR_ADDRESS"]}
    assert {env["JAX_NUM_PROCESSES"] for env in found.values()} == {"2"}


def test_tensorflow_gets_nothing_new() -> None:
    """Nor do the patches of Keras run where TensorFlow does not."""
    usual = planned(job(workers=2))["worker:1"]
    assert of(usual, "JAX", "KERAS") == {}
    assert "keras-fit" in usual["CLUSTERKIT_PATCHES"]
    assert "CLUSTERKIT_PATCHES" not in planned(replace(job(workers=2), convention=Convention.JAX))["worker:1"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ps": 1, "workers": 2}, "--convention jax knows workers only, and the job has a task of the type ps."),
        ({"ps": 1, "workers": 2}, "has a task of the type chief. Leave out --chief."),
        ({"chief": True, "workers": 2}, "has a task of the type chief. Leave out --chief."),
        ({"evaluator": True, "workers": 2}, "has a task of the type evaluator."),
        ({"workers": 2, "keras": 2}, "--keras is for tf.keras."),
        ({"workers": 2, "start": "warm"}, "tasks start cold"),
        ({"workers": 2, "preload": ["numpy"]}, "tasks start cold"),
        ({"workers": 2, "network": "virtual"}, "--network virtual"),
        ({"workers": 2, "env": {"JAX_PROCESS_ID": "1"}}, "env: JAX_PROCESS_ID is what --convention jax sets."),
    ],
)
def test_what_contradicts_it_is_an_error(options: dict[str, Any], said: str) -> None:
    """With what to do."""
    with pytest.raises(BadJob) as caught:
        build_job({"program": "train.py", "convention": "jax", **options}, ProgramKind.SCRIPT)
    assert said in str(caught.value)
    if "JAX_PROCESS_ID" not in said:
        return
    assert build_job({"program": "train.py", "workers": 2, "env": options["env"]}, ProgramKind.SCRIPT)


def test_only_the_first_process_of_jax_has_to_listen() -> None:
    """The others are up when it is, as far as anyone can see."""
    spec = replace(job(workers=2), convention=Convention.JAX)
    assert [spec.listens(task(name)) for name in ("worker:0", "worker:1")] == [True, False]
    assert job(workers=2).listens(task("worker:1"))
