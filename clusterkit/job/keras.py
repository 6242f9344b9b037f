"""Selects the Keras version and the patches for a job's tasks."""

from __future__ import annotations

from collections.abc import Iterator

from clusterkit.faults.aim import phases_of
from clusterkit.words.job import Convention, JobSpec, Servers, TfConfig
from clusterkit.words.model import ProgramKind, Shape, Task, TaskType

# TensorFlow reads this variable during its import and at the first use of `tf.keras`.
LEGACY = "TF_USE_LEGACY_KERAS"
YES = ("1", "true", "True")  # the values that TensorFlow regards as true; all others are false
PATCHES = "CLUSTERKIT_PATCHES"  # names of patches, defined in task/patches/hook.py
# Patches that have to be applied at the start of a task. In a program that a task's command starts, patches are applied
# when the program imports TensorFlow. The command may start several programs, and may itself handle SIGTERM.
_NOT_LATE = frozenset({"tf-config", "sigterm", "sigterm-kept", "breakpoints", "post-mortem", "debugpy"})
PHASES = "CLUSTERKIT_PHASES"  # phases that task/patches/phases.py waits for


def keras_env(job: JobSpec, task: Task) -> dict[str, str]:
    """Return the variables that select the task's Keras version and patches."""
    found = {PATCHES: patches_of(job, task), PHASES: phases_of(job, task)}
    return {**chosen_env(job), **{name: value for name, value in found.items() if value}}


def chosen_env(job: JobSpec) -> dict[str, str]:
    """Return the variable that selects the Keras version; empty if the job does not select a version."""
    return {} if job.keras is None else {LEGACY: str(int(job.keras == 2))}


def patches_of(job: JobSpec, task: Task) -> str:
    """Return the names of the patches that the task needs, joined by commas."""
    fixes_keras, coordinates = job.patches and job.keras != 2, job.shape is Shape.PARAMETER_SERVER
    phased = bool(phases_of(job, task))
    if job.convention is not Convention.TENSORFLOW:
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
        # A single recorded worker gets the data order of a gang, since an exam compares the two.
        "order": trains and job.patches and (gang or (job.record is not None and not coordinates)),
        "callbacks-apart": trains and gang and job.patches and task != job.leader,
        "backup-whole": trains and gang and job.patches and task == job.leader,
        "keras-ps": trains and fixes_keras and coordinates,
        "program-end": trains and coordinates,
        # The program may hang at its end while a worker is down. This matters with built-in servers, since the program
        # may not use clusterkit's library, and with workers that are abandoned, since they stay down.
        "coordinator-end": trains and coordinates and (builtin or job.restart.min_workers is not None),
        "coordinator-functions": trains and coordinates,
        "leader-first": trains and gang and task != job.leader,
        "sigterm": trains and gang,
        "sigterm-kept": trains and gang and job.patches,
        "steps": trains and job.progress_regex is None,
        "stages": trains or serves,
        "distribution": (trains or serves) and job.shape is not Shape.SINGLE,
        "shared-backups": trains and task == job.leader,
        "keras-2": trains and gang and task == job.leader,
        "step-times": trains and coordinates,
        "evaluations": task.type is TaskType.EVALUATOR and job.progress_regex is None,
        "breakpoints": True,
        "tracebacks": True,
        "recorder": trains and job.record is not None,
        "post-mortem": job.debug.post_mortem and not job.hosts.count,
        "debugpy": job.debug.editor_port(task) is not None,
        # Last, since a fork waits right here if a fault is due at the start of the program.
        "phases": phased or (trains and job.record is not None),
    }
    left_out = _NOT_LATE if job.program.kind is ProgramKind.COMMAND else ()
    return ",".join(name for name, needed in patches.items() if needed and name not in left_out)


def keras_problems(job: JobSpec) -> Iterator[str]:
    if job.keras not in (None, 2, 3):
        yield f"--keras is {job.keras}. It has to be 2 or 3."
    elif job.keras is not None:
        for where, setup in job.every_setup.items():
            if LEGACY in setup.env:
                yield f"{where}env: {LEGACY} is what --keras {job.keras} sets. Give one of them."
