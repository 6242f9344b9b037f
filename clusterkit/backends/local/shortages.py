"""Shortages: resources of which a job needs more than this machine has."""

from __future__ import annotations

import os
import resource
from collections.abc import Collection

import psutil

from clusterkit.backends.local.gpus import gpus_here
from clusterkit.job.devices import all_share_gpus, crowding
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind, Shape, Task, TaskType, number_of

# A process that has imported TensorFlow has 554 MB resident, of which four together share all but 330 MB each;
# a small model and its data come on top. Measured on TensorFlow 2.21, Linux.
TASK_MEMORY = 400 << 20
DESCRIPTORS = 6  # of the supervisor, for each task: port, pipe, log, progress, pidfd, and one while it starts
DESCRIPTORS_OWN = 40
LEAST_DESCRIPTORS, LEAST_OWN = 5, 24  # the same, below which no run gets through; measured with the smallest jobs
GB = 1 << 30


def too_few_descriptors(job: JobSpec, here: Collection[Task] | None = None) -> list[str]:
    """Return a sentence if the limit of open files is too low for the tasks that are to run here, None: all."""
    tasks = len(job.tasks) if here is None else len(here)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= tasks * LEAST_DESCRIPTORS + LEAST_OWN:
        return []
    needed = tasks * DESCRIPTORS + DESCRIPTORS_OWN
    what = f"The limit of open files is {soft}, and {number_of('task', tasks)} may need {needed}."
    return [f"{what} Raise it with: ulimit -n {needed}"]


def shortages(job: JobSpec) -> list[str]:
    """Return a sentence with an estimate for each resource of which the tasks need more than there is."""
    tasks = len(job.tasks)
    found = []
    memory, there = tasks * TASK_MEMORY, psutil.virtual_memory().available
    if job.program.kind is not ProgramKind.COMMAND and memory > there:
        found.append(
            f"{tasks} TensorFlow tasks need about {memory / GB:.1f} GB of memory, and {there / GB:.1f} GB are free. "
            f"The kernel may kill some of them."
        )
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = tasks * DESCRIPTORS + DESCRIPTORS_OWN
    if soft != resource.RLIM_INFINITY and descriptors > soft:
        found.append(
            f"Supervising {tasks} tasks takes about {descriptors} descriptors, and the limit is {soft}. "
            f"Raise it with: ulimit -n {descriptors}"
        )
    cores = len(os.sched_getaffinity(0))
    # A coordinator and its parameter servers mostly wait.
    busy = job.counts[TaskType.WORKER] if job.shape is Shape.PARAMETER_SERVER else len(job.training)
    if (crowded := crowding(job)) is not None:
        found.append(crowded)
    elif job.program.kind is not ProgramKind.COMMAND and busy > cores:
        found.append(
            f"{busy} training tasks share {cores} cores, so a step takes about {busy / cores:.1f} times as long."
        )
    if job.program.kind is not ProgramKind.COMMAND and len(job.tasks) > 1 and job.devices.gpus is None:
        shared = all_share_gpus(job, gpus_here().names, os.environ)
        found += [] if shared is None else [shared]
    return found
