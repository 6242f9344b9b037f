"""Slurm as an engine: a run is a batch job, and its supervisor the batch script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import cast

from clusterkit.engines.base import Announce, Engine
from clusterkit.engines.options import SlurmOptions
from clusterkit.engines.slurm.allocation import SlurmAllocation, in_job, requeue_when_lost
from clusterkit.engines.slurm.answers import ControllerAway, SlurmError
from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.following import Following, continues
from clusterkit.engines.slurm.script import BatchRequest, problems, script_of
from clusterkit.store.directory import RunDirectory, make_private
from clusterkit.store.store import RunStore
from clusterkit.text.durations import seconds
from clusterkit.words.errors import BadJob, RunDirectoryError
from clusterkit.words.job import JobSpec

# What the batch script sets, so that the run is where the user looks for it. Slurm passes on the rest.
PASSED = ("CLUSTERKIT_HOME",)
COMMAND_WITHIN = 600.0  # seconds for a command inside the job; the longest waits for a profile


class Submission:
    """A run to be submitted. Its files lie in a directory of its own, since the run's is made by its supervisor."""

    def __init__(self, run: RunDirectory) -> None:
        self.run, self.place = run, run.submitted
        self.output = self.place / "output.log"  # what the supervisor prints, over all starts of the job
        self.job_file = self.place / "job.toml"  # the run's job, as everybody may see it
        self.secret_job_file = self.place / "job.secret.toml"  # with all that is hidden there, for the supervisor

    def script(self, job: JobSpec, env: Mapping[str, str] = os.environ) -> str:
        """The text of the batch script. Raises BadJob with all that Slurm can't take."""
        hosts, given = job.hosts, cast(SlurmOptions, job.hosts.settings)
        most = ceil(len(job.tasks) / hosts.count)  # tasks on a host
        asked = BatchRequest(
            name=self.run.run_id,
            hosts=hosts.count + hosts.spare,
            directory=str(Path.cwd()),
            output=str(self.output),
            time=seconds(given.get("time", 0.0)),
            partition=given.get("partition", ""),
            cpus=(job.devices.cpus or 0) * most,
            gpus=(job.devices.gpus or 0) * most,
            arguments=given.get("sbatch_arg", ()),
            environment={name: env[name] for name in PASSED if name in env},
        )
        if wrong := problems(asked):
            raise BadJob(wrong)
        words = [sys.executable, "-m", "clusterkit", "up", "--run-id", self.run.run_id, "--continue"]
        return script_of(asked, [*words, "-f", str(self.secret_job_file)])

    def submit(self, script: str, shown: str, secret: str) -> int:
        """Write the files and submit the job; return Slurm's id of it. Raises RunDirectoryError, SlurmError.

        `shown` and `secret` are the texts of the two job files. If Slurm refuses the job, the files are removed: the
        run was not submitted.
        """
        try:
            make_private(self.place.parent)
            self.place.mkdir(mode=0o700)
            self.secret_job_file.touch(mode=0o600)
            self.secret_job_file.write_text(secret)
            self.job_file.write_text(shown)
            (self.place / "script.sh").write_text(script)
        except FileExistsError:
            raise RunDirectoryError(
                f"A run {self.run.run_id} was submitted already. Choose another --run-id, or omit it."
            ) from None
        except OSError as error:
            raise RunDirectoryError(f"The run can't be submitted: {error.strerror} ({error.filename}).") from None
        try:
            return Slurm().submit(script)
        except ControllerAway:  # it may have the job all the same
            raise
        except SlurmError:
            shutil.rmtree(self.place, ignore_errors=True)
            raise


def submission(run_id: str) -> Submission:
    """The submission of a run, which need not have been submitted. Raises RunDirectoryError if there is such a run."""
    run = RunStore().run(run_id)
    if run.path.exists():
        raise RunDirectoryError(f"A run {run_id} already exists. Choose another --run-id, or omit it.")
    return Submission(run)


class SlurmEngine(Engine):
    """Its commands are asked anew each time: what they know of a job changes."""

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
