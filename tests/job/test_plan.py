"""What exactly is started for a task."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from clusterkit.job.plan import BUILTIN_SERVER, RESERVED, TaskPlan, attempt_env, attempt_environment, plan_tasks
from clusterkit.store.paths import RunPaths
from clusterkit.words.job import Devices, JobSpec, Network, Servers, Setup, TfConfig
from clusterkit.words.model import Program, ProgramKind, TaskType
from tests.histories import job, task

PATHS = RunPaths(PurePosixPath("/state/runs/r-1"), PurePosixPath("/data/ckpt"))


def plan(spec: JobSpec, name: str) -> TaskPlan:
    """The plan of one task, with ports from 2000."""
    endpoints = {t: f"localhost:{2000 + i}" for i, t in enumerate(spec.tasks) if t.type is not TaskType.EVALUATOR}
    return plan_tasks(spec, endpoints, PATHS, "/venv/bin/python")[task(name)]


@pytest.mark.parametrize(
    ("program", "command"),
    [
        (Program(ProgramKind.SCRIPT, "a b.py", ("-x", "")), ("/venv/bin/python", "a b.py", "-x", "")),
        (Program(ProgramKind.MODULE, "pkg.train", ("1",)), ("/venv/bin/python", "-m", "pkg.train", "1")),
        (Program(ProgramKind.COMMAND, "bash", ("-c", "true")), ("bash", "-c", "true")),
    ],
)
def test_the_command_is_what_a_person_would_type(program: Program, command: tuple[str, ...]) -> None:
    """Of a script, a module and anything else."""
    assert plan(replace(job(workers=2), program=program), "worker:1").command == command


def test_a_task_is_told_all_about_itself() -> None:
    """The environment of every task of a cluster."""
    env = plan(job(workers=2), "worker:1").env
    assert {key: value for key, value in env.items() if key != "TF_CONFIG"} == {
        "PYTHONUNBUFFERED": "1",
        "TF_GRPC_REUSE_PORT": "true",
        "CLUSTERKIT_RUN_ID": "r-1",
        "CLUSTERKIT_SEED": "r-1",
        "CLUSTERKIT_TASK": "worker:1",
        "CLUSTERKIT_CHECKPOINT_DIR": "/data/ckpt",
        "CLUSTERKIT_RUN_DIR": "/state/runs/r-1",
        "CLUSTERKIT_PROGRESS": "/state/runs/r-1/tasks/worker:1/progress",
        "CLUSTERKIT_PATCHES": "keras-fit,order,callbacks-apart,leader-first,sigterm,sigterm-kept,steps,stages,"
        "distribution,breakpoints,tracebacks",
    }
    assert '"index": 1' in env["TF_CONFIG"]


@pytest.mark.parametrize(
    ("seed", "began_as", "expected"), [(None, None, "r-1"), (None, "r-0", "r-0"), (0, None, "0"), (7, "r-0", "7")]
)
def test_what_the_order_of_data_follows_from(seed: int | None, began_as: str | None, expected: str) -> None:
    """The seed, if the job has one; else the run in which the training began."""
    env = plan(replace(job(workers=2), seed=seed, began_as=began_as), "worker:1").env
    assert env["CLUSTERKIT_SEED"] == expected


def test_a_job_may_not_set_what_clusterkit_sets() -> None:
    """Whatever is in a plan beside the usual settings is reserved."""
    told = plan(job(workers=2), "worker:1").env.keys() | attempt_env(1, "").keys()
    assert told - {"PYTHONUNBUFFERED"} < RESERVED


def test_a_task_is_told_what_to_record_and_where() -> None:
    """Only if that is asked for; a task that clusterkit runs inside such a task inherits nothing."""
    recording = plan(replace(job(workers=2), record="0,1,50"), "worker:1")
    named = {"CLUSTERKIT_RECORD": "/state/runs/r-1/recorded", "CLUSTERKIT_RECORD_STEPS": "0,1,50"}
    assert {name: recording.env[name] for name in named} == named
    assert recording.env.keys() - {"PYTHONUNBUFFERED"} < RESERVED
    assert named.keys() <= plan(job(workers=2), "worker:1").dropped


def test_where_no_port_is_held_none_is_to_be_shared() -> None:
    """On the virtual network a second server on a task's port has to fail, as it does on a host of its own."""
    env = plan(replace(job(workers=2), network=Network.VIRTUAL), "worker:1").env
    assert "TF_GRPC_REUSE_PORT" not in env


def test_a_task_without_tf_config_does_not_inherit_one() -> None:
    """A TF_CONFIG in the user's shell would make a single process wait for a cluster."""
    alone = plan(job(workers=1), "worker:0")
    assert "TF_CONFIG" not in alone.env
    assert "TF_CONFIG" in alone.dropped
    assert "TF_CONFIG" not in plan(job(workers=2), "worker:0").dropped


def test_one_worker_can_have_a_tf_config() -> None:
    """For a program that needs one; it lists this worker alone."""
    alone = plan(replace(job(workers=1), tf_config=TfConfig.ALWAYS), "worker:0")
    config = {"cluster": {"worker": ["localhost:2000"]}, "task": {"type": "worker", "index": 0}}
    assert json.loads(alone.env["TF_CONFIG"]) == config
    assert "TF_CONFIG" not in alone.dropped
    assert plan(replace(job(workers=2), tf_config=TfConfig.ALWAYS), "worker:0") == plan(job(workers=2), "worker:0")


def test_what_is_said_of_one_type_goes_before_what_is_said_of_all() -> None:
    """Environment merges; directory, arguments and interpreter replace."""
    spec = replace(
        job(workers=1, ps=1),
        program=Program(ProgramKind.SCRIPT, "t.py", ("all",)),
        setup=Setup({"A": "all", "B": "all", "PYTHONUNBUFFERED": "0"}, "/all", None, "/all/python"),
        setups={TaskType.WORKER: Setup({"B": "own", "C": "own"}, "/own", (), "/own/python"), TaskType.PS: Setup()},
    )
    worker, ps = plan(spec, "worker:0"), plan(spec, "ps:0")
    assert [worker.env[key] for key in "ABC"] == ["all", "own", "own"]
    assert (worker.command, worker.cwd) == (("/own/python", "t.py"), "/own")
    assert (ps.command, ps.cwd) == (("/all/python", "t.py", "all"), "/all")
    assert ps.env["B"] == "all"
    assert ps.env["PYTHONUNBUFFERED"] == "0"


def test_what_clusterkit_sets_can_not_be_set_otherwise() -> None:
    """The ports are held with SO_REUSEPORT, so a task without it could not bind its own."""
    spec = replace(job(workers=2), setup=Setup({"TF_GRPC_REUSE_PORT": "false", "CLUSTERKIT_TASK": "x"}))
    env = plan(spec, "worker:0").env
    assert (env["TF_GRPC_REUSE_PORT"], env["CLUSTERKIT_TASK"]) == ("true", "worker:0")


def test_builtin_servers_are_what_only_serves_runs() -> None:
    """With the directory, environment and interpreter of the task, and without the program's arguments."""
    spec = replace(
        job(workers=1, ps=1, evaluator=1),
        program=Program(ProgramKind.COMMAND, "./train.sh", ("all",)),
        setups={TaskType.PS: Setup({"B": "own"}, "/own", ("mine",), "/own/python")},
        servers=Servers.BUILTIN,
    )
    assert plan(spec, "worker:0").command == ("/venv/bin/python", BUILTIN_SERVER)
    ps = plan(spec, "ps:0")
    assert (ps.command, ps.cwd, ps.env["B"]) == (("/own/python", BUILTIN_SERVER), "/own", "own")
    for name in ("chief:0", "evaluator:0"):
        assert plan(spec, name).command == ("./train.sh", "all")


def test_a_tasks_share_of_the_machine_is_in_its_environment() -> None:
    """Thread counts and memory growth are the user's to change, cores and GPUs are not."""
    spec = replace(
        job(workers=2),
        devices=Devices(cpus=2, gpus=1, cores=(0, 1, 2, 3), names=("a", "b")),
        setup=Setup({"OMP_NUM_THREADS": "1", "TF_FORCE_GPU_ALLOW_GROWTH": "false"}),
        setups={TaskType.WORKER: Setup({"TF_NUM_INTEROP_THREADS": "8"})},
    )
    env = plan(spec, "worker:1").env
    assert {name: env[name] for name in env if name.startswith(("OMP", "TF_NUM", "TF_FORCE", "CUDA"))} == {
        "OMP_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "2",
        "TF_NUM_INTEROP_THREADS": "8",
        "TF_FORCE_GPU_ALLOW_GROWTH": "false",
        "CUDA_VISIBLE_DEVICES": "b",
    }
    assert env["CLUSTERKIT_CORES"] == "2,3"


def test_who_is_left_keeps_its_share_of_the_machine() -> None:
    """What was wrong may have been the worker's that was given up: nobody else gets its GPU, or its cores."""
    devices = Devices(cpus=1, gpus=1, cores=(0, 1, 2), names=("a", "b", "c"))
    spec = replace(job(workers=3), devices=devices, given_up=(task("worker:1"),))
    endpoints = {one: f"localhost:{2000 + one.index}" for one in job(workers=3).tasks}
    plans = plan_tasks(spec, endpoints, PATHS, "python", here=set(endpoints))
    shares = {str(one): (p.env["CUDA_VISIBLE_DEVICES"], p.env["CLUSTERKIT_CORES"]) for one, p in plans.items()}
    assert shares == {"worker:0": ("a", "0"), "worker:2": ("c", "2")}


def test_cores_of_a_run_around_this_one_are_not_inherited() -> None:
    """A task may itself run `clusterkit up`, and say nothing of cores."""
    inherited = {"CLUSTERKIT_CORES": "0", "PATH": "/bin"}
    env = attempt_environment(inherited, plan(job(workers=2), "worker:0"), 1, "")
    assert "CLUSTERKIT_CORES" not in env
    assert env["PATH"] == "/bin"


PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        ({"http_proxy": PROXY}, "localhost"),
        ({"https_proxy": PROXY, "no_proxy": "a,b"}, "a,b,localhost"),
        ({"grpc_proxy": PROXY, "no_grpc_proxy": "c", "no_proxy": "a,b"}, "c,localhost"),  # the first that is set
        ({"http_proxy": PROXY, "no_proxy": "localhost,a"}, "localhost,a"),
        ({"http_proxy": "", "no_proxy": "a"}, None),
        ({"HTTP_PROXY": PROXY}, None),  # gRPC ignores it
        ({"no_grpc_proxy": "c"}, "c"),
    ],
)
def test_tasks_reach_each_other_past_a_proxy(inherited: dict[str, str], expected: str | None) -> None:
    """gRPC takes the first proxy that is set for connections to this machine too, and two workers would never meet."""
    env = attempt_environment(inherited, plan(job(workers=2), "worker:0"), 1, "")
    assert env.get("no_grpc_proxy") == expected
    alone = attempt_environment(inherited, plan(job(workers=1), "worker:0"), 1, "")
    assert alone.get("no_grpc_proxy") == inherited.get("no_grpc_proxy")


def test_where_a_run_keeps_its_things() -> None:
    """The directory layout of the design."""
    worker = task("worker:1")
    assert str(PATHS.log(worker, 2)) == "/state/runs/r-1/tasks/worker:1/attempt-2.log"
    assert str(PATHS.stacks(worker, 2)) == "/state/runs/r-1/stacks/worker:1.attempt-2.txt"
    assert str(PATHS.progress(worker)) == "/state/runs/r-1/tasks/worker:1/progress"


def test_an_attempt_knows_its_number_and_why_it_was_started() -> None:
    """The only part of the environment that changes between attempts."""
    assert attempt_env(2, "failure") == {"CLUSTERKIT_ATTEMPT": "2", "CLUSTERKIT_RESTART_REASON": "failure"}
