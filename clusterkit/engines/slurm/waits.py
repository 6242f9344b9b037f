"""Why a job waits, in words: Slurm's reason, what it means, and whether waiting helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clusterkit.engines.slurm.queue import Phase, QueuedJob
from clusterkit.text import durations
from clusterkit.text.printable import printable


class Wait(NamedTuple):
    """A clause, and whether the job starts by itself some day; if not, what to do is in it."""

    text: str
    ends_by_itself: bool = True


# The first row whose beginning fits. https://slurm.schedmd.com/job_reason_codes.html
_REASONS: Sequence[tuple[str, Wait]] = (
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
    (
        "job requeued in held state",
        Wait("it was requeued and held: release it with `scontrol release {job}`", False),
    ),
    ("launch failed requeued held", Wait("it could not be launched, and is held: ask the administrator", False)),
    ("JobHeldAdmin", Wait("the administrator holds it: ask why", False)),
    ("ReqNodeNotAvail", Wait("hosts that it needs are down, drained or reserved")),
    ("NodeDown", Wait("a host that it needs is down")),
    ("Nodes required for job are DOWN", Wait("hosts that it needs are down, drained or reserved")),
    ("PartitionNodeLimit", Wait("it asks for more hosts than the partition gives: use fewer --hosts", False)),
    ("PartitionTimeLimit", Wait("it asks for more time than the partition gives: use less --time", False)),
    ("PartitionDown", Wait("the partition is down")),
    ("PartitionInactive", Wait("the partition starts no jobs at present")),
    (
        "BadConstraints",
        Wait("no hosts are as it asks for: see --sbatch-arg and the resources of a task", False),
    ),
    ("InvalidQOS", Wait("the QOS does not exist, or is not yours", False)),
    ("InvalidAccount", Wait("the account does not exist, or is not yours", False)),
    ("AccountNotAllowed", Wait("the partition is not for your account", False)),
    ("QOSNotAllowed", Wait("the partition is not for this QOS", False)),
    ("QOSUsageThreshold", Wait("the QOS has used up its share")),
    ("QOSMax", Wait("it, or all your jobs together, exceed a limit of the QOS")),
    ("QOSMin", Wait("it asks for less than the QOS demands", False)),
    ("QOS", Wait("the jobs of the QOS have reached one of its limits")),
    ("AssocMax", Wait("it, or all your jobs together, exceed a limit of your account")),
    ("Association", Wait("your account has reached one of its limits")),
    ("Assoc", Wait("the jobs of your account have reached one of its limits")),
)


def why_it_waits(job: QueuedJob, now: float) -> Wait:
    """Return why it waits, for a job that does. `now` is in seconds since 1970."""
    waits = next((wait for word, wait in _REASONS if job.reason.startswith(word)), Wait(""))
    text = waits.text.format(job=job.job)
    if not job.reason:
        text = "Slurm has not said why"
    elif not text:
        text = f"Slurm says {printable(job.reason)}"
    else:
        text += f" ({printable(job.reason)})"
    if job.phase is Phase.WAITING and job.start is not None and job.start > now and waits.ends_by_itself:
        text += f"; expected to start in {durations.shown(job.start - now)}"
    return Wait(text, waits.ends_by_itself)
