"""What a running job is told before it has to go, and that a preemption is told from a time limit."""

from __future__ import annotations

import os
import time

import pytest

from clusterkit.engines.slurm.answers import QueuedJob
from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.reasons import EndCause, why_ended, why_warned
from tests.engines.slurm_cluster import SlurmCluster
from tests.engines.slurm_config import GRACE, KILL_WAIT, SOON

pytestmark = [pytest.mark.process, pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(180)]
# A step and the batch script print each signal that they get.
PRINTS = 'for n in USR1 TERM; do trap "echo $0 $n" $n; done; echo $0 begun; while :; do sleep 0.1; done'
BOTH = f"srun --overlap sh -c '{PRINTS}' step & exec sh -c '{PRINTS}' batch"
WHOLE = ("--nodelist=n1", "--ntasks=8")  # all of a host, so that another job has to wait for it, or to take it
ENDED = KILL_WAIT + 20.0  # seconds


def seen(slurm: SlurmCluster, job: int) -> QueuedJob:
    """What Slurm says of it."""
    found = Slurm({**os.environ, **slurm.env}).job(job)
    assert found is not None
    return found


def begin(slurm: SlurmCluster, *args: str) -> int:
    """Start the job, and wait until its step and its batch script listen."""
    job = slurm.submit(BOTH, *WHOLE, *args)
    slurm.wait_output(job, "batch begun", 20)
    slurm.wait_output(job, "step begun", 20)
    assert why_warned(seen(slurm, job), time.time(), 0) is EndCause.UNKNOWN
    return job


def take(slurm: SlurmCluster) -> int:
    """Submit a job of a higher partition for the same host."""
    return slurm.submit("true", *WHOLE, "--partition=urgent")


def test_a_preempted_job_has_its_partitions_grace_time(slurm: SlurmCluster) -> None:
    """Steps get SIGTERM at its beginning, the batch script nothing before its end. But Slurm says it when asked."""
    slurm.configure(SOON)
    job = begin(slurm, "--requeue", "--time=10", "--signal=B:USR1@120")
    urgent = take(slurm)
    slurm.wait_output(job, "step TERM", 20)
    assert why_warned(seen(slurm, job), time.time(), 120) is EndCause.PREEMPTION
    assert "batch" not in slurm.output(job).replace("batch begun", "")
    slurm.wait_output(job, "batch TERM", GRACE + 20)
    slurm.wait_state(job, "PENDING", deadline=ENDED)
    assert why_ended(seen(slurm, job), 0, slurm.output(job)) is EndCause.PREEMPTION
    slurm.wait_state(urgent, "COMPLETED", deadline=ENDED)


def test_a_site_can_have_the_batch_script_warned_of_a_preemption(slurm: SlurmCluster) -> None:
    """By the signal that it asked for, at the beginning of the grace time."""
    slurm.configure("SlurmctldParameters=preempt_send_user_signal")
    job = begin(slurm, "--requeue", "--time=10", "--signal=B:USR1@120")
    take(slurm)
    slurm.wait_output(job, "batch USR1", 20)
    assert why_warned(seen(slurm, job), time.time(), 120) is EndCause.PREEMPTION
    assert "TERM" not in slurm.output(job)


def test_without_a_grace_time_sigterm_is_the_only_warning(slurm: SlurmCluster) -> None:
    """The job has `KillWait` then, 30 s by default; it is preempted, not requeued by anyone."""
    slurm.configure(SOON)
    slurm.run("scontrol", "update", "PartitionName=batch", "GraceTime=0")
    try:
        job = begin(slurm, "--no-requeue")
        take(slurm)
        slurm.wait_output(job, "batch TERM", 20)
        assert why_ended(seen(slurm, job), 0) is EndCause.PREEMPTION
        assert slurm.wait_state(job, "PREEMPTED", deadline=ENDED)["ExitCode"] == "0:9"
    finally:
        slurm.run("scontrol", "update", "PartitionName=batch", f"GraceTime={GRACE}")


def test_a_batch_script_is_warned_before_its_time_limit(slurm: SlurmCluster) -> None:
    """By the signal that it asked for, which no step gets, up to 60 s early or 30 s late."""
    job = begin(slurm, "--time=10", "--signal=B:USR1@60")
    slurm.run("scontrol", "update", f"JobId={job}", "TimeLimit=1")  # the warning is due when both listen
    slurm.wait_output(job, "batch USR1", 50)
    assert why_warned(seen(slurm, job), time.time(), 60) is EndCause.TIME_LIMIT
    assert "step USR1" not in slurm.output(job)
