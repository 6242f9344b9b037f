"""The `slurm` engine: a run is a batch job, whose batch script runs the supervisor in the job's allocation."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path

from clusterkit.backends.hosts.allocation import Allocation, last_line, start_agents
from clusterkit.backends.link.address import own_address
from clusterkit.engines.base import Announce, Engine
from clusterkit.engines.slurm.answers import ControllerUnreachable, JobPhase, QueuedJob, SlurmError, UnexpectedAnswer
from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.reasons import notice
from clusterkit.engines.slurm.script import agent_command, agents_step
from clusterkit.engines.slurm.submission import Following, continues, submission
from clusterkit.store.directory import RunDirectory
from clusterkit.system.process import own_python
from clusterkit.text.printable import printable
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import AllocationEnding, Interrupted
from clusterkit.words.job import JobSpec

COMMAND_WITHIN = 600.0  # seconds; the time limit for a command inside the job; profiling takes longest
END_WITHIN = 20.0  # seconds; how long to wait for srun after its agents have ended
TERMINATE_WITHIN = 5.0  # seconds; how long to wait for srun after SIGTERM
ANSWER_WITHIN = 8.0  # seconds; the time limit for Slurm's controller while the job is about to be killed
QUERY_EVERY = 5.0  # seconds between queries about a host that may be lost
QUERY_FOR = 1800.0  # seconds; how long to query: Slurm may take minutes to declare a host down (SlurmdTimeout)
ANY_PORT = 9  # any port will do, since nothing is sent to it


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


def in_job(env: Mapping[str, str]) -> bool:
    return "SLURM_JOB_ID" in env and "SLURM_JOB_NODELIST" in env


class SlurmAllocation(Allocation):
    """Starts the agents in the Slurm job in which the supervisor runs."""

    def __init__(self, directory: Path, continues: bool = False, env: Mapping[str, str] = os.environ) -> None:
        self._env, self._continues = env, continues
        self._logs = directory / "agents"
        self._log = directory / "agents.log"
        self._step: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return the address to which the job's other hosts resolve this host's name. Raises SlurmError.

        If /etc/hosts maps the host's own name to a loopback address, as on Debian, the address is that of the interface
        used to reach another host of the job.
        """
        name = self._env.get("SLURMD_NODENAME") or socket.gethostname()
        try:
            own = socket.gethostbyname(name)
            if not ip_address(own).is_loopback or not in_job(self._env):
                return own
            others = (other for other in self._hosts if other != name)
            return next((own_address((socket.gethostbyname(other), ANY_PORT)) for other in others), own)
        except (OSError, UnicodeError) as error:
            raise SlurmError(f"The address of this host, {printable(name)}, is unknown: {error}.") from None

    def start(self, endpoint: str, key: Path) -> None:
        """Start the job step with the agents. Raises SlurmError."""
        if not in_job(self._env):
            raise SlurmError("This process does not run in a Slurm job. Use `clusterkit up --engine slurm` or salloc.")
        cpus = int(self._env.get("SLURM_CPUS_ON_NODE") or 1)
        self._logs.mkdir(mode=0o700, exist_ok=True)
        command = agent_command(own_python("-m", "clusterkit"), endpoint, str(key), self._continues)
        self._step = start_agents(agents_step(self._hosts, cpus, str(self._logs), command), self._log)

    def failed(self) -> str | None:
        if self._step is None or (code := self._step.poll()) is None:
            return None
        files = [self._log, *sorted(self._logs.glob("*.log"))]
        said = list(filter(None, map(last_line, files)))
        return f"srun, which starts the agents, ended with code {code} ({'; '.join(said) or 'it printed nothing'})"

    def ending(self, signal: int, elsewhere: bool = False) -> AllocationEnding | Interrupted | None:
        """Query Slurm for the cause of a signal; return the event. If Slurm does not answer, the run continues."""
        if not self._continues:
            return None
        job = self._query()
        found = notice(job, signal, self._restarts, time.time())
        is_cancelled = job is not None and job.phase is JobPhase.ENDING
        return Interrupted(signal) if found is None and elsewhere and is_cancelled else found

    def request_next(self) -> str | None:
        """Requeue the job, unless Slurm has already requeued it; return an error message if that fails."""
        job = self._query()
        if job is not None and job.phase is not JobPhase.RUNNING and job.restarts > self._restarts:
            return None
        try:
            Slurm(self._env).requeue(int(self._env["SLURM_JOB_ID"]))
        except SlurmError as error:
            return str(error)
        return None

    @cached_property
    def _hosts(self) -> list[str]:
        return Slurm(self._env).hostnames(self._env["SLURM_JOB_NODELIST"])

    @property
    def _restarts(self) -> int:
        return int(self._env.get("SLURM_RESTART_COUNT") or 0)

    def _query(self) -> QueuedJob | None:
        try:
            return Slurm(self._env, ANSWER_WITHIN).job(int(self._env["SLURM_JOB_ID"]))
        except ClusterkitError:
            return None

    def stop(self) -> None:
        """Wait for the job step to end; if it does not end in time, terminate and then kill it."""
        if self._step is None:
            return
        for end, within in ((None, END_WITHIN), (self._step.terminate, TERMINATE_WITHIN), (self._step.kill, None)):
            if end is not None:
                end()
            try:
                self._step.wait(within)
                return
            except subprocess.TimeoutExpired:
                continue


def requeue_when_lost(env: Mapping[str, str] = os.environ) -> bool:
    """Wait until Slurm declares the host of this job's batch script down, then requeue the job and return True.

    Return False if the job ends, somebody else requeues it, or Slurm does not declare the host down in time.
    """
    if not in_job(env):
        return False
    number, restarts = int(env["SLURM_JOB_ID"]), int(env.get("SLURM_RESTART_COUNT") or 0)
    until = time.monotonic() + QUERY_FOR
    while time.monotonic() < until:
        try:
            if (result := requeue_if_lost(Slurm(env), number, restarts)) is not None:
                return result
        except (ControllerUnreachable, UnexpectedAnswer):  # try again, as the controller may recover
            pass
        except SlurmError:  # another agent has requeued the job
            return False
        time.sleep(QUERY_EVERY)
    return False


def requeue_if_lost(slurm: Slurm, number: int, restarts: int) -> bool | None:
    """Requeue a job whose host is down. Return True if requeued, False if unnecessary, None if the host is not down."""
    job = slurm.job(number)
    if job is None or job.phase is not JobPhase.RUNNING or job.restarts != restarts:
        return False
    if not job.host or not slurm.is_down(job.host):
        return None
    slurm.requeue(number)
    return True
