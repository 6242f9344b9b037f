"""Which Keras a job's tasks get, and which patches."""

from __future__ import annotations

from collections.abc import Iterator

from clusterkit.faults.aim import phases_of
from clusterkit.words.job import Convention, JobSpec, Servers, TfConfig
from clusterkit.words.model import ProgramKind, Shape, Task, TaskType

# Read when TensorFlow is imported, for `from tensorflow.keras import ...`, and when a program first says `tf.keras`.
LEGACY = "TF_USE_LEGACY_KERAS"
YES = ("1", "true", "True")  # as TensorFlow reads it; everything else is no
PATCHES = "CLUSTERKIT_PATCHES"  # names of task/patches/hook.py
PHASES = "CLUSTERKIT_PHASES"  # for which task/patches/phases.py waits


def keras_env(job: JobSpec, task: Task) -> dict[str, str]:
    """The variables that select a Keras for TensorFlow, and the patches for the task's first code."""
    found = {PATCHES: patches_of(job, task), PHASES: phases_of(job, task)}
    return {**chosen_env(job), **{name: value for name, value in found.items() if value}}


def chosen_env(job: JobSpec) -> dict[str, str]:
    """The variable that selects a Keras for TensorFlow; empty if none is chosen."""
    return {} if job.keras is None else {LEGACY: str(int(job.keras == 2))}


def patches_of(job: JobSpec, task: Task) -> str:
    """The names of the patches that the task needs, joined by commas."""
    fixes_keras, coordinates = job.patches and job.keras != 2, job.shape is Shape.PARAMETER_SERVER
    phased = bool(phases_of(job, task))
    if job.program.kind is ProgramKind.COMMAND or job.convention is not Convention.TENSORFLOW:
        return "phases" if phased else ""
    gang = job.shape is Shape.MULTI_WORKER
    serves, trains = job.is_server(task), task.trains and not job.is_server(task)
    builtin = job.servers is Servers.BUILTIN
    if serves and builtin:
        return ""
    patches = {
        "tf-config": job.tf_config is TfConfig.OURS,
        "coordinator": serves,
        "keras-fit": trains and gang and fixes_keras,
        # A recorded worker that trains alone has the order of a gang's, with which it is compared.
        "order": trains and job.patches and (gang or (job.record is not None and not coordinates)),
        "callbacks-apart": trains and gang and job.patches and task != job.leader,
        "backup-whole": trains and gang and fixes_keras and task == job.leader,
        "keras-ps": trains and fixes_keras and coordinates,
        "program-end": trains and coordinates,
        # The program may hang when it ends while a worker is down: with built-in servers it may not know clusterkit,
        # and a worker that is given up is down for good.
        "coordinator-end": trains and coordinates and (builtin or job.restart.min_workers is not None),
        "coordinator-functions": trains and coordinates,
        "leader-first": trains and gang and task != job.leader,
        "sigterm": trains and gang,
        "steps": trains and job.progress_regex is None,
        "stages": trains or serves,
        "distribution": (trains or serves) and job.shape is not Shape.SINGLE,
        "step-times": trains and coordinates,
        "evaluations": task.type is TaskType.EVALUATOR and job.progress_regex is None,
        "breakpoints": True,
        "tracebacks": True,
        "recorder": trains and job.record is not None,
        "post-mortem": job.debug.post_mortem and not job.hosts.count,
        "debugpy": job.debug.editor_port(task) is not None,
        # Last, since a fork waits at once if a fault comes when its program begins.
        "phases": phased or (trains and job.record is not None),
    }
    return ",".join(name for name, needed in patches.items() if needed)


def keras_problems(job: JobSpec) -> Iterator[str]:
    """Settings that contradict --keras."""
    if job.keras not in (None, 2, 3):
        yield f"--keras is {job.keras}. It has to be 2 or 3."
    elif job.keras is not None:
        for where, setup in job.every_setup.items():
            if LEGACY in setup.env:
                yield f"{where}env: {LEGACY} is what --keras {job.keras} sets. Give one of them."
