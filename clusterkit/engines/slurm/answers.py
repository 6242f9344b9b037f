"""Parses the output of Slurm's commands, and defines their errors."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from clusterkit.text.printable import printable
from clusterkit.words.errors import ClusterkitError

LONGEST = 100  # characters; longer answers are truncated when shown
# FORMAT adds a suffix to each field, since squeue would pad or truncate it. The reason, which may be any text, is last.
FIELDS = ("JobID", "State", "RestartCnt", "StartTime", "EndTime", "PreemptTime", "TimeLimit", "BatchHost", "Reason")
ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s"}  # times in seconds since 1970, independent of the hosts' time zones
_NONE = ("", "N/A", "n/a", "NONE", "None", "(null)", "Unknown")
_LIMIT = re.compile(r"(?:(?P<days>\d{1,6})-)?(?P<parts>\d{1,8}(?::\d\d){0,2})")


class SlurmError(ClusterkitError):
    """A request that Slurm has rejected, failed to execute, or not answered."""


class ControllerUnreachable(SlurmError):
    """Slurm's controller does not answer. It may recover, and running jobs continue without it."""


class UnexpectedAnswer(SlurmError):
    """A Slurm command printed output in an unknown format."""

    def __init__(self, command: str, answer: str) -> None:
        shown = printable(answer[:LONGEST].replace("\n", " "))
        super().__init__(f"{command} printed something unexpected: {shown!r}. Is it a wrapper script of your site?")


FORMAT = ",".join(f"{name}:|" for name in FIELDS)


class JobPhase(enum.Enum):
    """The phase of a job's life, derived from its state in Slurm."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDING = "ending"  # the job's processes are ending; then the job is over, or waits again
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
    """A job as reported by Slurm's controller. Times are seconds since 1970, or None if Slurm reports no time."""

    job: int
    state: str
    restarts: int  # how often the job was requeued
    start: int | None  # the start time; an estimate while the job waits
    end: int | None
    preempted: int | None  # the time of a preemption, after which the partition's grace time runs
    time_limit: int | None  # seconds; None means no limit
    host: str  # the host that runs the job's batch script
    reason: str  # Slurm's reason code for the state

    @property
    def phase(self) -> JobPhase:
        return _PHASES.get(self.state, JobPhase.UNKNOWN)


def parse_queue(text: str) -> dict[int, QueuedJob]:
    """Parse the output of `squeue --noheader -O FORMAT`; return the jobs by id. Raises UnexpectedAnswer."""
    jobs = (_job(line) for line in text.split("\n") if line.strip())
    return {job.job: job for job in jobs}


def parse_submitted(text: str) -> int:
    """Return the job's id from the output of `sbatch --parsable`, `ID` or `ID;CLUSTER`. Raises UnexpectedAnswer."""
    found = re.fullmatch(r"([0-9]{1,10})(;[\w.-]+)?\n?", text)
    if found is None:
        raise UnexpectedAnswer("sbatch", text)
    return int(found[1])


def parse_hostnames(text: str) -> list[str]:
    """Parse the output of `scontrol show hostnames`, one name per line. Raises UnexpectedAnswer."""
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
    """Parse a time limit, such as `UNLIMITED`, `1:00`, `2:03:04` or `365-00:00:00`; return seconds, or None."""
    if text in ("UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit", *_NONE):
        return None
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ValueError
    seconds = 0
    for part in found["parts"].split(":"):
        seconds = seconds * 60 + int(part)
    return int(found["days"] or 0) * 86400 + seconds
