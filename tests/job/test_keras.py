"""Which Keras the tasks get, and which of them are patched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from clusterkit.job.keras import keras_env, keras_problems, patches_of
from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.job.spec import describe
from clusterkit.words.job import Convention, RestartRules, Servers, TfConfig
from clusterkit.words.model import Program, ProgramKind
from tests.histories import faults, job, task


@pytest.mark.parametrize(
    ("counts", "name", "patches"),
    [
        ({"workers": 1}, "worker:0", "steps,stages,shared-backups,breakpoints,tracebacks"),
        (
            {"workers": 2},
            "worker:1",
            "keras-fit,order,callbacks-apart,leader-first,sigterm,sigterm-kept,steps,stages,distribution,breakpoints,tracebacks",
        ),
        (
            {"workers": 1, "chief": 1},
            "chief:0",
            "keras-fit,order,backup-whole,sigterm,sigterm-kept,steps,stages,distribution,shared-backups,keras-2,breakpoints,"
            "tracebacks",
        ),
        ({"workers": 2, "evaluator": 1}, "evaluator:0", "evaluations,breakpoints,tracebacks"),
        (
            {"workers": 2, "ps": 1, "chief": 1},
            "chief:0",
            "keras-ps,program-end,coordinator-functions,steps,stages,distribution,shared-backups,step-times,breakpoints,"
            "tracebacks",
        ),
        ({"workers": 2, "ps": 1, "chief": 1}, "worker:0", "coordinator,stages,distribution,breakpoints,tracebacks"),
        ({"workers": 2, "ps": 1, "chief": 1}, "ps:0", "coordinator,stages,distribution,breakpoints,tracebacks"),
    ],
)
def test_a_task_is_told_what_to_patch(counts: dict[str, Any], name: str, patches: str) -> None:
    """Each shape and task type."""
    assert keras_env(job(**counts), task(name)).get("CLUSTERKIT_PATCHES") == patches


def test_keras_is_left_alone_where_that_is_asked_for() -> None:
    """With --no-patches, and with Keras 2, which has no such faults."""
    gang, servers = job(workers=2), job(workers=2, ps=1, chief=1)
    for change in ({"patches": False}, {"keras": 2}):
        assert "keras-fit" not in keras_env(replace(gang, **change), task("worker:0"))["CLUSTERKIT_PATCHES"]
        assert (
            keras_env(replace(servers, **change), task("chief:0"))["CLUSTERKIT_PATCHES"]
            == "program-end,coordinator-functions,steps,stages,distribution,shared-backups,step-times,breakpoints,"
            "tracebacks"
        )
        assert (
            keras_env(replace(servers, **change), task("worker:0"))["CLUSTERKIT_PATCHES"]
            == "coordinator,stages,distribution,breakpoints,tracebacks"
        )


def test_every_task_that_runs_the_program_may_ignore_its_tf_config() -> None:
    """With --tf-config ours, whatever else is patched; not clusterkit's own servers."""
    servers = replace(job(workers=1, ps=1, chief=1, evaluator=1), tf_config=TfConfig.OURS)
    names = ("chief:0", "worker:0", "ps:0", "evaluator:0")
    assert [patches_of(servers, task(name)) for name in names] == [
        "tf-config,keras-ps,program-end,coordinator-functions,steps,stages,distribution,shared-backups,step-times,"
        "breakpoints,tracebacks",
        "tf-config,coordinator,stages,distribution,breakpoints,tracebacks",
        "tf-config,coordinator,stages,distribution,breakpoints,tracebacks",
        "tf-config,evaluations,breakpoints,tracebacks",
    ]
    assert patches_of(replace(servers, servers=Servers.BUILTIN), task("ps:0")) == ""


def test_steps_that_are_found_in_the_log_are_not_counted_too() -> None:
    """With --progress-regex."""
    assert (
        patches_of(replace(job(workers=1), progress_regex="step ([0-9]+)"), task("worker:0"))
        == "stages,shared-backups,breakpoints,tracebacks"
    )


@pytest.mark.parametrize(
    ("counts", "recording", "ordered"),
    [
        ({"workers": 1}, ["worker:0"], ["worker:0"]),
        ({"workers": 2, "evaluator": 1}, ["worker:0", "worker:1"], ["worker:0", "worker:1"]),
        ({"workers": 1, "ps": 1, "chief": 1}, ["chief:0"], []),
    ],
)
def test_tasks_that_train_record(counts: dict[str, Any], recording: list[str], ordered: list[str]) -> None:
    """One that trains alone has the order of data that a gang has, with which it is compared."""
    spec = replace(job(**counts), record="0,1")
    patches = {str(one): patches_of(spec, one).split(",") for one in spec.tasks}
    assert [name for name, found in patches.items() if "recorder" in found] == recording
    assert [name for name, found in patches.items() if "order" in found] == ordered


def test_a_command_has_the_patches_that_can_be_applied_late() -> None:
    """Its Python program may be one of several, and gets them when it imports TensorFlow."""
    program = replace(job(workers=2), tf_config=TfConfig.OURS)
    command = replace(program, program=Program(ProgramKind.COMMAND, "./train.sh"))
    late = patches_of(command, task("worker:0")).split(",")
    early = [name for name in patches_of(program, task("worker:0")).split(",") if name not in late]
    assert early == ["tf-config", "sigterm", "sigterm-kept", "breakpoints"]
    assert late == [
        "keras-fit",
        "order",
        "backup-whole",
        "steps",
        "stages",
        "distribution",
        "shared-backups",
        "keras-2",
        "tracebacks",
    ]


def test_clusterkits_own_servers_are_not_patched() -> None:
    """The coordinator of such servers is."""
    builtin = replace(job(workers=2, ps=1, chief=1), servers=Servers.BUILTIN)
    assert keras_env(builtin, task("worker:0")) == {}
    assert keras_env(builtin, task("chief:0")) == {
        "CLUSTERKIT_PATCHES": "keras-ps,program-end,coordinator-end,coordinator-functions,steps,stages,"
        "distribution,shared-backups,step-times,breakpoints,tracebacks"
    }


def test_a_coordinator_that_may_lose_a_worker_for_good_ends_without_it() -> None:
    """Also where its program does not call `training.serve()`."""
    may = replace(job(workers=2, ps=1), restart=RestartRules(min_workers=1))
    assert "coordinator-end" in patches_of(may, task("chief:0")).split(",")
    assert "coordinator-end" not in patches_of(may, task("worker:0"))
    assert "coordinator-end" not in patches_of(job(workers=2, ps=1), task("chief:0"))


@pytest.mark.parametrize(("keras", "value"), [(None, None), (2, "1"), (3, "0")])
def test_tensorflow_is_told_which_keras(keras: int | None, value: str | None) -> None:
    """In every task, the evaluator too."""
    spec = replace(job(workers=2, evaluator=1), keras=keras)
    assert {keras_env(spec, each).get("TF_USE_LEGACY_KERAS") for each in spec.tasks} == {value}


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ({}, []),
        ({"env": {"TF_USE_LEGACY_KERAS": "1"}}, []),
        ({"keras": 3, "env": {"A": "b"}}, []),
        ({"keras": 4}, ["--keras is 4. It has to be 2 or 3."]),
        (
            {"keras": 2, "env": {"TF_USE_LEGACY_KERAS": "1"}, "task": {"worker": {"env": {"TF_USE_LEGACY_KERAS": ""}}}},
            [
                "env: TF_USE_LEGACY_KERAS is what --keras 2 sets. Give one of them.",
                "task.worker.env: TF_USE_LEGACY_KERAS is what --keras 2 sets. Give one of them.",
            ],
        ),
    ],
)
def test_contradictions_are_named(options: dict[str, Any], problems: list[str]) -> None:
    """Every one."""
    assert list(keras_problems(describe(GivenOptions(cast(JobOptions, options))).job)) == problems


def test_tasks_whose_phases_faults_wait_for_report_them() -> None:
    """No other tasks; with any convention, but not a command."""
    spec = replace(job(workers=2), faults=faults("kill worker:1 @ phase=saving"))
    assert "CLUSTERKIT_PHASES" not in keras_env(spec, task("worker:0"))
    env = keras_env(spec, task("worker:1"))
    assert (env["CLUSTERKIT_PATCHES"].split(",")[-1], env["CLUSTERKIT_PHASES"]) == ("phases", "saving:1:1")
    assert patches_of(replace(spec, convention=Convention.JAX), task("worker:1")) == "phases"
    assert patches_of(replace(spec, convention=Convention.JAX), task("worker:0")) == ""
