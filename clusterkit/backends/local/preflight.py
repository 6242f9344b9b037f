"""Preflight: which resources of this machine the tasks of a job get, and what it lacks for them."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from clusterkit.backends.base import Preflight
from clusterkit.backends.local.gpus import Found, gpus_here
from clusterkit.backends.local.shortages import shortages, too_few_descriptors
from clusterkit.faults.aim import needs_disk
from clusterkit.job.devices import too_few
from clusterkit.network.virtual import why_not
from clusterkit.system.reach import why_not_reached
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.resources import Network


def preflight(job: JobSpec, here: Collection[Task] | None = None) -> Preflight:
    """See the contract. Cores and GPUs are found where they are handed out to the tasks.

    `here` are the tasks that are to run on this host, None: all.
    """
    asked = job.devices
    cores = () if asked.cpus is None else tuple(sorted(os.sched_getaffinity(0)))
    found = gpus_here() if asked.gpus else Found(())
    job = replace(job, devices=replace(asked, cores=cores, names=found.names))
    problems = [*_network_problems(job), *too_few(job, found.why_none, here), *too_few_descriptors(job, here)]
    return Preflight(job, problems, [] if problems or here is not None else shortages(job))


def _network_problems(job: JobSpec) -> list[str]:
    """Return why this machine does not support the network or the full disk that the job asks for."""
    problems = []
    if job.network is Network.VIRTUAL and (why := why_not(network=True, disk=False)):
        problems.append(f"--network virtual is not supported here: {why}.")
    if needs_disk(job.faults) and (why := why_not(network=False, disk=True)):
        problems.append(f"The fault disk-full is not supported here: {why}.")
    if job.pcap is not None and (why := _why_not_written(Path(job.pcap).absolute())):
        problems.append(f"--pcap {job.pcap} can't be written: {why}.")
    return problems


def _why_not_written(path: Path) -> str:
    """Why a file can't be made or written, as a clause; empty if it can."""
    if why := why_not_reached(path):
        return why
    if path.is_dir():
        return "it is a directory"
    if path.exists():
        return "" if os.access(path, os.W_OK) else "permission denied"
    is_open = os.access(path.parent, os.W_OK | os.X_OK)
    return "" if is_open and path.parent.is_dir() else "its directory does not exist, or can't be written"
