"""What exactly is started for each attempt of each task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from clusterkit.rules.tfconfig import Endpoints, cluster_json, tf_config
from clusterkit.words.model import JobSpec, Network, ProgramKind, Setup, Task


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Where a run keeps its things."""

    root: PurePosixPath
    run_id: str
    checkpoints: PurePosixPath

    def log(self, task: Task, attempt: int) -> PurePosixPath:
        """The exact bytes that the attempt wrote."""
        return self.root / "tasks" / str(task) / f"attempt-{attempt}.log"

    @property
    def arrivals(self) -> PurePosixPath:
        """When which part of which log was written."""
        return self.root / "tasks" / "arrivals"

    def progress(self, task: Task) -> PurePosixPath:
        """The named pipe through which the task reports its steps."""
        return self.root / "tasks" / str(task) / "progress"

    def stacks(self, task: Task, attempt: int) -> PurePosixPath:
        """Where the attempt's stack dumps go."""
        return self.root / "stacks" / f"{task}.attempt-{attempt}.txt"


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """How a task is started. `env` are additions to the supervisor's environment, `dropped` what it loses."""

    task: Task
    kind: ProgramKind
    python: str
    target: str
    args: tuple[str, ...]
    cwd: str | None
    env: Mapping[str, str]
    dropped: frozenset[str] = frozenset()

    @property
    def command(self) -> tuple[str, ...]:
        """The command line of a plain start, as a person would type it."""
        if self.kind is ProgramKind.COMMAND:
            return (self.target, *self.args)
        module = ("-m",) if self.kind is ProgramKind.MODULE else ()
        return (self.python, *module, self.target, *self.args)


def plan_tasks(job: JobSpec, endpoints: Endpoints, paths: RunPaths, python: str) -> dict[Task, TaskPlan]:
    """Resolve every task. `python` is the interpreter where the job names none."""
    cluster = cluster_json(job, endpoints)
    return {task: _plan(job, task, cluster, paths, python) for task in job.tasks}


def plan_task(job: JobSpec, task: Task, endpoints: Endpoints, paths: RunPaths, python: str) -> TaskPlan:
    """Resolve one task."""
    return _plan(job, task, cluster_json(job, endpoints), paths, python)


def _plan(job: JobSpec, task: Task, cluster: str, paths: RunPaths, python: str) -> TaskPlan:
    own = job.setups.get(task.type, Setup())
    config = tf_config(job, task, cluster)
    env = {
        "PYTHONUNBUFFERED": "1",
        **job.setup.env,
        **own.env,
        # The supervisor holds every port with SO_REUSEPORT; TensorFlow's server has to bind in the same way. On the
        # virtual network no port is held: nobody else has the address.
        **({"TF_GRPC_REUSE_PORT": "true"} if job.network is Network.HOST else {}),
        **({} if config is None else {"TF_CONFIG": config}),
        "CLUSTERKIT_RUN_ID": paths.run_id,
        "CLUSTERKIT_TASK": str(task),
        "CLUSTERKIT_CHECKPOINT_DIR": str(paths.checkpoints),
        "CLUSTERKIT_RUN_DIR": str(paths.root),
        "CLUSTERKIT_PROGRESS": str(paths.progress(task)),
    }
    return TaskPlan(
        task=task,
        kind=job.program.kind,
        python=own.python or job.setup.python or python,
        target=job.program.target,
        args=job.program.args if own.args is None else own.args,
        cwd=own.cwd or job.setup.cwd,
        env=env,
        dropped=frozenset({"TF_CONFIG"}) - env.keys(),
    )


def attempt_env(attempt: int, reason: str) -> dict[str, str]:
    """What only the attempt decides."""
    return {"CLUSTERKIT_ATTEMPT": str(attempt), "CLUSTERKIT_RESTART_REASON": reason}


def attempt_environment(inherited: Mapping[str, str], plan: TaskPlan, attempt: int, reason: str) -> dict[str, str]:
    """The whole environment of an attempt, from the one that the supervisor has."""
    env = {**inherited, **plan.env, **attempt_env(attempt, reason)}
    for name in plan.dropped:
        env.pop(name, None)
    return env
