"""The agents of a run inside a job of Slurm's: one step, with an agent on each host."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path

from clusterkit.backends.hosts.allocation import Allocation, last_line
from clusterkit.backends.link.address import own_address
from clusterkit.engines.slurm.answers import ControllerAway, JobPhase, QueuedJob, SlurmError, UnexpectedAnswer
from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.reasons import notice
from clusterkit.engines.slurm.script import agent_command, agents_step
from clusterkit.text.printable import printable
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import AllocationEnding, Interrupted

END_WITHIN = 20.0  # seconds for srun to end when its agents have
TERMINATE_WITHIN = 5.0  # seconds after SIGTERM, with which it ends the step
ANSWER_WITHIN = 8.0  # seconds for the controller, where the time until the job is killed runs
ASK_EVERY = 5.0  # seconds between two questions about a host that may be lost
ASK_FOR = 1800.0  # seconds; Slurm may give up a host only after minutes (SlurmdTimeout)
ANY_PORT = 9  # nothing is sent to it


def in_job(env: Mapping[str, str]) -> bool:
    return "SLURM_JOB_ID" in env and "SLURM_JOB_NODELIST" in env


class SlurmAllocation(Allocation):
    """Starts the agents in the job that the supervisor is in."""

    def __init__(self, directory: Path, continues: bool = False, env: Mapping[str, str] = os.environ) -> None:
        self._env, self._continues = env, continues
        self._logs = directory / "agents"
        self._log = directory / "agents.log"
        self._step: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """This host's, by its name, as the other hosts of the job know it. Raises SlurmError.

        Where /etc/hosts gives the host's own name a loopback address, as Debian does, the one on the way to another
        host of the job.
        """
        name = self._env.get("SLURMD_NODENAME") or socket.gethostname()
        try:
            own = socket.gethostbyname(name)
            if not ip_address(own).is_loopback or not in_job(self._env):
                return own
            others = (other for other in self._hosts if other != name)
            return next((own_address((socket.gethostbyname(other), ANY_PORT)) for other in others), own)
        except (OSError, UnicodeError) as error:
            raise SlurmError(f"No address is known of this host, {printable(name)}: {error}.") from None

    def start(self, endpoint: str, key: Path) -> None:
        """Start the step. Raises SlurmError."""
        if not in_job(self._env):
            raise SlurmError("This process is in no job of Slurm's. Use `clusterkit up --engine slurm` or salloc.")
        hosts = self._hosts
        cpus = int(self._env.get("SLURM_CPUS_ON_NODE") or 1)
        self._logs.mkdir(mode=0o700, exist_ok=True)
        command = agent_command([sys.executable, "-m", "clusterkit"], endpoint, str(key), self._continues)
        with self._log.open("ab") as log:
            self._step = subprocess.Popen(
                agents_step(hosts, cpus, str(self._logs), command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C is for the supervisor
            )

    def failed(self) -> str | None:
        if self._step is None or (code := self._step.poll()) is None:
            return None
        files = [self._log, *sorted(self._logs.glob("*.log"))]
        said = list(filter(None, map(last_line, files)))
        return f"srun, which starts the agents, ended with code {code} ({'; '.join(said) or 'it printed nothing'})"

    def ending(self, signal: int, elsewhere: bool = False) -> AllocationEnding | Interrupted | None:
        """Ask Slurm why the job gets a signal. If it does not answer, the run can be continued, and may not be."""
        if not self._continues:
            return None
        job = self._asked()
        found = notice(job, signal, self._restarts, time.time())
        is_cancelled = job is not None and job.phase is JobPhase.ENDING
        return Interrupted(signal) if found is None and elsewhere and is_cancelled else found

    def again(self) -> str | None:
        """Requeue the job, unless Slurm does that already."""
        job = self._asked()
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

    def _asked(self) -> QueuedJob | None:
        try:
            return Slurm(self._env, ANSWER_WITHIN).job(int(self._env["SLURM_JOB_ID"]))
        except ClusterkitError:
            return None

    def stop(self) -> None:
        """Wait for the end of the step, and end it if it does not come."""
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
    """Requeue the job that this process is in, once Slurm knows that the host of its batch script is lost.

    Until then, wait; not if the job ends or is requeued by somebody else. Returns whether it was requeued here.
    """
    if not in_job(env):
        return False
    number, restarts = int(env["SLURM_JOB_ID"]), int(env.get("SLURM_RESTART_COUNT") or 0)
    until = time.monotonic() + ASK_FOR
    while time.monotonic() < until:
        try:
            if (done := requeue_if_lost(Slurm(env), number, restarts)) is not None:
                return done
        except (ControllerAway, UnexpectedAnswer):  # the controller may recover
            pass
        except SlurmError:  # another agent has requeued the job
            return False
        time.sleep(ASK_EVERY)
    return False


def requeue_if_lost(slurm: Slurm, number: int, restarts: int) -> bool | None:
    """Requeue an orphaned job: True if requeued, False if not needed, None while its host is not known down."""
    job = slurm.job(number)
    if job is None or job.phase is not JobPhase.RUNNING or job.restarts != restarts:
        return False
    if not job.host or not slurm.is_down(job.host):
        return None
    slurm.requeue(number)
    return True
