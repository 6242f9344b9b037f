"""Finds out why a job waits, what a signal to a job means, and why a job has ended.

The job's state alone is not sufficient: after a preemption as well as after the loss of a host, a requeued job is
PENDING and keeps no trace of the cause. The cause is found in the job's record while the job is ending, and in the line
that slurmstepd then writes to the job's log.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import NamedTuple

from clusterkit.engines.slurm.answers import JobPhase, QueuedJob
from clusterkit.engines.slurm.script import WARNING
from clusterkit.text import durations
from clusterkit.text.printable import printable
from clusterkit.words.events import AllocationEnding

CHECKED_EVERY = 60  # seconds; the maximum time by which Slurm may send its warning too early
_LINE = re.compile(
    r"^slurmstepd\S{0,260}: error: \*\*\* JOB ([0-9]{1,10}) ON \S{1,260} CANCELLED AT \S{1,30}"
    r"(?: DUE TO ([A-Z ,]+?))? \*\*\*",
    re.MULTILINE,
)
WARNINGS = (23, 10)  # SIGURG, requested by clusterkit's batch script; SIGUSR1, often requested by users' scripts
SPARE = 20.0  # seconds; the time reserved for the work after the end of the tasks
LEAST = 20.0  # seconds; the minimum grace; less than most sites' KillWait, the time from SIGTERM to SIGKILL


class End(enum.Enum):
    """The cause of a job's end. The value is a clause to follow "the job ends: "."""

    TIME_LIMIT = "its time limit is reached"
    PREEMPTION = "a job of higher priority takes its hosts"
    HOST_LOST = "a host is lost"
    REQUEUED = "it was requeued"
    CANCELLED = "it was cancelled"
    MEMORY = "it used more memory than it asked for"
    ITSELF = "its batch script ended"
    UNKNOWN = "Slurm does not say why"


_STATES = {
    **dict.fromkeys(("TIMEOUT", "DEADLINE"), End.TIME_LIMIT),
    "PREEMPTED": End.PREEMPTION,
    **dict.fromkeys(("NODE_FAIL", "BOOT_FAIL"), End.HOST_LOST),
    **dict.fromkeys(("CANCELLED", "REVOKED"), End.CANCELLED),
    "OUT_OF_MEMORY": End.MEMORY,
    **dict.fromkeys(("COMPLETED", "FAILED"), End.ITSELF),
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
    """Return the cause of a signal (warning or SIGTERM) to a job whose script started after `restarts` requeues."""
    if job.phase is not JobPhase.RUNNING:
        return why_ended(job, job.restarts if restarts is None else restarts)
    if job.preempted is not None:
        return End.PREEMPTION
    near = job.end is not None and job.end - now <= warning + CHECKED_EVERY
    return End.TIME_LIMIT if near else End.UNKNOWN


def why_ended(job: QueuedJob, restarts: int, log: str = "") -> End:
    """Return the cause of the end of a job that started after `restarts` requeues. `log` is the end of its output."""
    if causes := [cause for number, cause in _LINE.findall(log) if int(number) == job.job]:
        return _CAUSES.get(causes[-1].partition(",")[0], End.UNKNOWN)
    if job.phase is JobPhase.OVER:
        return _STATES.get(job.state, End.UNKNOWN)
    if job.reason in _REASONS and job.phase is JobPhase.ENDING:
        return _REASONS[job.reason]
    if job.preempted is not None:
        return End.PREEMPTION
    if job.restarts > restarts:
        return End.REQUEUED  # by the user or an administrator
    return End.CANCELLED if job.phase is JobPhase.ENDING else End.UNKNOWN


CONTINUES = (End.TIME_LIMIT, End.PREEMPTION, End.REQUEUED, End.HOST_LOST)  # causes after which the run is continued


def notice(job: QueuedJob | None, signal: int, restarts: int, now: float) -> AllocationEnding | None:
    """Return AllocationEnding if the run is to continue after a signal to the job; None if the run is to end for good.

    The job started after `restarts` requeues. If `job` is None, Slurm did not answer, and the run is to continue.
    """
    end = End.UNKNOWN if job is None else why_warned(job, now, WARNING, restarts)
    if signal in WARNINGS and end not in CONTINUES:
        end = End.TIME_LIMIT  # the purpose of the warning
    elif job is not None and end is End.TIME_LIMIT and job.phase is JobPhase.RUNNING and signal not in WARNINGS:
        return None  # a user sent the signal, and the time limit is near by chance
    if end not in CONTINUES and job is not None:
        return None
    left = 0.0 if job is None or job.end is None or job.phase is not JobPhase.RUNNING else job.end - now - SPARE
    return AllocationEnding(end.value, max(left, LEAST))


class Wait(NamedTuple):
    """The reason why a job waits, as a clause. If the wait does not end by itself, the clause includes what to do."""

    text: str
    ends_by_itself: bool = True


# The first row that is a prefix of the reason is used. See https://slurm.schedmd.com/job_reason_codes.html
_WAITS: Sequence[tuple[str, Wait]] = (
    ("Resources", Wait("no hosts are free for it yet")),
    ("Priority", Wait("other jobs come before it")),
    ("WaitingForScheduling", Wait("Slurm has not looked at it yet")),
    ("BeginTime", Wait("it may not start before its begin time, which Slurm sets 2 minutes ahead for a requeued job")),
    ("DependencyNeverSatisfied", Wait("the job it depends on did not end as required: cancel this one", False)),
    ("Dependency", Wait("it depends on another job")),
    ("Cleaning", Wait("its last start is not cleaned up yet")),
    ("Prolog", Wait("the site's prolog still runs")),
    ("Licenses", Wait("a license is not free")),
    ("Reservation", Wait("its reservation has not begun")),
    ("JobArrayTaskLimit", Wait("enough tasks of its array run")),
    ("JobHeldUser", Wait("it is held: release it with `scontrol release {job}`", False)),
    ("job requeued in held", Wait("it was requeued and held: release it with `scontrol release {job}`", False)),
    ("launch failed requeued held", Wait("it could not be launched, and is held: ask the administrator", False)),
    ("JobHeldAdmin", Wait("the administrator holds it: ask why", False)),
    ("ReqNodeNotAvail", Wait("hosts that it needs are down, drained or reserved")),
    ("NodeDown", Wait("a host that it needs is down")),
    ("Nodes required for job are DOWN", Wait("hosts that it needs are down, drained or reserved")),
    ("PartitionNodeLimit", Wait("it requests more hosts than the partition allows: use fewer --hosts", False)),
    ("PartitionTimeLimit", Wait("it requests more time than the partition allows: use less --time", False)),
    ("PartitionDown", Wait("the partition is down")),
    ("PartitionInactive", Wait("the partition starts no jobs at present")),
    ("BadConstraints", Wait("no hosts match what it requests: see --sbatch-arg and the resources of a task", False)),
    ("InvalidQOS", Wait("the QOS does not exist, or is not yours", False)),
    ("InvalidAccount", Wait("the account does not exist, or is not yours", False)),
    ("AccountNotAllowed", Wait("the partition is not for your account", False)),
    ("QOSNotAllowed", Wait("the partition is not for this QOS", False)),
    ("QOSUsageThreshold", Wait("the QOS has used up its share")),
    ("QOSMax", Wait("it, or all your jobs together, exceed a limit of the QOS")),
    ("QOSMin", Wait("it requests less than the QOS requires", False)),
    ("QOS", Wait("the jobs of the QOS have reached one of its limits")),
    ("AssocMax", Wait("it, or all your jobs together, exceed a limit of your account")),
    ("Association", Wait("your account has reached one of its limits")),
    ("Assoc", Wait("the jobs of your account have reached one of its limits")),
)


def why_it_waits(job: QueuedJob, now: float) -> Wait:
    """Return the reason why a waiting job waits. `now` is in seconds since 1970."""
    waits = next((wait for word, wait in _WAITS if job.reason.startswith(word)), Wait(""))
    text = waits.text.format(job=job.job)
    if not job.reason:
        text = "Slurm has not said why"
    elif not text:
        text = f"Slurm says {printable(job.reason)}"
    else:
        text += f" ({printable(job.reason)})"
    if job.phase is JobPhase.WAITING and job.start is not None and job.start > now and waits.ends_by_itself:
        text += f"; expected to start in {durations.shown(job.start - now)}"
    return Wait(text, waits.ends_by_itself)
