"""Which engine a job has."""

from __future__ import annotations

from clusterkit.backends.agents.engine import Engine
from clusterkit.client.directory import RunDirectory
from clusterkit.engines.others import Others
from clusterkit.engines.processes import Processes
from clusterkit.engines.slurm.engine import SlurmEngine
from clusterkit.words.job import JobSpec
from clusterkit.words.resources import EngineKind


def engine_for(job: JobSpec, directory: RunDirectory, continues: bool = False) -> Engine:
    """The engine that starts the agents of a run; `continues`: which can go on in another allocation."""
    log = directory.path / "agents.log"
    match job.hosts.engine:
        case EngineKind.LOCAL:
            return Processes(job.hosts.count + job.hosts.spare, log)
        case EngineKind.SLURM:
            return SlurmEngine(directory.path, continues)
        case EngineKind.AGENTS:
            return Others(continues, job.limits.grace)
