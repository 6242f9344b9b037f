"""The sequel of a run: when an allocation has ended, whether the next one continues it."""

from __future__ import annotations

import time
from contextlib import suppress

from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.errors import ControllerAway, SlurmError
from clusterkit.engines.slurm.queue import Phase
from clusterkit.engines.table import may_continue
from clusterkit.store.directory import RunDirectory
from clusterkit.words.outcome import RunState

ASK_EVERY = 2.0  # seconds between two questions to Slurm's controller
LOOK_EVERY = 0.1  # seconds between two looks at the run
PATIENCE = 4  # questions for which the job of a suspended run may be over: whoever follows `up` may requeue it then


def continues(run: RunDirectory, slurm: Slurm | None = None, ask_every: float = ASK_EVERY) -> bool:
    """Wait until a supervisor has the run again; False if none will: it was ended for good, or its job is over.

    A job that was requeued is spared its two minutes, for which nobody inside the job can ask.
    """
    slurm, hastened, over = slurm or Slurm(), 0, 0
    while may_continue(run):
        if run.is_live():
            return True
        try:
            job = slurm.job(_job_of(run))
        except ControllerAway:  # the job continues without it
            pass
        except SlurmError:  # there is no Slurm here
            return False
        else:
            over = over + 1 if job is None or job.phase is Phase.OVER else 0
            if over and (over >= PATIENCE or not _is_suspended(run)):
                return run.is_live()
            if job is not None and job.reason == "BeginTime" and hastened < job.restarts:
                hastened = job.restarts
                _start_soon(slurm, job.job)
        _watch(run, ask_every)
    return False


def _job_of(run: RunDirectory) -> int:
    info = run.info()
    return int(info.allocation) if info is not None and info.allocation.isdecimal() else 0


def _is_suspended(run: RunDirectory) -> bool:
    result = run.result()
    return result is not None and result.state is RunState.SUSPENDED


def _start_soon(slurm: Slurm, job: int) -> None:
    with suppress(SlurmError):  # then it waits for its two minutes
        slurm.start_soon(job)


def _watch(run: RunDirectory, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not run.is_live():
        time.sleep(min(LOOK_EVERY, seconds))
