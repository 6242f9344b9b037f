"""Preflight: assigns resources of this machine to a job, and reports which are missing or will be short."""

from __future__ import annotations

import os
import resource
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import psutil

from clusterkit.backends.base import Preflight
from clusterkit.backends.local.gpus import Found, gpus_here
from clusterkit.faults.aim import needs_disk
from clusterkit.job.devices import all_share_gpus, crowding, too_few
from clusterkit.network.virtual import why_not
from clusterkit.system.files import why_not_reached
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import ProgramKind, Shape, Task, TaskType, number_of

# A process that has imported TensorFlow has 554 MB resident, of which four together share all but 330 MB each;
# a small model and its data come on top. Measured on TensorFlow 2.21, Linux.
TASK_MEMORY = 400 << 20
DESCRIPTORS = 6  # of the supervisor, for each task: port, pipe, log, progress, pidfd, and one while it starts
DESCRIPTORS_OWN = 40
LEAST_DESCRIPTORS, LEAST_OWN = (
    5,
    24,
)  # the least with which a run succeeds; measured with the smallest jobs
GB = 1 << 30


def too_few_descriptors(job: JobSpec, here: Collection[Task] | None = None) -> list[str]:
    """Return a sentence if the limit of open files is too low for the tasks `here`, None: for all tasks."""
    tasks = len(job.tasks) if here is None else len(here)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= tasks * LEAST_DESCRIPTORS + LEAST_OWN:
        return []
    needed = tasks * DESCRIPTORS + DESCRIPTORS_OWN
    what = f"The limit of open files is {soft}, and {number_of('task', tasks)} may need {needed}."
    return [f"{what} Raise it with: ulimit -n {needed}"]


def shortages(job: JobSpec) -> list[str]:
    """Return a sentence for each resource of which the tasks are estimated to need more than is available."""
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


def preflight(job: JobSpec, here: Collection[Task] | None = None) -> Preflight:
    """Check the job, and assign cores and GPUs of this machine. `here` are the tasks of this host, None: all tasks."""
    asked = job.devices
    cores = () if asked.cpus is None else tuple(sorted(os.sched_getaffinity(0)))
    found = gpus_here() if asked.gpus else Found(())
    job = replace(job, devices=replace(asked, cores=cores, names=found.names))
    problems = [*_network_problems(job), *too_few(job, found.why_none, here), *too_few_descriptors(job, here)]
    return Preflight(job, problems, [] if problems or here is not None else shortages(job))


def _network_problems(job: JobSpec) -> list[str]:
    """Return why this machine does not support the job's network or full disk."""
    problems = []
    if job.network is Network.VIRTUAL and (why := why_not(network=True, disk=False)):
        problems.append(f"--network virtual is not supported here: {why}.")
    if needs_disk(job.faults) and (why := why_not(network=False, disk=True)):
        problems.append(f"The fault disk-full is not supported here: {why}.")
    if job.pcap is not None and (why := _why_not_written(Path(job.pcap).absolute())):
        problems.append(f"--pcap {job.pcap} can't be written: {why}.")
    return problems


def _why_not_written(path: Path) -> str:
    """Why a file can't be created or written, as a clause; empty if it can."""
    if why := why_not_reached(path):
        return why
    if path.is_dir():
        return "it is a directory"
    if path.exists():
        return "" if os.access(path, os.W_OK) else "permission denied"
    is_open = os.access(path.parent, os.W_OK | os.X_OK)
    return "" if is_open and path.parent.is_dir() else "its directory does not exist, or can't be written"
