"""What squeue, sbatch and scontrol print: read strictly, whatever it is."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from clusterkit.engines.slurm.answers import (
    FIELDS,
    JobPhase,
    QueuedJob,
    UnexpectedAnswer,
    parse_hostnames,
    parse_queue,
    parse_submitted,
)
from clusterkit.engines.slurm.reasons import why_it_waits

PENDING = "8|PENDING|2|1795357512|NONE|N/A|UNLIMITED|n/a|Resources|"
RUNNING = "7|RUNNING|0|1795354280|1795354285|1795354281|1-02:03:04|n1|None|"


def waiting(reason: str, start: int | None = None) -> QueuedJob:
    """A job that waits for a reason, to start at an estimated time."""
    return QueuedJob(8, "PENDING", 0, start, None, None, None, "", reason)


def test_jobs_are_read() -> None:
    """One a line; what Slurm has no value for is None, or empty."""
    assert parse_queue(f"{PENDING}\n{RUNNING}\n") == {
        8: QueuedJob(8, "PENDING", 2, 1795357512, None, None, None, "", "Resources"),
        7: QueuedJob(7, "RUNNING", 0, 1795354280, 1795354285, 1795354281, 93784, "n1", ""),
    }
    assert parse_queue("") == parse_queue("\n") == {}


def test_fields_that_another_version_pads_are_read_too() -> None:
    """Without their blanks."""
    padded = "|".join(field.ljust(20) for field in RUNNING.split("|"))
    assert parse_queue(padded) == parse_queue(RUNNING)


def test_a_reason_may_have_anything_in_it() -> None:
    """Some have an administrator's words."""
    (job,) = parse_queue(PENDING.replace("Resources", "ReqNodeNotAvail, May|be reserved for: you")).values()
    assert job.reason == "ReqNodeNotAvail, May|be reserved for: you"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1:00", 60), ("0:30", 30), ("2:03:04", 7384), ("365-00:00:00", 31536000), ("UNLIMITED", None), ("INVALID", None)],
)
def test_time_limits_are_read(text: str, seconds: int | None) -> None:
    """In the forms that Slurm writes."""
    (job,) = parse_queue(RUNNING.replace("1-02:03:04", text)).values()
    assert job.time_limit == seconds


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("PENDING", JobPhase.WAITING),
        ("RUNNING", JobPhase.RUNNING),
        ("COMPLETING", JobPhase.ENDING),
        ("TIMEOUT", JobPhase.OVER),
        ("TOMORROW", JobPhase.UNKNOWN),
    ],
)
def test_a_state_is_a_phase_of_a_job(state: str, phase: JobPhase) -> None:
    """Those of other versions are not guessed at."""
    (job,) = parse_queue(RUNNING.replace("RUNNING", state)).values()
    assert job.phase is phase


@pytest.mark.parametrize(
    "line",
    [
        "JOBID|STATE",
        RUNNING.replace("7|", "7_1|", 1),
        RUNNING.replace("7|", "-7|", 1),
        RUNNING.replace("7|", "٧|", 1),
        RUNNING.replace("RUNNING", "running"),
        RUNNING.replace("|0|", "||"),
        RUNNING.replace("1795354280", "2026-11-22T13:31:29"),
        RUNNING.replace("1-02:03:04", "soon"),
        RUNNING.removesuffix("|"),
        "9" * 5000 + RUNNING,
    ],
)
def test_anything_else_is_an_error(line: str) -> None:
    """Which shows the beginning of it, and no more."""
    with pytest.raises(UnexpectedAnswer, match=r"squeue printed something unexpected") as caught:
        parse_queue(f"{PENDING}\n{line}\x1b\n")
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_no_output_does_more_than_raise_that_error() -> None:
    """Random ones, and what is nearly right."""
    chance = random.Random(seed := random.randrange(2**32))
    print(f"the seed is {seed}")
    pieces = [*PENDING.split("|"), *RUNNING.split("|"), "|", "\n", "\0", "\x1b[2J", "٣", "é", "9" * 40, "\r", "-", ":"]
    for _ in range(5000):
        text = "|".join(chance.choices(pieces, k=len(FIELDS))) + chance.choice(["|", "|\n", "", "\n|"])
        for parse in (parse_queue, parse_submitted, parse_hostnames):
            with suppress(UnexpectedAnswer):
                parse(text)


def test_the_id_of_a_submitted_job_is_read() -> None:
    """A cluster's name may follow it."""
    assert parse_submitted("123\n") == parse_submitted("123;big.cluster-1\n") == 123


@pytest.mark.parametrize(
    "text", ["", "\n", "Submitted batch job 123\n", "123 \n", "-1\n", "123;\n", "123\n124\n", "1" * 30]
)
def test_what_is_no_id_is_an_error(text: str) -> None:
    """Such as the words of a site's wrapper."""
    with pytest.raises(UnexpectedAnswer, match="sbatch printed something unexpected"):
        parse_submitted(text)


def test_host_names_are_read() -> None:
    """In Slurm's order."""
    assert parse_hostnames("n1\nn10\ngpu-2.site\n") == ["n1", "n10", "gpu-2.site"]


@pytest.mark.parametrize("text", ["", "n]\n", "n1", "n1\n\n", "--host\n", "a b\n", "n1\n" + "x" * 300 + "\n"])
def test_what_is_no_host_name_is_an_error(text: str) -> None:
    """It would be an option, or another command's argument, later."""
    with pytest.raises(UnexpectedAnswer, match="scontrol show hostnames"):
        parse_hostnames(text)


@pytest.mark.parametrize(
    ("reason", "text", "ends"),
    [
        ("Resources", "no hosts are free for it yet (Resources)", True),
        ("Priority", "other jobs come before it (Priority)", True),
        ("ReqNodeNotAvail, UnavailableNodes:n2", "hosts that it needs are down, drained or reserved", True),
        ("DependencyNeverSatisfied", "did not end as required: cancel this one", False),
        ("PartitionNodeLimit", "use fewer --hosts", False),
        ("QOSMaxJobsPerUserLimit", "exceed a limit of the QOS (QOSMaxJobsPerUserLimit)", True),
        ("QOSGrpNodeLimit", "have reached one of its limits (QOSGrpNodeLimit)", True),
        ("AssocGrpCpuLimit", "your account have reached one of its limits", True),
        ("JobHeldUser", "release it with `scontrol release 8`", False),
        ("TomorrowsReason\x1b[2J", "Slurm says TomorrowsReason␛[2J", True),
        ("{job.__class__}", "Slurm says {job.__class__}", True),
        ("", "Slurm has not said why", True),
    ],
)
def test_why_a_job_waits_is_said_in_words(reason: str, text: str, ends: bool) -> None:
    """With Slurm's own, which a search engine knows; and whether waiting helps."""
    wait = why_it_waits(waiting(reason), 1000)
    assert text in wait.text
    assert wait.ends_by_itself is ends


def test_the_expected_start_is_said() -> None:
    """Where Slurm has one, and the job starts without help."""
    assert why_it_waits(waiting("BeginTime", 1100), 1000).text.endswith("; expected to start in 1 min 40 s")
    assert "expected" not in why_it_waits(waiting("BeginTime", 900), 1000).text
    assert "expected" not in why_it_waits(waiting("JobHeldUser", 1100), 1000).text
