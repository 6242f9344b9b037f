"""The resources of this machine that a run holds: ports, or a virtual network."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from clusterkit.faults.aim import needs_disk
from clusterkit.network.virtual import NetworkPlan, VirtualNetwork, addresses_of, endpoints_of
from clusterkit.store.directory import RunDirectory
from clusterkit.system.ports import Ports
from clusterkit.warm.choice import marks
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import Task

SWITCH = "clusterkit's switch, which carries the tasks' packets,"


def addresses(job: JobSpec) -> dict[Task, str]:
    """Each task's address on the virtual network; empty for a job without one."""
    return addresses_of(job.tasks) if _is_virtual(job) else {}


def claim_endpoints(job: JobSpec, tasks: Iterable[Task], stack: ExitStack) -> dict[Task, str]:
    """Return the endpoints of those tasks that are in the cluster. The stack holds their ports. Raises NoPorts."""
    if _is_virtual(job):
        return endpoints_of(job.tasks)
    ports = Ports([task for task in tasks if task in job.cluster])
    stack.callback(ports.release)
    return ports.endpoints


def network_for(job: JobSpec, directory: RunDirectory, seed: int) -> VirtualNetwork | None:
    """Create the job's virtual network, with a disk that can be full, or that disk alone; None for neither.

    Raises NetworkError.
    """
    if not _is_virtual(job) and not needs_disk(job.faults):
        return None
    pcap = None if job.pcap is None else Path(job.pcap)
    plan = NetworkPlan(job.tasks, seed, _is_virtual(job), pcap, directory.checkpoints)
    env = {**marks(directory), "CLUSTERKIT_TASK": "switch"}
    return VirtualNetwork(plan, directory.path / "switch.log", env)


def _is_virtual(job: JobSpec) -> bool:
    return job.network is Network.VIRTUAL
