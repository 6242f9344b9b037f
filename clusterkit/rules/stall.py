"""Which task holds the others up."""

from __future__ import annotations

from collections.abc import Mapping

from clusterkit.words.events import Vitals
from clusterkit.words.model import JobSpec, Task

# Letters of /proc/PID/stat, the worst first.
_NOT_GOING_ON = {"T": "is stopped (T)", "t": "is stopped by a debugger (t)", "D": "hangs in the kernel (D)"}


def stuck_task(
    job: JobSpec, steps: Mapping[Task, int | None], vitals: Mapping[Task, Vitals]
) -> tuple[Task, str] | None:
    """The live task to blame for a stall, and what is wrong with it.

    A task that is stopped or hangs in the kernel is to blame before its peers, which only wait for it. Else it is
    the reporting task that is furthest behind, else the leader.
    """
    for letter, wrong in _NOT_GOING_ON.items():
        for task in sorted(steps):
            if task in vitals and vitals[task].state == letter:
                return task, wrong
    behind = sorted((step, task) for task, step in steps.items() if step is not None)
    if behind:
        return behind[0][1], f"is the furthest behind (step {behind[0][0]})"
    return (job.leader, "leads the job") if job.leader in steps else None
