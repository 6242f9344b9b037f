"""The resources of this machine that a run holds: ports or a virtual network, and GPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from clusterkit.faults.aim import needs_disk
from clusterkit.job.devices import GPUS
from clusterkit.network.virtual import NetworkPlan, VirtualNetwork, addresses_of, endpoints_of
from clusterkit.store.directory import RunDirectory
from clusterkit.system.ports import Ports
from clusterkit.warm.choice import marks
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.resources import Network

SWITCH = "clusterkit's switch, which carries the tasks' packets,"
TOOL = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
ANSWER_WITHIN = 20.0  # seconds; without nvidia-persistenced the driver first has to wake up the GPUs


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
    """Create the job's virtual network, its disk that can be full, or both; None for neither. Raises NetworkError."""
    if not _is_virtual(job) and not needs_disk(job.faults):
        return None
    pcap = None if job.pcap is None else Path(job.pcap)
    plan = NetworkPlan(job.tasks, seed, _is_virtual(job), pcap, directory.checkpoints)
    env = {**marks(directory), "CLUSTERKIT_TASK": "switch"}
    return VirtualNetwork(plan, directory.path / "switch.log", env)


def _is_virtual(job: JobSpec) -> bool:
    return job.network is Network.VIRTUAL


class Found(NamedTuple):
    """The GPUs, by the names that CUDA_VISIBLE_DEVICES takes; without any, the reason."""

    names: tuple[str, ...]
    why_none: str | None = None


def gpus_here(env: Mapping[str, str] = os.environ) -> Found:
    """Return the GPUs that this process may use, by UUID, since CUDA may number them differently from the tool."""
    if (named := env.get(GPUS)) is not None:
        names = visible(named)
        return Found(names, None if names else f"{GPUS}={named} hides every GPU from clusterkit")
    tool = TOOL[0]
    if shutil.which(tool, path=env.get("PATH")) is None:  # saves a process on most machines
        return Found((), f"{tool}, which lists GPUs, was not found")
    try:
        asked = subprocess.run(
            TOOL, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_WITHIN, env=dict(env)
        )
    except OSError as error:
        return Found((), f"{tool} can't be run: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Found((), f"{tool} did not answer within {ANSWER_WITHIN:g} s")
    said = asked.stdout.decode(errors="replace").strip()
    if asked.returncode != 0:
        said = (said or asked.stderr.decode(errors="replace").strip()).partition("\n")[0]
        return Found((), f"{tool} ends with code {asked.returncode}" + (f" ({said.rstrip('.')})" if said else ""))
    rows = [line.split(",") for line in said.splitlines()]
    names = tuple(row[1].strip() for row in rows if len(row) == 2 and row[0].strip().isdecimal())
    return Found(names, None if names else f"{tool} lists no GPU")


def visible(named: str) -> tuple[str, ...]:
    """Return the GPUs that CUDA finds in CUDA_VISIBLE_DEVICES: those before the first invalid one, each once."""
    names = list[str]()
    for name in map(str.strip, named.split(",")):
        if not name or name.startswith("-"):
            break
        names.append(name)
    return tuple(dict.fromkeys(names))
