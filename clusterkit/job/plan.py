"""Plans each task's start: the command, directory and environment, including TF_CONFIG."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from clusterkit.job.debugging import DEBUGGER, EDITOR, debugging_env
from clusterkit.job.devices import CORES, shares_of, usual_env
from clusterkit.job.keras import PATCHES, PHASES, keras_env
from clusterkit.store.paths import RunPaths
from clusterkit.text.endpoints import host_in
from clusterkit.words.job import Convention, JobSpec, Network, Servers, Setup, StartMode, TfConfig
from clusterkit.words.model import Program, ProgramKind, Shape, Task, TaskType

Endpoints = Mapping[Task, str]  # task -> "host:port"


def cluster_spec(job: JobSpec, endpoints: Endpoints) -> dict[str, list[str]]:
    """Return the endpoints by task type, sorted by index, without the evaluator, for which the others would wait."""
    spec: dict[str, list[str]] = {}
    for task in job.tasks:
        if task.type is not TaskType.EVALUATOR:
            spec.setdefault(task.type, []).append(endpoints[task])
    return spec


def cluster_json(job: JobSpec, endpoints: Endpoints) -> str:
    """Return the cluster spec as JSON, as it appears in every task's TF_CONFIG."""
    return json.dumps(cluster_spec(job, endpoints))


def tf_config(job: JobSpec, task: Task, cluster: str) -> str | None:
    """Return the task's TF_CONFIG as JSON, or None for a job with one training task, unless the job asks for one.

    The evaluator of a job with one training task gets a TF_CONFIG without peers. TensorFlow counts tasks from 0 without
    gaps, so the indices after an abandoned worker move down. `cluster` is the result of `cluster_json`: the text can be
    long, so the caller computes it once for all tasks.
    """
    has_peers = job.shape is not Shape.SINGLE or task.type is TaskType.EVALUATOR
    if not has_peers and job.tf_config is not TfConfig.ALWAYS:
        return None
    omitted = sum(one.type is task.type and one.index < task.index for one in job.given_up)
    return f'{{"cluster": {cluster}, "task": {json.dumps({"type": task.type, "index": task.index - omitted})}}}'


BIND = "JAX_COORDINATOR_BIND_ADDRESS"
# The variables for the addresses, the number of processes and the process's index. JAX itself reads only its first one.
VARIABLES: Mapping[Convention, tuple[str, ...]] = {
    Convention.TENSORFLOW: (),
    Convention.KERAS: (
        "KERAS_DISTRIBUTION_JOB_ADDRESSES",
        "KERAS_DISTRIBUTION_NUM_PROCESSES",
        "KERAS_DISTRIBUTION_PROCESS_ID",
    ),
    Convention.JAX: ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"),
}


def peers_of(job: JobSpec, endpoints: Endpoints) -> tuple[str, ...]:
    """Return the training tasks' endpoints, with the leader's endpoint first; () if the convention needs none."""
    needed = job.convention is not Convention.TENSORFLOW and job.shape is Shape.MULTI_WORKER
    return tuple(endpoints[task] for task in job.training) if needed else ()


def convention_env(job: JobSpec, task: Task, peers: tuple[str, ...]) -> dict[str, str]:
    """Return the variables from which a task of a gang learns who its peers are. `peers` comes from `peers_of`."""
    if not peers:
        return {}
    addresses = ",".join(peers) if job.convention is Convention.KERAS else peers[0]
    values = (addresses, str(len(peers)), str(job.training.index(task)))
    # By default, JAX's coordination service listens on all addresses.
    bind = {BIND: peers[0]} if peers[0].startswith("127.") else {}
    return {**dict(zip(VARIABLES[job.convention], values, strict=True)), **bind}


def convention_problems(job: JobSpec) -> Iterator[str]:
    if job.convention is Convention.TENSORFLOW:
        return
    flag = f"--convention {job.convention}"
    for kind in (TaskType.PS, TaskType.CHIEF, TaskType.EVALUATOR):
        if job.counts[kind] > 0:
            yield f"{flag} knows workers only, and the job has a task of the type {kind}. Leave out --{kind}."
    if job.keras is not None:
        yield f"{flag}: --keras is for tf.keras. Leave it out."
    if job.start is StartMode.WARM or job.preload:
        yield f"{flag}: tasks start cold, since fork servers import TensorFlow. Leave out --start warm and --preload."
    if job.network is Network.VIRTUAL:
        yield f"{flag}: on the virtual network, JAX's processes do not find each other. Leave out --network virtual."
    for where, setup in job.every_setup.items():
        for name in VARIABLES[job.convention]:
            if name in setup.env:
                yield f"{where}env: {name} is what {flag} sets. Give one of them."


# The program of built-in servers. It is run by path, since clusterkit may not be installed for the tasks' interpreter.
BUILTIN_SERVER = str(PurePosixPath(__file__).parents[1] / "training" / "builtin_server.py")

# The directory whose sitecustomize.py patches the Python programs that a command starts.
DESCENDANTS = str(PurePosixPath(__file__).parents[1] / "task" / "descendants")

# gRPC uses the first of these variables that is set, even to reach 127.0.0.1, and ignores upper-case names.
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
NO_PROXIES = ("no_grpc_proxy", "no_proxy")  # the first variable that is set lists hosts to reach without a proxy

REUSE_PORT = "TF_GRPC_REUSE_PORT"
SEED = "CLUSTERKIT_SEED"  # seed for draws that must be equal in all tasks, such as the order of unseeded data
RECORD, RECORD_STEPS = "CLUSTERKIT_RECORD", "CLUSTERKIT_RECORD_STEPS"  # read by task/patches/recorder/recorder.py
PROGRAMS = "CLUSTERKIT_PROGRAMS"  # set if the task is a command, so that several programs may report
# What functions return from hosts can be read without running code.
RETURNS = "CLUSTERKIT_RETURNS"
# Variables that are set only if they are needed.
_OPTIONAL = frozenset({PROGRAMS, RETURNS, CORES, PATCHES, PHASES, DEBUGGER, EDITOR, RECORD, RECORD_STEPS})
_PATH_VARIABLES: Mapping[str, Callable[[RunPaths, Task], object]] = {
    "CLUSTERKIT_RUN_ID": lambda paths, task: paths.run_id,
    "CLUSTERKIT_TASK": lambda paths, task: task,
    "CLUSTERKIT_CHECKPOINT_DIR": lambda paths, task: paths.checkpoints,
    "CLUSTERKIT_RUN_DIR": lambda paths, task: paths.path,
    "CLUSTERKIT_PROGRESS": lambda paths, task: paths.progress(task),
}


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """How a task is started. Its environment is that of the supervisor plus `env`, without the variables in `dropped`.

    `hosts` are the hosts of the cluster's endpoints, which gRPC must reach without a proxy.
    """

    task: Task
    kind: ProgramKind
    python: str
    target: str
    args: tuple[str, ...]
    cwd: str | None
    env: Mapping[str, str]
    dropped: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """The command line that a person would type to start the program."""
        if self.kind is ProgramKind.COMMAND:
            return (self.target, *self.args)
        module = ("-m",) if self.kind is ProgramKind.MODULE else ()
        return (self.python, *module, self.target, *self.args)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of one attempt: the plan and the descriptors that the process gets.

    `output` receives the process's output, `stacks` the stack dumps of its threads. The process joins the `namespaces`,
    in this order, before its program begins.
    """

    plan: TaskPlan
    env: Mapping[str, str]
    output: int
    stacks: int
    namespaces: tuple[int, ...] = ()


def plan_tasks(
    job: JobSpec, endpoints: Endpoints, paths: RunPaths, python: str, here: Collection[Task] | None = None
) -> dict[Task, TaskPlan]:
    """Plan all tasks, or only the tasks in `here`. `python` is the default interpreter.

    After a worker is abandoned, the remaining tasks keep their cores and GPUs.
    """
    cluster, given_up = cluster_json(job, endpoints), set(job.given_up)
    shares = {task: share for task, share in shares_of(replace(job, given_up=()), here).items() if task not in given_up}
    hosts = tuple(dict.fromkeys(host_in(endpoint) for endpoint in endpoints.values()))
    peers = peers_of(job, endpoints)
    plans = {
        task: _plan(job, task, cluster, {**share.env, **convention_env(job, task, peers)}, paths, python)
        for task, share in shares.items()
    }
    return {task: replace(plan, hosts=hosts) if "TF_CONFIG" in plan.env else plan for task, plan in plans.items()}


def program_of(job: JobSpec, task: Task) -> Program:
    if job.servers is Servers.BUILTIN and job.is_server(task):
        return Program(ProgramKind.SCRIPT, BUILTIN_SERVER)
    setup = job.setups.get(task.type, Setup())
    return job.program if setup.args is None else replace(job.program, args=setup.args)


def _plan(job: JobSpec, task: Task, cluster: str, own_env: Mapping[str, str], paths: RunPaths, python: str) -> TaskPlan:
    own, program = job.setups.get(task.type, Setup()), program_of(job, task)
    config = tf_config(job, task, cluster)
    env = {
        "PYTHONUNBUFFERED": "1",
        **usual_env(job.devices),
        **({PROGRAMS: "1"} if program.kind is ProgramKind.COMMAND else {}),
        **({"KERAS_BACKEND": "jax"} if job.convention is Convention.KERAS else {}),  # the job may override this
        **job.setup.env,
        **own.env,
        # The supervisor holds every port with SO_REUSEPORT, so TensorFlow's server must set it, too. On the virtual
        # network no ports are held, since no other process has the address.
        **({REUSE_PORT: "true"} if job.network is Network.HOST else {}),
        **({} if config is None else {"TF_CONFIG": config}),
        **own_env,
        **keras_env(job, task),
        **debugging_env(job, paths, task),
        SEED: seed_of(job, paths.run_id),
        **({RETURNS: "plain"} if job.hosts.count else {}),
        **({} if job.record is None else {RECORD: str(paths.recorded), RECORD_STEPS: job.record}),
        **{name: str(value(paths, task)) for name, value in _PATH_VARIABLES.items()},
    }
    return TaskPlan(
        task=task,
        kind=program.kind,
        python=own.python or job.setup.python or python,
        target=program.target,
        args=program.args,
        cwd=own.cwd or job.setup.cwd,
        env=env,
        dropped=frozenset({"TF_CONFIG", "CLUSTERKIT_RESTORE", *_OPTIONAL}) - env.keys(),
    )


def seed_of(job: JobSpec, run_id: str) -> str:
    """Return the seed for the order of unseeded data: the job's seed, or the id of the run that began the training."""
    return str(job.seed) if job.seed is not None else job.began_as or run_id


def attempt_env(attempt: int, reason: str, restore: str = "") -> dict[str, str]:
    """Return the variables that differ between attempts; `restore` is the checkpoint to wait for, if any."""
    return {
        "CLUSTERKIT_ATTEMPT": str(attempt),
        "CLUSTERKIT_RESTART_REASON": reason,
        **({"CLUSTERKIT_RESTORE": restore} if restore else {}),
    }


# The variables that only clusterkit may set.
RESERVED = frozenset({"TF_CONFIG", REUSE_PORT, SEED, *_OPTIONAL, *_PATH_VARIABLES, *attempt_env(0, "", "-")})


def python_path(plan: TaskPlan, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which Python programs that a command starts are patched; `env` may have a value of it."""
    if plan.kind is not ProgramKind.COMMAND or PATCHES not in plan.env:
        return {}
    return {"PYTHONPATH": ":".join([DESCENDANTS, *filter(None, [env.get("PYTHONPATH")])])}


def attempt_environment(
    inherited: Mapping[str, str], plan: TaskPlan, attempt: int, reason: str, restore: str = ""
) -> dict[str, str]:
    """Return the whole environment of an attempt; `inherited` is the supervisor's environment."""
    own = attempt_env(attempt, reason, restore)
    env = {**inherited, **plan.env, **own}
    for name in plan.dropped - own.keys():
        env.pop(name, None)
    env |= python_path(plan, env)
    if plan.hosts and any(env.get(name) for name in PROXIES):
        exempt = next((env[name] for name in NO_PROXIES if env.get(name)), "").split(",")
        env["no_grpc_proxy"] = ",".join(dict.fromkeys(filter(None, [*exempt, *plan.hosts])))
    return env
