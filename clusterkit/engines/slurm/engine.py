"""The engine `slurm`: a run is a batch job, whose batch script runs the supervisor."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence

from clusterkit.engines.base import Announce, Engine
from clusterkit.engines.slurm.allocation import SlurmAllocation, in_job, requeue_when_lost
from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.submission import Following, continues, submission
from clusterkit.store.directory import RunDirectory
from clusterkit.words.job import JobSpec

COMMAND_WITHIN = 600.0  # seconds; the time limit for a command inside the job; profiling takes longest


class SlurmEngine(Engine):
    """The engine for Slurm. It keeps no state, since jobs may change at any time: each method queries Slurm again."""

    def submits(self) -> bool:
        return not in_job(os.environ)

    def script(self, job: JobSpec, run_id: str) -> str:
        return submission(run_id).script(job)

    def submit(self, job: JobSpec, run_id: str, files: tuple[str, str], say: Announce) -> Callable[[], int]:
        one = submission(run_id)
        number = one.submit(one.script(job), *files)
        say(f"the run {run_id} is job {number} of Slurm. Its files: {one.place}")
        return Following(one, number, say).to_the_end

    def allocation(self, job: JobSpec, directory: RunDirectory, continues: bool) -> SlurmAllocation:
        return SlurmAllocation(directory.path, continues)

    def allocation_id(self) -> str:
        return os.environ.get("SLURM_JOB_ID", "")

    def supervisor_lost(self) -> bool:
        return requeue_when_lost()

    def run_inside(self, allocation: str, host: str, command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        return Slurm(within=COMMAND_WITHIN).inside(int(allocation), host, command)

    def continues(self, run: RunDirectory) -> bool:
        return continues(run)


ENGINE = SlurmEngine()
