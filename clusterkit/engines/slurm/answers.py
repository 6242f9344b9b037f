"""What Slurm's commands print of a job, as values, and what goes wrong with them."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from clusterkit.text.printable import printable
from clusterkit.words.errors import ClusterkitError

LONGEST = 100  # characters of an answer that are shown
# With a suffix, squeue neither pads nor cuts a field. The reason is last: some have words of an administrator in them.
FIELDS = ("JobID", "State", "RestartCnt", "StartTime", "EndTime", "PreemptTime", "TimeLimit", "BatchHost", "Reason")
ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s"}  # seconds since 1970, whatever the time zones of the hosts
_NONE = ("", "N/A", "n/a", "NONE", "None", "(null)", "Unknown")
_LIMIT = re.compile(r"(?:(?P<days>\d{1,6})-)?(?P<parts>\d{1,8}(?::\d\d){0,2})")


class SlurmError(ClusterkitError):
    """Slurm can't do what it was asked for, or does not answer."""


class ControllerAway(SlurmError):
    """Slurm's controller does not answer. It may recover; running jobs do not need it."""


class UnexpectedAnswer(SlurmError):
    """Slurm's command printed output in an unknown format."""

    def __init__(self, command: str, answer: str) -> None:
        shown = printable(answer[:LONGEST].replace("\n", " "))
        super().__init__(f"{command} printed something unexpected: {shown!r}. Is it a wrapper of the site's?")


FORMAT = ",".join(f"{name}:|" for name in FIELDS)


class JobPhase(enum.Enum):
    """Where a job is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDING = "ending"  # its processes are told to end; afterwards it is over, or waits again
    OVER = "over"
    UNKNOWN = "unknown"  # a state of another version of Slurm


_PHASES = {
    **dict.fromkeys(("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD"), JobPhase.WAITING),
    **dict.fromkeys(("REQUEUE_FED", "SPECIAL_EXIT"), JobPhase.WAITING),
    **dict.fromkeys(("RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"), JobPhase.RUNNING),
    "COMPLETING": JobPhase.ENDING,
    **dict.fromkeys(("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL"), JobPhase.OVER),
    **dict.fromkeys(("PREEMPTED", "OUT_OF_MEMORY", "DEADLINE", "REVOKED"), JobPhase.OVER),
}


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that Slurm's controller knows. Times are seconds since 1970; None: Slurm has none."""

    job: int
    state: str
    restarts: int  # how often it was requeued
    start: int | None  # an estimate while it waits
    end: int | None
    preempted: int | None  # when its preemption was decided; it has the partition's grace time from then on
    time_limit: int | None  # seconds; None is no limit
    host: str  # on which its batch script runs
    reason: str  # Slurm's own word

    @property
    def phase(self) -> JobPhase:
        return _PHASES.get(self.state, JobPhase.UNKNOWN)


def parse_queue(text: str) -> dict[int, QueuedJob]:
    """Read the output of `squeue --noheader -O FORMAT`; return the jobs by id. Raises UnexpectedAnswer."""
    jobs = (_job(line) for line in text.split("\n") if line.strip())
    return {job.job: job for job in jobs}


def parse_submitted(text: str) -> int:
    """Read the output of `sbatch --parsable`: the job's id, and perhaps the cluster's name. Raises UnexpectedAnswer."""
    found = re.fullmatch(r"([0-9]{1,10})(;[\w.-]+)?\n?", text)
    if found is None:
        raise UnexpectedAnswer("sbatch", text)
    return int(found[1])


def parse_hostnames(text: str) -> list[str]:
    """Read the output of `scontrol show hostnames`: a name a line. Raises UnexpectedAnswer."""
    names = text.split("\n")[:-1]
    if not names or not all(re.fullmatch(r"[A-Za-z0-9][\w.-]{0,252}", name, re.ASCII) for name in names):
        raise UnexpectedAnswer("scontrol show hostnames", text)
    return names


def _job(line: str) -> QueuedJob:
    try:
        fields = (field.strip() for field in line.split("|", len(FIELDS) - 1))
        job, state, restarts, start, end, preempted, limit, host, reason = fields
        if not re.fullmatch(r"[A-Z_]{1,40}", state) or not reason.endswith("|"):
            raise ValueError
        reason = reason[:-1].strip()
        return QueuedJob(
            job=_number(job),
            state=state,
            restarts=_number(restarts),
            start=_time(start),
            end=_time(end),
            preempted=_time(preempted),
            time_limit=_limit(limit),
            host="" if host in _NONE else host,
            reason="" if reason in _NONE else reason,
        )
    except ValueError:
        raise UnexpectedAnswer("squeue", line) from None


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text):
        raise ValueError
    return int(text)


def _time(text: str) -> int | None:
    return None if text in _NONE else _number(text)


def _limit(text: str) -> int | None:
    """Read `UNLIMITED`, `1:00`, `2:03:04` or `365-00:00:00`, in seconds."""
    if text in ("UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit", *_NONE):
        return None
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ValueError
    seconds = 0
    for part in found["parts"].split(":"):
        seconds = seconds * 60 + int(part)
    return int(found["days"] or 0) * 86400 + seconds
