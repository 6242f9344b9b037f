"""Slurm's client commands: each bounded in time, its errors in sentences."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence

from clusterkit.engines.slurm import answers
from clusterkit.engines.slurm.answers import ControllerAway, QueuedJob, SlurmError
from clusterkit.engines.slurm.script import inside_step, overriding
from clusterkit.text.printable import printable

WITHIN = 30.0  # seconds for a command; without a controller, some try for minutes
KILLED_AGAIN = 3  # times that a command is repeated: signals that end a job reach the commands in it, too
# Where a job starts again in the second in which it was ended, by the clock of its host, it fails: "Job credential
# revoked". Hosts' clocks differ by less than this.
REVOKED = 5  # seconds
# Variables that change what the commands print, and which jobs they print.
_CHANGING = re.compile(r"(SQUEUE|SCONTROL|SCANCEL|SINFO)_|SLURM_(TIME_FORMAT|DEBUG|CLUSTERS)$|SBATCH_(WAIT|DEBUG)")
_PREFIX = re.compile(r"^(sbatch|srun|squeue|scontrol|scancel|sinfo|slurm_\w+)(: error| error)?: *")
_ITS_END = re.compile(rb"^srun: error: \S+: task 0: .*\n?", re.MULTILINE)  # what became of the command
_UNKNOWN_JOB = "Invalid job id"
# What is said of a controller that is away, restarts, hands over to its backup, or has too much to do.
_AWAY = re.compile(
    "unable to contact|timed out|connection (refused|reset)|connect failure|(connection|send|receive) failure|"
    "zero bytes were transmitted|standby mode|rate limit exceeded",
    re.IGNORECASE,
)


class Slurm:
    """Slurm as this user has it on this host. Every method raises SlurmError, also after `within` seconds."""

    def __init__(self, env: Mapping[str, str] = os.environ, within: float = WITHIN) -> None:
        kept = {name: value for name, value in env.items() if not _CHANGING.match(name)}
        self._env = {**kept, **answers.ENVIRONMENT, "LC_ALL": "C.UTF-8"}
        self._within = within

    def submit(self, script: str) -> int:
        """Submit a batch script, whose lines count more than the user's SBATCH_ variables; return the job's id."""
        without = overriding(script)
        plain = Slurm({name: value for name, value in self._env.items() if name not in without}, self._within)
        return answers.parse_submitted(plain._run("sbatch", "--parsable", text=script))

    def job(self, job: int) -> QueuedJob | None:
        """Return what the controller knows of a job. None: it is over for long (`MinJobAge`), or never was."""
        try:
            jobs = answers.parse_queue(
                self._run("squeue", "--noheader", "--states=all", f"--jobs={job}", f"--Format={answers.FORMAT}")
            )
        except SlurmError as error:
            if _UNKNOWN_JOB in str(error):
                return None
            raise
        return jobs.get(job)

    def hostnames(self, hosts: str) -> list[str]:
        """Return the names that an expression such as `n[1-3]` stands for."""
        return answers.parse_hostnames(self._run("scontrol", "show", "hostnames", hosts))

    def cancel(self, job: int) -> None:
        """End a job: its processes get SIGTERM, and SIGKILL some time later."""
        self._run("scancel", str(job))

    def signal(self, job: int, name: str) -> None:
        """Signal a job's batch script alone, by the signal's name without SIG."""
        self._run("scancel", "--batch", f"--signal={name}", str(job))

    def requeue(self, job: int) -> None:
        """End a job and let it wait for hosts again, under the same id."""
        self._run("scontrol", "requeue", str(job))

    def start_soon(self, job: int) -> None:
        """Spare a requeued job most of the two minutes that it has to wait. Call it once its reason is `BeginTime`."""
        self._run("scontrol", "update", f"JobId={job}", f"StartTime=now+{REVOKED}seconds")

    def is_down(self, host: str) -> bool:
        """Whether Slurm has given up a host."""
        states = self._run("sinfo", "--noheader", f"--nodes={host}", "--format=%T").split()
        return bool(states) and all(state.rstrip("*$~#!%@^-").lower().startswith("down") for state in states)

    def inside(self, job: int, host: str, command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        """Run a command on a host of a job; return its output and exit code. Raises SlurmError if srun can't run it."""
        ran = self._call(inside_step(job, host, command), b"")
        if ran.returncode and not _ITS_END.search(ran.stderr) and b"srun: " in ran.stderr:
            raise self._error("srun", ran.stderr)
        ran.stderr = _ITS_END.sub(b"", ran.stderr)
        return ran

    def _run(self, *command: str, text: str = "") -> str:
        ran = self._call(command, os.fsencode(text))
        for _ in range(KILLED_AGAIN):
            if ran.returncode >= 0:
                break
            ran = self._call(command, os.fsencode(text))
        if ran.returncode != 0:
            raise self._error(command[0], ran.stderr or b"exit code %d" % ran.returncode)
        return ran.stdout.decode(errors="replace")

    def _call(self, command: Sequence[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
        name = command[0]
        try:
            return subprocess.run(command, input=given, capture_output=True, env=self._env, timeout=self._within)
        except subprocess.TimeoutExpired:
            raise ControllerAway(
                f"Slurm's {name} did not answer within {self._within:g} s. See whether `scontrol ping` does."
            ) from None
        except FileNotFoundError:
            raise SlurmError(
                f"Slurm's command {name} can't be found. Use a login node of the cluster, or a container that has it."
            ) from None
        except OSError as error:
            raise SlurmError(f"Slurm's command {name} can't be started: {error.strerror}.") from None

    def _error(self, name: str, said: bytes) -> SlurmError:
        lines = [_PREFIX.sub("", line) for line in said.decode(errors="replace").splitlines()]
        text = "; ".join(dict.fromkeys(printable(line.strip()) for line in lines if line.strip()))[:1000]
        if _AWAY.search(text):
            return ControllerAway(f"Slurm's controller does not answer {name}: {text}. Try again later.")
        return SlurmError(f"Slurm refuses {name}: {text}.")
