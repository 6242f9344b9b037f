"""Runs Slurm's client commands with a time limit, and turns their errors into sentences."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence

from clusterkit.engines.slurm import answers
from clusterkit.engines.slurm.answers import ControllerUnreachable, QueuedJob, SlurmError
from clusterkit.engines.slurm.script import inside_step, overriding
from clusterkit.text.printable import printable

ANSWER_WITHIN = 30.0  # seconds; the time limit for a command; some commands retry for minutes if the controller is gone
KILLED_AGAIN = 3  # how often to repeat a command that a signal has killed: a signal to a job also reaches this command
# A job that starts again within the second in which it ended, by its host's clock, fails with "Job credential revoked".
# The hosts' clocks are assumed to differ by less than this delay.
REVOKED = 5  # seconds from the end of a job until it may start again
# Environment variables that change the output of the commands, or which jobs they select.
_CHANGING = re.compile(r"(SQUEUE|SCONTROL|SCANCEL|SINFO)_|SLURM_(TIME_FORMAT|DEBUG|CLUSTERS)$|SBATCH_(WAIT|DEBUG)")
_PREFIX = re.compile(r"^(sbatch|srun|squeue|scontrol|scancel|sinfo|slurm_\w+)(: error| error)?: *")
_TASK_END_LINE = re.compile(rb"^srun: error: \S+: task 0: .*\n?", re.MULTILINE)  # srun's report that a command failed
_UNKNOWN_JOB = "Invalid job id"
# Errors while a controller is away, restarts, hands over to its backup, or is overloaded.
_UNREACHABLE = re.compile(
    "unable to contact|timed out|connection (refused|reset)|connect failure|(connection|send|receive) failure|"
    "zero bytes were transmitted|standby mode|rate limit exceeded",
    re.IGNORECASE,
)


class Slurm:
    """Slurm's commands. Methods raise SlurmError if a command fails, or takes more than `within` seconds."""

    def __init__(self, env: Mapping[str, str] = os.environ, within: float = ANSWER_WITHIN) -> None:
        kept = {name: value for name, value in env.items() if not _CHANGING.match(name)}
        self._env = {**kept, **answers.ENVIRONMENT, "LC_ALL": "C.UTF-8"}
        self._within = within

    def submit(self, script: str) -> int:
        """Submit a batch script; return the job's id. The script's options override the user's SBATCH_ variables."""
        without = overriding(script)
        slurm = Slurm({name: value for name, value in self._env.items() if name not in without}, self._within)
        return answers.parse_submitted(slurm._run("sbatch", "--parsable", text=script))

    def job(self, job: int) -> QueuedJob | None:
        """Return the controller's record of a job; None if the job never existed or ended long ago (`MinJobAge`)."""
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
        """Expand an expression such as `n[1-3]` into host names."""
        return answers.parse_hostnames(self._run("scontrol", "show", "hostnames", hosts))

    def cancel(self, job: int) -> None:
        """Cancel a job: its processes get SIGTERM, and SIGKILL some time later."""
        self._run("scancel", str(job))

    def signal(self, job: int, name: str) -> None:
        """Send a signal, named without SIG, to a job's batch script alone."""
        self._run("scancel", "--batch", f"--signal={name}", str(job))

    def requeue(self, job: int) -> None:
        """End a job, and queue it again under the same id."""
        self._run("scontrol", "requeue", str(job))

    def start_soon(self, job: int) -> None:
        """Shorten the two minutes that a requeued job has to wait. Call this once the job's reason is `BeginTime`."""
        self._run("scontrol", "update", f"JobId={job}", f"StartTime=now+{REVOKED}seconds")

    def is_down(self, host: str) -> bool:
        """Return whether Slurm has declared a host down."""
        states = self._run("sinfo", "--noheader", f"--nodes={host}", "--format=%T").split()
        return bool(states) and all(state.rstrip("*$~#!%@^-").lower().startswith("down") for state in states)

    def inside(self, job: int, host: str, command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        """Run a command on a host of a job; return the finished process. Raises SlurmError if srun can't run it."""
        ran = self._call(inside_step(job, host, command), b"")
        if ran.returncode and not _TASK_END_LINE.search(ran.stderr) and b"srun: " in ran.stderr:
            raise self._error("srun", ran.stderr)
        ran.stderr = _TASK_END_LINE.sub(b"", ran.stderr)
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
            raise ControllerUnreachable(
                f"Slurm's {name} did not answer within {self._within:g} s. See whether `scontrol ping` does."
            ) from None
        except FileNotFoundError:
            raise SlurmError(
                f"Slurm's command {name} can't be found. Use a login node of the cluster, or a container that has it."
            ) from None
        except OSError as error:
            raise SlurmError(f"Slurm's command {name} can't be started: {error.strerror}.") from None

    def _error(self, name: str, output: bytes) -> SlurmError:
        lines = [_PREFIX.sub("", line) for line in output.decode(errors="replace").splitlines()]
        text = "; ".join(dict.fromkeys(printable(line.strip()) for line in lines if line.strip()))[:1000]
        if _UNREACHABLE.search(text):
            return ControllerUnreachable(f"Slurm's controller does not answer {name}: {text}. Try again later.")
        return SlurmError(f"Slurm refuses {name}: {text}.")
