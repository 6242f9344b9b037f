"""Assigns this machine's cores and GPUs to tasks, and sets the corresponding environment variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from clusterkit.text.spelling import listed
from clusterkit.words.job import Devices, JobSpec
from clusterkit.words.model import Shape, Task, TaskType

CORES = "CLUSTERKIT_CORES"  # the task's entry pins its process to these cores before the program begins
GPUS = "CUDA_VISIBLE_DEVICES"
GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
LEAST_INTER = 2  # the minimum number of inter-op threads; with one, a parameter-server worker hangs (TensorFlow 2.21)
MOST_NAMED = 4  # the maximum number of tasks, and of groups of tasks, that a warning lists


@dataclass(frozen=True, slots=True)
class Share:
    """One task's cores and GPUs; None means all."""

    cores: tuple[int, ...] | None = None
    gpus: tuple[str, ...] | None = None

    @property
    def env(self) -> dict[str, str]:
        """The variables that set the share. The user can't override these variables."""
        cores = {} if self.cores is None else {CORES: ",".join(map(str, self.cores))}
        return cores | ({} if self.gpus is None else {GPUS: ",".join(self.gpus)})


def shares_of(job: JobSpec, here: Collection[Task] | None = None) -> dict[Task, Share]:
    """Return each task's share of the cores and GPUs; `here` are the tasks on this host, or None for all tasks."""
    devices, tasks = job.devices, [task for task in job.tasks if here is None or task in here]
    cores = dict[Task, tuple[int, ...]]()
    if devices.cpus is not None:
        order = [task for task in in_order_of_need(job) if task in tasks]
        cores = {task: _dealt(devices.cores, devices.cpus, n) for n, task in enumerate(order)}
    gpus = dict[Task, tuple[str, ...]]()
    if devices.gpus is not None:
        each, takers = devices.gpus, [task for task in computing(job) if task in tasks]
        gpus = dict.fromkeys(tasks, ())
        gpus |= {task: devices.names[n * each : (n + 1) * each] for n, task in enumerate(takers)}
    return {task: Share(cores.get(task), gpus.get(task)) for task in tasks}


def usual_env(devices: Devices) -> dict[str, str]:
    """Return variables that adapt TensorFlow to a task's share. A fork server needs them when it imports TensorFlow.

    The user can override these variables.
    """
    env = {}
    if devices.cpus is not None:
        env["TF_NUM_INTRAOP_THREADS"] = env["OMP_NUM_THREADS"] = str(devices.cpus)
        env["TF_NUM_INTEROP_THREADS"] = str(max(LEAST_INTER, devices.cpus))
    if devices.gpus:
        env[GROWTH] = "true"
    return env


def computing(job: JobSpec) -> list[Task]:
    """Return the tasks that compute steps: all training tasks except a coordinator."""
    coordinates = job.shape is Shape.PARAMETER_SERVER
    return [task for task in job.training if not (coordinates and task.type is TaskType.CHIEF)]


def in_order_of_need(job: JobSpec) -> list[Task]:
    """Return the tasks in the order in which they get cores: computing tasks, then ps, coordinator and evaluator."""
    first = computing(job)
    order = (TaskType.PS, TaskType.CHIEF, TaskType.EVALUATOR)
    rest = [task for kind in order for task in job.tasks if task.type is kind and task not in first]
    return [*first, *rest]


def too_few(job: JobSpec, why_no_gpu: str | None = None, here: Collection[Task] | None = None) -> list[str]:
    """Return a sentence for each resource that the host lacks for the tasks in `here` (None means all tasks)."""
    devices, problems = job.devices, []
    if devices.cpus is not None and devices.cpus > len(devices.cores):
        problems.append(f"--cpus-per-task is {devices.cpus}, and there {_are(len(devices.cores), 'core')} here.")
    takers = len([task for task in computing(job) if here is None or task in here])
    if devices.gpus is not None and takers * devices.gpus > len(devices.names):
        available = f"there {_are(len(devices.names), 'GPU')} here" if devices.names or not why_no_gpu else why_no_gpu
        tasks = "task takes" if takers == 1 else "tasks take"
        problems.append(
            f"--gpus-per-task {devices.gpus}: {takers} {tasks} {takers * devices.gpus} in all, and {available}."
        )
    return problems


def crowding(job: JobSpec) -> str | None:
    """Return a sentence about tasks that share cores although each should have its own, or None."""
    on = dict[int, list[str]]()
    for task, share in sorted(shares_of(job).items()):
        for core in share.cores or ():
            on.setdefault(core, []).append(str(task))
    shared = dict[tuple[str, ...], list[int]]()
    for core, tasks in sorted(on.items()):
        if len(tasks) > 1:
            shared.setdefault(tuple(tasks), []).append(core)
    if not shared:
        return None
    groups = [f"{listed(tasks, MOST_NAMED)} share {_cores(cores)}" for tasks, cores in shared.items()]
    more = [f"{len(groups) - MOST_NAMED} more groups of tasks share some"] if len(groups) > MOST_NAMED else []
    each, cores = job.devices.cpus or 0, len(job.devices.cores)
    return (
        f"{len(job.tasks)} tasks with --cpus-per-task {each} would take {len(job.tasks) * each} cores, and there "
        f"{_are(cores, 'core')}: {'; '.join([*groups[:MOST_NAMED], *more])}."
    )


def all_share_gpus(job: JobSpec, names: Sequence[str], inherited: Mapping[str, str]) -> str | None:
    """Return a warning if several tasks would use the same GPUs, unless a setting allows this."""
    is_set = any(GPUS in setup.env for setup in job.every_setup.values())
    if job.devices.gpus is not None or len(job.tasks) < 2 or not names or is_set:
        return None
    if job.setup.env.get(GROWTH, inherited.get(GROWTH)) == "true":
        return None
    they = "the GPU" if len(names) == 1 else f"all {len(names)} GPUs"
    return (
        f"All {len(job.tasks)} tasks share {they}, and TensorFlow takes the whole memory of each for the first task "
        f"that uses it. Give tasks their own with --gpus-per-task 1, none with --gpus-per-task 0, or let them share "
        f"with --env {GROWTH}=true."
    )


def _dealt(cores: Sequence[int], each: int, turn: int) -> tuple[int, ...]:
    """Return the cores for task number `turn`: tasks get `each` cores in turn, starting over after the last core."""
    return tuple(sorted({cores[(turn * each + n) % len(cores)] for n in range(each)})) if cores else ()


def _are(count: int, what: str) -> str:
    return f"is {count} {what}" if count == 1 else f"are {count or 'no'} {what}s"


def _cores(cores: Sequence[int]) -> str:
    return f"{'core' if len(cores) == 1 else 'cores'} {', '.join(map(str, cores))}"
