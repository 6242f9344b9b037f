"""Submits a run to Slurm from a login node, and follows the job's output and result."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import cast

from clusterkit.engines.base import Announce, may_continue
from clusterkit.engines.options import SlurmOptions
from clusterkit.engines.slurm.answers import ControllerUnreachable, JobPhase, QueuedJob, SlurmError
from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.reasons import CONTINUES, why_ended, why_it_waits
from clusterkit.engines.slurm.script import BatchRequest, problems, script_of
from clusterkit.store.directory import RunDirectory, make_private
from clusterkit.store.journal import read_from
from clusterkit.store.paths import TRUSTED_HOME
from clusterkit.store.store import RunStore
from clusterkit.system.process import own_python
from clusterkit.text.durations import seconds
from clusterkit.words.errors import BadJob, RunDirectoryError
from clusterkit.words.job import JobSpec
from clusterkit.words.outcome import RunState

# Variables that the batch script sets, so that the user finds the run directory. Slurm passes on the others.
PASSED = ("CLUSTERKIT_HOME", TRUSTED_HOME)
LOOK_EVERY = 0.5  # seconds between reads of the output
ASK_EVERY = 2.0  # seconds between queries to Slurm's controller
LOOK_AT_RUN_EVERY = 0.1  # seconds between checks whether the run is live
PATIENCE = 4  # the number of queries that have to find a suspended run's job over, since `up` may still requeue it
CHUNK = 1 << 16


class Submission:
    """A run to be submitted. Its files have a separate directory, since the supervisor creates the run directory."""

    def __init__(self, run: RunDirectory) -> None:
        self.run, self.place = run, run.submitted
        self.output = self.place / "output.log"  # the supervisor's output, from all starts of the job
        self.job_file = self.place / "job.toml"  # the run's job without secret values
        self.secret_job_file = self.place / "job.secret.toml"  # the run's job with secret values, for the supervisor

    def script(self, job: JobSpec, env: Mapping[str, str] = os.environ) -> str:
        """Return the text of the batch script. Raises BadJob with everything that Slurm can't accept."""
        hosts, given = job.hosts, cast(SlurmOptions, job.hosts.settings)
        most = ceil(len(job.tasks) / hosts.count)  # the largest number of tasks on a host
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
        words = own_python("-m", "clusterkit", "up", "--run-id", self.run.run_id, "--continue")
        return script_of(asked, [*words, "-f", str(self.secret_job_file)])

    def submit(self, script: str, shown: str, secret: str) -> int:
        """Write the files and submit the job; return the job's id in Slurm. Raises RunDirectoryError, SlurmError.

        `shown` and `secret` are the texts of the two job files. If Slurm refuses the job, the files are removed.
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
        except ControllerUnreachable:  # the job may have been accepted nevertheless
            raise
        except SlurmError:
            shutil.rmtree(self.place, ignore_errors=True)
            raise


def submission(run_id: str) -> Submission:
    """Return the Submission of a new run. Raises RunDirectoryError if a run with this id exists."""
    run = RunStore().run(run_id)
    if run.path.exists():
        raise RunDirectoryError(f"A run {run_id} already exists. Choose another --run-id, or omit it.")
    return Submission(run)


class Following:
    """Shows the output of a Slurm job as it arrives and, while the job waits, the reason."""

    def __init__(self, one: Submission, job: int, say: Announce) -> None:
        self._one, self._job, self._show_user = one, job, say
        self._slurm = Slurm()
        self._read = 0
        self._said = ""
        self._interrupts = 0
        self._hastened = 0  # the number of the last requeue whose waiting time was shortened

    def to_the_end(self) -> int:
        """Follow the job, and return the run's exit code. Ctrl-C ends the run; a second Ctrl-C cancels the job."""
        signal.signal(signal.SIGINT, self._interrupted)
        signal.signal(signal.SIGTERM, self._interrupted)
        known = self._ask()
        while known is not None and (known.phase is not JobPhase.OVER or self._continues(known)):
            if known.phase is JobPhase.WAITING and known.reason:
                again = " again" if known.restarts else ""
                self._say(f"The job {self._job} waits{again}: {why_it_waits(known, time.time()).text}.")
            if known.phase is JobPhase.WAITING and known.reason == "BeginTime" and self._hastened < known.restarts:
                self._hastened = known.restarts  # done by this process, since none of the job's processes runs
                self._try(lambda: self._slurm.start_soon(self._job))
            until = time.monotonic() + ASK_EVERY
            while time.monotonic() < until:
                self._show()
                time.sleep(LOOK_EVERY)
            known = self._ask(known)
        self._show()
        result = self._one.run.result()
        if result is not None and result.final:
            return result.exit_code
        why = "Slurm no longer lists it"
        if known is not None:
            why = why_ended(known, known.restarts, self._tail()).value
        what = "without a result" if result is None else f"and the run {result.state}"
        self._show_user(f"the job {self._job} ended {what}: {why}.")
        return 1 if result is None else result.exit_code

    def _continues(self, known: QueuedJob) -> bool:
        """Requeue a job that is over if its run is suspended and is to continue; return whether that succeeded."""
        end = why_ended(known, known.restarts, self._tail())
        return _is_suspended(self._one.run) and end in CONTINUES and self._try(lambda: self._slurm.requeue(self._job))

    def _try(self, ask: Callable[[], None]) -> bool:
        """Send Slurm a request; show the error and return False if Slurm refuses or does not answer."""
        try:
            ask()
        except SlurmError as error:
            self._say(str(error))
            return False
        return True

    def _ask(self, before: QueuedJob | None = None) -> QueuedJob | None:
        try:
            return self._slurm.job(self._job)
        except ControllerUnreachable as error:  # the job continues without a controller
            self._say(str(error))
            if before is None:
                raise
            return before

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._show_user(text)

    def _show(self) -> None:
        while chunk := read_from(self._one.output, self._read, CHUNK):
            self._read += len(chunk)
            sys.stdout.buffer.write(chunk)
        sys.stdout.flush()

    def _tail(self) -> str:
        try:
            return self._one.output.read_bytes()[-CHUNK:].decode(errors="replace")
        except OSError:
            return ""

    def _waits(self) -> bool:
        try:
            job = self._slurm.job(self._job)
        except SlurmError:
            return False
        return job is not None and job.phase is JobPhase.WAITING

    def _interrupted(self, number: int, _: object) -> None:
        self._interrupts += 1
        if self._interrupts == 1 and not self._waits():
            self._try(lambda: self._slurm.signal(self._job, "INT"))
        else:
            self._try(lambda: self._slurm.cancel(self._job))


def continues(run: RunDirectory, slurm: Slurm | None = None, ask_every: float = ASK_EVERY) -> bool:
    """Wait until the run has a supervisor again; return False if the run was ended for good, or its job is over.

    Also shortens the waiting time of a requeued job, since none of the job's processes runs.
    """
    slurm, hastened, over = slurm or Slurm(), 0, 0
    while may_continue(run):
        if run.is_live():
            return True
        info = run.info()
        try:
            job = slurm.job(int(info.allocation) if info is not None and info.allocation.isdecimal() else 0)
        except ControllerUnreachable:  # the job continues without a controller
            pass
        except SlurmError:  # Slurm is not available here
            return False
        else:
            over = over + 1 if job is None or job.phase is JobPhase.OVER else 0
            if over and (over >= PATIENCE or not _is_suspended(run)):
                return run.is_live()
            if job is not None and job.reason == "BeginTime" and hastened < job.restarts:
                hastened = job.restarts
                with suppress(SlurmError):  # if this fails, the job waits the usual two minutes
                    slurm.start_soon(job.job)
        _watch(run, ask_every)
    return False


def _is_suspended(run: RunDirectory) -> bool:
    return (result := run.result()) is not None and result.state is RunState.SUSPENDED


def _watch(run: RunDirectory, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not run.is_live():
        time.sleep(min(LOOK_AT_RUN_EVERY, seconds))
