"""What a run has of this machine: ports or a network of its own, where its tasks come from, and its directory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from clusterkit.client.directory import RunDirectory
from clusterkit.faults.aim import needs_disk
from clusterkit.network.virtual import NetworkPlan, VirtualNetwork, addresses_of, endpoints_of
from clusterkit.system.ports import Ports
from clusterkit.warm.choice import marks
from clusterkit.warm.starter import WarmStarter
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import Task

SWITCH = "clusterkit's switch, which carries the tasks' packets,"


@dataclass(frozen=True, slots=True)
class RunResources:
    """Made before the first task starts. `seed` decides what is drawn at random."""

    job: JobSpec
    seed: int
    directory: RunDirectory
    endpoints: Mapping[Task, str]
    starts: WarmStarter
    network: VirtualNetwork | None = None


def addresses(job: JobSpec) -> dict[Task, str]:
    """Where each task is on the virtual network; empty where the job has none."""
    return addresses_of(job.tasks) if _is_virtual(job) else {}


def claim_endpoints(job: JobSpec, stack: ExitStack) -> dict[Task, str]:
    """Where each task of the cluster listens; ports of this machine are held until the stack ends. Raises NoPorts."""
    if _is_virtual(job):
        return endpoints_of(job.tasks)
    ports = Ports([task for task in job.tasks if task in job.cluster])
    stack.callback(ports.release)
    return ports.endpoints


def network_for(job: JobSpec, directory: RunDirectory, seed: int) -> VirtualNetwork | None:
    """The network that the job asks for, with a disk that can be full, or that disk alone; None for neither.

    Raises NetworkError; the run's directory is gone then.
    """
    if not _is_virtual(job) and not needs_disk(job.faults):
        return None
    try:
        pcap = None if job.pcap is None else Path(job.pcap)
        plan = NetworkPlan(job.tasks, seed, _is_virtual(job), pcap, directory.checkpoints)
        env = {**marks(directory), "CLUSTERKIT_TASK": "switch"}
        return VirtualNetwork(plan, directory.path / "switch.log", env)
    except ClusterkitError:
        directory.discard()
        raise


def _is_virtual(job: JobSpec) -> bool:
    return job.network is Network.VIRTUAL
