"""What a signal means to a run in a job of Slurm's: the end of this allocation, or of the run."""

from __future__ import annotations

from clusterkit.engines.slurm.ends import End, why_warned
from clusterkit.engines.slurm.queue import Phase, QueuedJob
from clusterkit.engines.slurm.script import WARNING
from clusterkit.words.events import AllocationEnding

WARNINGS = (23, 10)  # SIGURG, for which the batch script asks; SIGUSR1, for which a user's own may
CONTINUES = (End.TIME_LIMIT, End.PREEMPTION, End.REQUEUED, End.HOST_LOST)  # after these the run is to continue
SPARE = 20.0  # seconds for what has to be done when the tasks have ended
LEAST = 20.0  # seconds; less than KillWait, the time from SIGTERM to SIGKILL, is at most sites


def notice(job: QueuedJob | None, signal: int, restarts: int, now: float) -> AllocationEnding | None:
    """Return what a signal means, to a job that began after `restarts` requeues; None: the run is to end for good.

    Without a job, Slurm did not answer: then the run is left so that it can continue.
    """
    end = End.UNKNOWN if job is None else why_warned(job, now, WARNING, restarts)
    if signal in WARNINGS and end not in CONTINUES:
        end = End.TIME_LIMIT  # that is what the warning is for
    elif job is not None and end is End.TIME_LIMIT and job.phase is Phase.RUNNING and signal not in WARNINGS:
        return None  # a user sent the signal, near the time limit by chance
    if end not in CONTINUES and job is not None:
        return None
    left = 0.0 if job is None or job.end is None or job.phase is not Phase.RUNNING else job.end - now - SPARE
    return AllocationEnding(end.value, max(left, LEAST))
