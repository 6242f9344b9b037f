"""A job without its supervisor: the host of its batch script is lost, and Slurm runs the job on."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from clusterkit.engines.slurm.allocation import in_job
from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.errors import ControllerAway, SlurmError, UnexpectedAnswer
from clusterkit.engines.slurm.queue import Phase

ASK_EVERY = 5.0  # seconds
ASK_FOR = 1800.0  # seconds; Slurm may give up a host only after minutes (SlurmdTimeout)


def requeue(env: Mapping[str, str] = os.environ) -> bool:
    """Requeue the job that this process is in, once Slurm knows that the host of its batch script is lost.

    Until then, wait; not if the job ends or is requeued by somebody else. Returns whether it was requeued here.
    """
    if not in_job(env):
        return False
    number, restarts = int(env["SLURM_JOB_ID"]), int(env.get("SLURM_RESTART_COUNT") or 0)
    until = time.monotonic() + ASK_FOR
    while time.monotonic() < until:
        try:
            if (done := look(Slurm(env), number, restarts)) is not None:
                return done
        except (ControllerAway, UnexpectedAnswer):  # the controller may recover
            pass
        except SlurmError:  # another agent has requeued the job
            return False
        time.sleep(ASK_EVERY)
    return False


def look(slurm: Slurm, number: int, restarts: int) -> bool | None:
    """Requeue an orphaned job: True if requeued, False if not needed, None while its host is not known down."""
    job = slurm.job(number)
    if job is None or job.phase is not Phase.RUNNING or job.restarts != restarts:
        return False
    if not job.host or not slurm.is_down(job.host):
        return None
    slurm.requeue(number)
    return True
