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

CHECKED_EVERY = 60  # seconds; Slurm may send its warning early by up to this time
_LINE = re.compile(
    r"^slurmstepd\S{0,260}: error: \*\*\* JOB ([0-9]{1,10}) ON \S{1,260} CANCELLED AT \S{1,30}"
    r"(?: DUE TO ([A-Z ,]+?))? \*\*\*",
    re.MULTILINE,
)
WARNINGS = (23, 10)  # SIGURG, requested by clusterkit's batch script; SIGUSR1, often requested by users' scripts
SPARE = 20.0  # seconds; the time reserved for the supervisor's work after the tasks have ended
LEAST = 20.0  # seconds; the minimum grace period; shorter than KillWait (SIGTERM to SIGKILL) at most sites


class EndCause(enum.Enum):
    """The cause of a job's end. In messages, each value follows "The job ends:"."""

    TIME_LIMIT = "its time limit is reached"
    PREEMPTION = "a job of higher priority takes its hosts"
    HOST_LOST = "a host is lost"
    REQUEUED = "it was requeued"
    CANCELLED = "it was cancelled"
    MEMORY = "it used more memory than it asked for"
    ITSELF = "its batch script ended"
    UNKNOWN = "Slurm does not say why"


_STATES = {
    **dict.fromkeys(("TIMEOUT", "DEADLINE"), EndCause.TIME_LIMIT),
    "PREEMPTED": EndCause.PREEMPTION,
    **dict.fromkeys(("NODE_FAIL", "BOOT_FAIL"), EndCause.HOST_LOST),
    **dict.fromkeys(("CANCELLED", "REVOKED"), EndCause.CANCELLED),
    "OUT_OF_MEMORY": EndCause.MEMORY,
    **dict.fromkeys(("COMPLETED", "FAILED"), EndCause.ITSELF),
}
_REASONS = {
    "TimeLimit": EndCause.TIME_LIMIT,
    "NodeDown": EndCause.HOST_LOST,
    "NonZeroExitCode": EndCause.ITSELF,
    "OutOfMemory": EndCause.MEMORY,
}
_CAUSES = {
    "TIME LIMIT": EndCause.TIME_LIMIT,
    "PREEMPTION": EndCause.PREEMPTION,
    "NODE FAILURE": EndCause.HOST_LOST,
    "JOB REQUEUE": EndCause.REQUEUED,
    "": EndCause.CANCELLED,
}


def why_warned(job: QueuedJob, now: float, warning: float, restarts: int | None = None) -> EndCause:
    """Return the cause of a signal (warning or SIGTERM) to a job whose script started after `restarts` requeues."""
    if job.phase is not JobPhase.RUNNING:
        return why_ended(job, job.restarts if restarts is None else restarts)
    if job.preempted is not None:
        return EndCause.PREEMPTION
    near = job.end is not None and job.end - now <= warning + CHECKED_EVERY
    return EndCause.TIME_LIMIT if near else EndCause.UNKNOWN


def why_ended(job: QueuedJob, restarts: int, log: str = "") -> EndCause:
    """Return the cause of the end of a job that started after `restarts` requeues. `log` is the end of its output."""
    if causes := [cause for number, cause in _LINE.findall(log) if int(number) == job.job]:
        return _CAUSES.get(causes[-1].partition(",")[0], EndCause.UNKNOWN)
    if job.phase is JobPhase.OVER:
        return _STATES.get(job.state, EndCause.UNKNOWN)
    if job.reason in _REASONS and job.phase is JobPhase.ENDING:
        return _REASONS[job.reason]
    if job.preempted is not None:
        return EndCause.PREEMPTION
    if job.restarts > restarts:
        return EndCause.REQUEUED  # requeued by the user or an administrator
    return EndCause.CANCELLED if job.phase is JobPhase.ENDING else EndCause.UNKNOWN


# The causes after which the run is continued.
CONTINUES = (EndCause.TIME_LIMIT, EndCause.PREEMPTION, EndCause.REQUEUED, EndCause.HOST_LOST)


def notice(job: QueuedJob | None, signal: int, restarts: int, now: float) -> AllocationEnding | None:
    """Return AllocationEnding if the run is to continue after a signal to the job; None if the run is to end for good.

    The job started after `restarts` requeues. If `job` is None, Slurm did not answer, and the run is to continue.
    """
    end = EndCause.UNKNOWN if job is None else why_warned(job, now, WARNING, restarts)
    if signal in WARNINGS and end not in CONTINUES:
        end = EndCause.TIME_LIMIT  # the warning was requested for the time limit
    elif job is not None and end is EndCause.TIME_LIMIT and job.phase is JobPhase.RUNNING and signal not in WARNINGS:
        return None  # the signal came from a user; the time limit is near only by chance
    if end not in CONTINUES and job is not None:
        return None
    left = 0.0 if job is None or job.end is None or job.phase is not JobPhase.RUNNING else job.end - now - SPARE
    return AllocationEnding(end.value, max(left, LEAST))


class WaitReason(NamedTuple):
    """The reason why a job waits, as a clause. If the wait does not end by itself, the clause includes what to do."""

    text: str
    ends_by_itself: bool = True


# The first row whose text begins Slurm's reason applies. See https://slurm.schedmd.com/job_reason_codes.html
_WAITS: Sequence[tuple[str, WaitReason]] = (
    ("Resources", WaitReason("no hosts are free for it yet")),
    ("Priority", WaitReason("other jobs come before it")),
    ("WaitingForScheduling", WaitReason("Slurm has not looked at it yet")),
    (
        "BeginTime",
        WaitReason("it may not start before its begin time, which Slurm sets 2 minutes ahead for a requeued job"),
    ),
    ("DependencyNeverSatisfied", WaitReason("the job it depends on did not end as required: cancel this one", False)),
    ("Dependency", WaitReason("it depends on another job")),
    ("Cleaning", WaitReason("its last start is not cleaned up yet")),
    ("Prolog", WaitReason("the site's prolog still runs")),
    ("Licenses", WaitReason("a license is not free")),
    ("Reservation", WaitReason("its reservation has not begun")),
    ("JobArrayTaskLimit", WaitReason("enough tasks of its array run")),
    ("JobHeldUser", WaitReason("it is held: release it with `scontrol release {job}`", False)),
    ("job requeued in held", WaitReason("it was requeued and held: release it with `scontrol release {job}`", False)),
    ("launch failed requeued held", WaitReason("it could not be launched, and is held: ask the administrator", False)),
    ("JobHeldAdmin", WaitReason("the administrator holds it: ask why", False)),
    ("ReqNodeNotAvail", WaitReason("hosts that it needs are down, drained or reserved")),
    ("NodeDown", WaitReason("a host that it needs is down")),
    ("Nodes required for job are DOWN", WaitReason("hosts that it needs are down, drained or reserved")),
    ("PartitionNodeLimit", WaitReason("it requests more hosts than the partition allows: use fewer --hosts", False)),
    ("PartitionTimeLimit", WaitReason("it requests more time than the partition allows: use less --time", False)),
    ("PartitionDown", WaitReason("the partition is down")),
    ("PartitionInactive", WaitReason("the partition starts no jobs at present")),
    (
        "BadConstraints",
        WaitReason("no hosts match what it requests: see --sbatch-arg and the resources of a task", False),
    ),
    ("InvalidQOS", WaitReason("the QOS does not exist, or is not yours", False)),
    ("InvalidAccount", WaitReason("the account does not exist, or is not yours", False)),
    ("AccountNotAllowed", WaitReason("the partition is not for your account", False)),
    ("QOSNotAllowed", WaitReason("the partition is not for this QOS", False)),
    ("QOSUsageThreshold", WaitReason("the QOS has used up its share")),
    ("QOSMax", WaitReason("it, or all your jobs together, exceed a limit of the QOS")),
    ("QOSMin", WaitReason("it requests less than the QOS requires", False)),
    ("QOS", WaitReason("the jobs of the QOS have reached one of its limits")),
    ("AssocMax", WaitReason("it, or all your jobs together, exceed a limit of your account")),
    ("Association", WaitReason("your account has reached one of its limits")),
    ("Assoc", WaitReason("the jobs of your account have reached one of its limits")),
)


def why_it_waits(job: QueuedJob, now: float) -> WaitReason:
    """Return the reason why a waiting job waits. `now` is in seconds since 1970."""
    waits = next((wait for word, wait in _WAITS if job.reason.startswith(word)), WaitReason(""))
    text = waits.text.format(job=job.job)
    if not job.reason:
        text = "Slurm has not said why"
    elif not text:
        text = f"Slurm says {printable(job.reason)}"
    else:
        text += f" ({printable(job.reason)})"
    if job.phase is JobPhase.WAITING and job.start is not None and job.start > now and waits.ends_by_itself:
        text += f"; expected to start in {durations.shown(job.start - now)}"
    return WaitReason(text, waits.ends_by_itself)
