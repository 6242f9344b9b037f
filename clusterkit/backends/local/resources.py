"""Assigns this machine's resources to jobs, holds them for runs, and finds resources that are insufficient."""

from __future__ import annotations

import os
import resource
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from clusterkit.backends.base import Preflight
from clusterkit.faults.aim import needs_disk
from clusterkit.job.devices import GPUS, all_share_gpus, crowding, too_few
from clusterkit.store.directory import RunDirectory
from clusterkit.system import gpus, logins
from clusterkit.system.files import why_not_reached
from clusterkit.system.ports import HOST, claim
from clusterkit.text.spelling import listed
from clusterkit.warm.choice import marks
from clusterkit.words.job import Convention, JobSpec, Network
from clusterkit.words.model import ProgramKind, Shape, Task, TaskType, number_of

if TYPE_CHECKING:  # the network's modules are imported only if a job needs them
    from clusterkit.network.virtual import VirtualNetwork

SWITCH = "clusterkit's switch, which carries the tasks' packets,"
ANSWER_WITHIN = 20.0  # seconds; the limit for nvidia-smi, for which the driver may first have to wake up the GPUs
# After importing TensorFlow, a process has 554 MB resident; with four such processes, 330 MB of each are not shared.
# A small model and its data need additional memory. Measured with TensorFlow 2.21 on Linux.
TASK_MEMORY = 400 << 20
DESCRIPTORS = 6  # the supervisor's descriptors per task: port, pipe, log, progress, pidfd, and one during the start
DESCRIPTORS_OWN = 40  # the number of descriptors that the supervisor itself needs
LEAST_DESCRIPTORS, LEAST_OWN = 5, 24  # the minimum per task, and for the supervisor itself; measured with small jobs
MOST_NAMED = 3  # the maximum number of users to name in a message
EXPOSED = (
    "TensorFlow's servers listen on all addresses, without authentication: whoever reaches a port reads and writes "
    "files as you."
)
GB = 1 << 30


def addresses(job: JobSpec) -> dict[Task, str]:
    """Return each task's address on the virtual network; empty for a job without a virtual network."""
    if not _is_virtual(job):
        return {}
    from clusterkit.network.virtual import addresses_of

    return addresses_of(job.tasks)


def claim_endpoints(job: JobSpec, tasks: Iterable[Task], stack: ExitStack) -> dict[Task, str]:
    """Claim endpoints for the tasks that are in the cluster. `stack` then holds their ports. Raises NoPorts."""
    if _is_virtual(job):
        from clusterkit.network.virtual import endpoints_of

        return endpoints_of(job.tasks)
    with ExitStack() as ports:
        held = {task: ports.enter_context(claim()) for task in tasks if task in job.cluster}
        stack.push(ports.pop_all())  # holds the ports for the whole run; an error above releases them at once
    return {task: f"{HOST}:{port.getsockname()[1]}" for task, port in held.items()}


def network_for(job: JobSpec, directory: RunDirectory, seed: int) -> VirtualNetwork | None:
    """Create the virtual network or the disk for `disk-full` faults; None if neither is needed. Raises NetworkError."""
    if not _is_virtual(job) and not needs_disk(job.faults):
        return None
    from clusterkit.network.virtual import NetworkPlan, VirtualNetwork

    pcap = None if job.pcap is None else Path(job.pcap)
    plan = NetworkPlan(job.tasks, seed, _is_virtual(job), pcap, directory.checkpoints)
    return VirtualNetwork(plan, directory.path / "switch.log", marks(directory, "switch"))


def _is_virtual(job: JobSpec) -> bool:
    return job.network is Network.VIRTUAL


class UsableGpus(NamedTuple):
    """The usable GPUs, as names for CUDA_VISIBLE_DEVICES, or the reason why no GPU is usable."""

    names: tuple[str, ...]
    why_none: str | None = None


def gpus_here(env: Mapping[str, str] = os.environ) -> UsableGpus:
    """Return the GPUs that this process may use, by UUID, since CUDA may number GPUs differently from nvidia-smi."""
    if (named := env.get(GPUS)) is not None:
        names = visible(named)
        return UsableGpus(names, None if names else f"{GPUS}={named} hides every GPU from clusterkit")
    try:
        rows = [line.split(",") for line in gpus.ask("index,uuid", ANSWER_WITHIN, env).splitlines()]
    except gpus.NoGpus as error:
        return UsableGpus((), str(error))
    names = tuple(row[1].strip() for row in rows if len(row) == 2 and row[0].strip().isdecimal())
    return UsableGpus(names, None if names else f"{gpus.TOOL} lists no GPU")


def visible(named: str) -> tuple[str, ...]:
    """Return the GPUs that CUDA accepts in CUDA_VISIBLE_DEVICES: the names before the first invalid one, each once."""
    valid = takewhile(lambda name: name and not name.startswith("-"), map(str.strip, named.split(",")))
    return tuple(dict.fromkeys(valid))


def too_few_descriptors(job: JobSpec, here: Collection[Task] | None = None) -> list[str]:
    """Return a sentence if the limit on open files is too low for the tasks `here` (None: all tasks of the job)."""
    tasks = len(job.tasks) if here is None else len(here)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= tasks * LEAST_DESCRIPTORS + LEAST_OWN:
        return []
    needed = tasks * DESCRIPTORS + DESCRIPTORS_OWN
    what = f"The limit of open files is {soft}, and {number_of('task', tasks)} may need {needed}."
    return [f"{what} Raise it with: ulimit -n {needed}"]


def shortages(job: JobSpec) -> list[str]:
    """Return a sentence for each resource that is estimated to be too small for the tasks."""
    tasks = len(job.tasks)
    found = []
    memory, available = tasks * TASK_MEMORY, psutil.virtual_memory().available
    if job.program.kind is not ProgramKind.COMMAND and memory > available:
        found.append(
            f"{tasks} TensorFlow tasks need about {memory / GB:.1f} GB of memory, and {available / GB:.1f} GB are "
            "free. The kernel may kill some of them."
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
            f"{busy} training tasks share {cores} cores, so computing a step takes about {busy / cores:.1f} times as "
            "long; exchanging its results comes on top."
        )
    if job.program.kind is not ProgramKind.COMMAND and len(job.tasks) > 1 and job.devices.gpus is None:
        shared = all_share_gpus(job, gpus_here().names, os.environ)
        found += [] if shared is None else [shared]
    return found


def preflight(job: JobSpec, here: Collection[Task] | None = None, starts: bool = True) -> Preflight:
    """Check the job, and assign this machine's cores and GPUs. `here` has this host's tasks; None means all tasks.

    Unless `starts`, namespaces are not tried, so that nothing is started but nvidia-smi, if the system has it.
    """
    devices = job.devices
    cores = () if devices.cpus is None else tuple(sorted(os.sched_getaffinity(0)))
    found = gpus_here() if devices.gpus else UsableGpus(())
    job = replace(job, devices=replace(devices, cores=cores, names=found.names))
    problems = [*_network_problems(job, starts), *too_few(job, found.why_none, here), *too_few_descriptors(job, here)]
    if problems or here is not None:
        return Preflight(job, problems, [])
    return Preflight(job, problems, [*shortages(job), *_exposures(job)])


def _exposures(job: JobSpec) -> list[str]:
    """Return a sentence if other people on this machine can reach TensorFlow's servers."""
    if job.shape is Shape.SINGLE or _is_virtual(job) or job.convention is not Convention.TENSORFLOW:
        return []
    names = logins.others()
    if not names:
        return []
    who = f"{listed(names, MOST_NAMED)} {'is' if len(names) == 1 else 'are'} logged in here, too."
    return [f"{who} {EXPOSED} With --network virtual, nobody else reaches them."]


def _network_problems(job: JobSpec, starts: bool) -> list[str]:
    problems = []
    if starts and (_is_virtual(job) or needs_disk(job.faults)):
        from clusterkit.network.virtual import why_not

        if _is_virtual(job) and (why := why_not(network=True, disk=False)):
            problems.append(f"--network virtual is not supported here: {why}.")
        if needs_disk(job.faults) and (why := why_not(network=False, disk=True)):
            problems.append(f"The fault disk-full is not supported here: {why}.")
    if job.pcap is not None and (why := _why_not_written(Path(job.pcap).absolute())):
        problems.append(f"--pcap {job.pcap} can't be written: {why}.")
    return problems


def _why_not_written(path: Path) -> str:
    """Return why a file can't be created or written, as a clause; empty if it can."""
    if why := why_not_reached(path):
        return why
    if path.is_dir():
        return "it is a directory"
    if path.exists():
        return "" if os.access(path, os.W_OK) else "permission denied"
    is_open = os.access(path.parent, os.W_OK | os.X_OK)
    return "" if is_open and path.parent.is_dir() else "its directory does not exist, or can't be written"
