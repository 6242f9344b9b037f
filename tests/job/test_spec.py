"""From options to a job: shapes and defaults, and every problem that an option can have."""

from __future__ import annotations

from typing import Any, cast

import pytest

from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.job.spec import describe
from clusterkit.words.errors import BadJob
from clusterkit.words.job import JobSpec, Limits, RestartPolicy, RestartRules, RestartScope, Setup
from clusterkit.words.model import ProgramKind, Shape, TaskType
from tests.histories import build_job


def build(**options: Any) -> JobSpec:
    """A job of a script with these options."""
    return build_job({"program": "train.py", **options}, ProgramKind.SCRIPT)


def problems(**options: Any) -> tuple[str, ...]:
    """What is wrong with these options."""
    with pytest.raises(BadJob) as raised:
        build_job(options, ProgramKind.SCRIPT)
    return raised.value.problems


@pytest.mark.parametrize(
    ("options", "tasks", "shape", "leader"),
    [
        ({}, "worker:0", Shape.SINGLE, "worker:0"),
        ({"workers": 1}, "worker:0", Shape.SINGLE, "worker:0"),
        ({"chief": True}, "chief:0", Shape.SINGLE, "chief:0"),
        ({"chief": False}, "worker:0", Shape.SINGLE, "worker:0"),
        ({"evaluator": False}, "worker:0", Shape.SINGLE, "worker:0"),
        ({"ps": 0}, "worker:0", Shape.SINGLE, "worker:0"),
        ({"workers": 2}, "worker:0 worker:1", Shape.MULTI_WORKER, "worker:0"),
        ({"workers": 1, "chief": True}, "chief:0 worker:0", Shape.MULTI_WORKER, "chief:0"),
        ({"workers": 1, "chief": 1}, "chief:0 worker:0", Shape.MULTI_WORKER, "chief:0"),
        ({"workers": 1, "evaluator": True}, "worker:0 evaluator:0", Shape.SINGLE, "worker:0"),
        ({"workers": 2, "ps": 1}, "chief:0 worker:0 worker:1 ps:0", Shape.PARAMETER_SERVER, "chief:0"),
        ({"workers": 1, "ps": 2, "chief": True}, "chief:0 worker:0 ps:0 ps:1", Shape.PARAMETER_SERVER, "chief:0"),
    ],
)
def test_counts_become_tasks_and_a_shape(options: dict[str, Any], tasks: str, shape: Shape, leader: str) -> None:
    """Nothing asked for is one worker; a ps brings its chief."""
    job = build(**options)
    assert " ".join(map(str, job.tasks)) == tasks
    assert (job.shape, str(job.leader)) == (shape, leader)


@pytest.mark.parametrize(
    ("options", "servers"),
    [({"workers": 1, "ps": 1}, "worker:0 ps:0"), ({"workers": 2}, ""), ({"workers": 1, "evaluator": 1}, "")],
)
def test_who_only_serves(options: dict[str, Any], servers: str) -> None:
    """ps and workers of a parameter-server job never return from join."""
    job = build(**options)
    assert " ".join(str(task) for task in job.tasks if job.is_server(task)) == servers


def test_what_is_not_given_has_its_default() -> None:
    """The defaults of the design."""
    job = build()
    assert job.restart == RestartRules(RestartPolicy.ON_FAILURE, 3, 1.0, 30.0, RestartScope.AUTO, 600.0)
    limits = Limits(
        grace=10.0, finish=10.0, servers=3.0, collateral=1.0, evaluator=30.0, startup=120.0, stall_warning=60.0,
        stall=0.0, job=0.0, drain=2.0,
    )  # fmt: skip
    assert job.limits == limits
    assert (job.checkpoint_dir, job.resume, job.progress_regex, job.setup) == (None, None, None, Setup())


def test_every_option_finds_its_place() -> None:
    """Flags under their names with underscores."""
    job = build(
        args=["--epochs", "3"],
        env={"A": "1"},
        cwd="/tmp",
        python="/usr/bin/python3",
        task={"worker": {"env": {"B": "2"}, "args": ["-v"], "cwd": None, "python": None}, "ps": {"args": None}},
        restart="always",
        restart_budget=0,
        restart_backoff=0.5,
        restart_backoff_max=4.0,
        restart_scope="job",
        workers=3,
        min_workers=2,
        grace_period=1.0,
        startup_timeout=2.0,
        stall_warning=3.0,
        stall_timeout=4.0,
        timeout=5.0,
        checkpoint_dir="ckpt",
        resume="r-1",
        progress_regex=r"step (\d+)",
    )
    assert job.program.args == ("--epochs", "3")
    assert job.setup == Setup({"A": "1"}, "/tmp", None, "/usr/bin/python3")
    assert job.setups == {TaskType.WORKER: Setup({"B": "2"}, args=("-v",)), TaskType.PS: Setup()}
    assert job.restart == RestartRules(RestartPolicy.ALWAYS, 0, 0.5, 4.0, RestartScope.JOB, min_workers=2, insists=True)
    assert job.limits == Limits(grace=1.0, startup=2.0, stall_warning=3.0, stall=4.0, job=5.0)
    assert (job.checkpoint_dir, job.resume, job.progress_regex) == ("ckpt", "r-1", r"step (\d+)")


def test_a_module_is_a_program_too() -> None:
    """-m NAME names it."""
    job = build_job({"module": "pkg.train", "args": ["x"]}, ProgramKind.MODULE)
    assert (str(job.program), job.program.args) == ("-m pkg.train", ("x",))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"workers": -1}, "--workers is -1. It has to be 0 or more."),
        ({"workers": 2, "ps": -3}, "--ps is -3. It has to be 0 or more."),
        ({"chief": 2}, "2 chief tasks are asked for. TensorFlow knows at most one."),
        ({"workers": 1, "evaluator": 2}, "2 evaluator tasks are asked for. TensorFlow knows at most one."),
        ({"workers": 4097}, "4097 tasks are asked for. One machine is taken to hold 4096 at most."),
        ({"workers": 8193, "hosts": 2}, "8193 tasks are asked for. One machine is taken to hold 4096 at most."),
        (
            {"workers": 16385, "hosts": 1000},
            "16385 tasks are asked for. A job has 16384 at most, on however many hosts.",
        ),
        ({"ps": 1}, "There are parameter servers but no workers to train. Add --workers 2."),
        (
            {"ps": 1, "workers": 1, "chief": False},
            "A parameter-server job needs its chief, which is the coordinator. Leave out --no-chief.",
        ),
        ({"evaluator": True}, "The job has no task that trains, only an evaluator. Add --workers 1."),
        ({"workers": 0}, "The job has no task that trains. Add --workers 1."),
        ({"env": {"TF_CONFIG": "{}"}}, "env: TF_CONFIG is set by clusterkit in every task and can't be given."),
        (
            {"env": {"CLUSTERKIT_TASK": "x"}},
            "env: CLUSTERKIT_TASK is set by clusterkit in every task and can't be given.",
        ),
        (
            {"task": {"ps": {"env": {"CLUSTERKIT_ATTEMPT": "9"}}}},
            "task.ps.env: CLUSTERKIT_ATTEMPT is set by clusterkit in every task and can't be given.",
        ),
        ({"env": {"A=B": "x"}}, "env: 'A=B' can't be the name of an environment variable with that value."),
        ({"env": {"": "x"}}, "env: '' can't be the name of an environment variable with that value."),
        ({"env": {"A": "x\0y"}}, "env: 'A' can't be the name of an environment variable with that value."),
        ({"args": ["a\0"]}, "args: 'a\\x00' has a character that can't be passed to a program, such as NUL."),
        (
            {"task": {"ps": {"args": ["\0"]}}},
            "task.ps.args: '\\x00' has a character that can't be passed to a program, such as NUL.",
        ),
        ({"cwd": "\0"}, "--cwd: '\\x00' has a character that can't be passed to a program, such as NUL."),
        ({"cwd": ""}, "--cwd is empty. Give a value, or leave it out."),
        ({"checkpoint_dir": ""}, "--checkpoint-dir is empty. Give a value, or leave it out."),
        ({"python": ""}, "--python is empty. Give a value, or leave it out."),
        ({"task": {"worker": {"python": ""}}}, "task.worker.python is empty. Give a value, or leave it out."),
        ({"resume": ""}, "--resume is empty. Give a value, or leave it out."),
        ({"hosts": 10**20}, "--hosts is 100000000000000000000. It has to be 16384 or less."),
        ({"hosts": 2, "spare_hosts": 10**20}, "--spare-hosts is 100000000000000000000. It has to be 16384 or less."),
        ({"restart_budget": -1}, "--restart-budget is -1. It has to be 0 or more."),
        ({"cpus_per_task": 0}, "--cpus-per-task is 0. It has to be 1 or more."),
        ({"gpus_per_task": -1}, "--gpus-per-task is -1. It has to be 0 or more."),
        (
            {"gpus_per_task": 1, "task": {"worker": {"env": {"CUDA_VISIBLE_DEVICES": "0"}}}},
            "--gpus-per-task sets CUDA_VISIBLE_DEVICES in every task. To hand out some GPUs only, set it for "
            "clusterkit itself: CUDA_VISIBLE_DEVICES=2,3 clusterkit up …",
        ),
        (
            {"servers": "builtin", "workers": 2},
            "--servers builtin is for jobs with parameter servers: workers serve in no other. Add --ps 1.",
        ),
        ({"workers": 4, "min_workers": -1}, "--min-workers is -1. It has to be 1 or more."),
        ({"workers": 4, "min_workers": 0}, "--min-workers is 0. It has to be 1 or more."),
        (
            {"workers": 4, "min_workers": 5},
            "--min-workers is 5, and the job has 4 workers. It has to be 4 or less.",
        ),
        ({"min_workers": 1}, "--min-workers 1 is for a job of several workers. Add --workers 2."),
        (
            {"chief": True, "evaluator": True, "min_workers": 3},
            "--min-workers 3 is for a job of several workers. Add --workers 3.",
        ),
        (
            {"workers": 4, "min_workers": 2, "restart": "never"},
            "--min-workers restarts tasks, which --restart never forbids. To give a worker up at its first failure, "
            "use --restart-budget 0 instead.",
        ),
        ({"record": "0,,2"}, "--record '0,,2' has to be numbers of steps, such as 0,1,50."),
        ({"progress_regex": "step"}, "--progress-regex 'step' has no group. Put the step in one: 'step (\\d+)'."),
        (
            {"progress_regex": "(step|epoch) \\d+"},
            "--progress-regex '(step|epoch) \\\\d+' has no group that can match a number. "
            "Put the step in one: 'step (\\d+)'.",
        ),
        (
            {"progress_regex": "step ("},
            "--progress-regex 'step (' is not a regular expression: missing ), unterminated subpattern at position 5.",
        ),
    ],
)
def test_what_can_not_be_is_told_in_a_sentence(options: dict[str, Any], problem: str) -> None:
    """Each with what to do about it, and nothing else with it."""
    assert problems(program="train.py", **options) == (problem,)


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, "No program is given."),
        ({"program": "a.py", "module": "a"}, "Both a program and a module are given."),
        ({"program": ""}, "No program is given."),
    ],
)
def test_there_has_to_be_one_program(options: dict[str, Any], start: str) -> None:
    """A file or a module, not neither and not both."""
    (problem,) = problems(**options)
    assert problem.startswith(start)


def test_all_problems_with_too_few_workers_are_told_at_once() -> None:
    """The bound, and what contradicts it."""
    assert len(problems(program="train.py", workers=2, min_workers=-1, restart="never")) == 2
    assert len(problems(program="train.py", workers=2, min_workers=3, restart="never")) == 2


def test_all_problems_are_told_at_once() -> None:
    """Nobody has to run the command again to learn of the next one."""
    env, task = {"TF_CONFIG": "{}"}, {"ps": {"env": {"": ""}}}
    found = problems(ps=1, chief=2, evaluator=5, env=env, restart_budget=-2, progress_regex="[", task=task)
    assert len(found) == 8
    assert str(BadJob(found)) == "\n".join(found)


@pytest.mark.parametrize("name", ["A", "TF_CPP_MIN_LOG_LEVEL", "CLUSTERKIT_HOME", "CLUSTERKIT_TASKS"])
def test_other_variables_may_be_set(name: str) -> None:
    """Only the names that clusterkit sets itself are taken."""
    assert build(env={name: "1"}).setup.env == {name: "1"}


@pytest.mark.parametrize(
    ("wrong", "options", "told"),
    [
        ({"workers"}, {"ps": 1}, []),  # what it would need is not known
        ({"workers"}, {"ps": -1}, ["--ps is -1"]),
        ({"ps"}, {"workers": 2, "servers": "builtin"}, []),
        ({"network"}, {"pcap": "x", "fault": ["partition worker:0"]}, []),
        ({"network"}, {"fault": ["explode worker:0"]}, ["no action 'explode'"]),
        ({"program"}, {"program": ""}, []),
        ({"grace_period"}, {"restart_budget": -1, "fault": ["kill worker:9"]}, ["--restart-budget is -1", "worker:9"]),
        (set(), {"workers": -1, "program": "", "seed": 2**64}, ["No program", "--workers is -1", "--seed is"]),
    ],
)
def test_problems_beside_wrong_options(wrong: set[str], options: dict[str, Any], told: list[str]) -> None:
    """Every problem that is one whatever was meant, and none that only the wrong option makes."""
    gathered = GivenOptions(cast(JobOptions, {"program": "train.py", **options}), (), frozenset(wrong))
    _, found, clear = describe(gathered)
    assert len(found) == len(told), found
    for part, problem in zip(told, found, strict=True):
        assert part in problem
    assert clear or told or wrong
