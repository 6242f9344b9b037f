"""What ends a job, or is about to: a time limit, a preemption, a lost host, a command, or the job itself.

The state alone does not say it: a job that is requeued is PENDING after a preemption as after a lost host, and keeps no
trace of either. What does say it is the record while the job still ends, and the line that slurmstepd then writes into
the job's log.
"""

from __future__ import annotations

import enum
import re

from clusterkit.engines.slurm.queue import Phase, QueuedJob

CHECKED_EVERY = 60  # seconds: Slurm may send its warning that much too early
_LINE = re.compile(
    r"^slurmstepd\S{0,260}: error: \*\*\* JOB ([0-9]{1,10}) ON \S{1,260} CANCELLED AT \S{1,30}"
    r"(?: DUE TO ([A-Z ,]+?))? \*\*\*",
    re.MULTILINE,
)


class End(enum.Enum):
    """What ends a job; the value is a clause that fits behind "the job ends: "."""

    TIME_LIMIT = "its time limit is reached"
    PREEMPTION = "a job of higher priority takes its hosts"
    HOST_LOST = "a host is lost"
    REQUEUED = "it was requeued"
    CANCELLED = "it was cancelled"
    MEMORY = "it used more memory than it asked for"
    ITSELF = "its batch script ended"
    UNKNOWN = "Slurm does not say why"


_STATES = {
    "TIMEOUT": End.TIME_LIMIT,
    "DEADLINE": End.TIME_LIMIT,
    "PREEMPTED": End.PREEMPTION,
    "NODE_FAIL": End.HOST_LOST,
    "BOOT_FAIL": End.HOST_LOST,
    "CANCELLED": End.CANCELLED,
    "REVOKED": End.CANCELLED,
    "OUT_OF_MEMORY": End.MEMORY,
    "COMPLETED": End.ITSELF,
    "FAILED": End.ITSELF,
}
_REASONS = {
    "TimeLimit": End.TIME_LIMIT,
    "NodeDown": End.HOST_LOST,
    "NonZeroExitCode": End.ITSELF,
    "OutOfMemory": End.MEMORY,
}
_CAUSES = {
    "TIME LIMIT": End.TIME_LIMIT,
    "PREEMPTION": End.PREEMPTION,
    "NODE FAILURE": End.HOST_LOST,
    "JOB REQUEUE": End.REQUEUED,
    "": End.CANCELLED,
}


def why_warned(job: QueuedJob, now: float, warning: float, restarts: int | None = None) -> End:
    """Return what a signal means that a job gets: its own `warning` seconds before the limit, or a SIGTERM.

    It began after `restarts` requeues.
    """
    if job.phase is not Phase.RUNNING:
        return why_ended(job, job.restarts if restarts is None else restarts)
    if job.preempted is not None:
        return End.PREEMPTION
    near = job.end is not None and job.end - now <= warning + CHECKED_EVERY
    return End.TIME_LIMIT if near else End.UNKNOWN


def why_ended(job: QueuedJob, restarts: int, log: str = "") -> End:
    """Return what has ended a job that began after `restarts` requeues, or ends it now.

    `log` is the end of the file that it prints to.
    """
    if (written := _written(log, job.job)) is not None:
        return written
    if job.phase is Phase.OVER:
        return _STATES.get(job.state, End.UNKNOWN)
    if job.reason in _REASONS and job.phase is Phase.ENDING:
        return _REASONS[job.reason]
    if job.preempted is not None:
        return End.PREEMPTION
    if job.restarts > restarts:
        return End.REQUEUED  # whoever wanted it
    return End.CANCELLED if job.phase is Phase.ENDING else End.UNKNOWN


def _written(log: str, job: int) -> End | None:
    causes = [cause for number, cause in _LINE.findall(log) if int(number) == job]
    return _CAUSES.get(causes[-1].partition(",")[0], End.UNKNOWN) if causes else None
