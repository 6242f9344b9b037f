"""Silence: nobody reports a step, although a stall timeout or a fault waits for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.ending import Ending
from clusterkit.machine.faults import Faults
from clusterkit.machine.timers import Timer
from clusterkit.words.faults import Moment
from clusterkit.words.job import JobSpec

# Seconds for which all tasks that train have run. Imports, connections and the first compilation mostly take less, so
# that a program that does report steps has done so by then.
PATIENCE = 60.0
STALL_TIMEOUT = -1  # its place among the faults, which count from 0


@dataclass(slots=True)
class Silence:
    """Warns once of each thing that waits for steps that do not come. Otherwise no timer runs."""

    state: ClusterState
    ending: Ending
    faults: Faults
    told: set[int] = field(default_factory=set)

    def settle(self) -> None:
        """Begin to wait for the first step, or give up waiting."""
        timers = self.state.timers
        if not self._waiting() or self.ending.begun or self.state.census.idle:
            timers.clear(Timer.SILENCE)
        elif not timers.is_set(Timer.SILENCE):
            timers.set(Timer.SILENCE, self.state.now + PATIENCE)

    def due(self) -> None:
        """The time for the first step is over."""
        waiting = self._waiting()
        names = {armed.index: f"the fault '{armed.fault}'" for armed in self.faults.armed}
        names[STALL_TIMEOUT] = "--stall-timeout"
        if waiting:
            self.state.warn(silence(self.state.job, [names[index] for index in waiting], PATIENCE))
            self.told.update(waiting)

    def _waiting(self) -> list[int]:
        if self.state.progress_at is not None:
            return []
        armed = [a.index for a in self.faults.armed if a.trigger.moment is Moment.STEP and not a.over]
        waiting = [STALL_TIMEOUT, *armed] if self.state.job.limits.stall else armed
        return [index for index in waiting if index not in self.told]


def silence(job: JobSpec, waiting: Sequence[str], seconds: float) -> str:
    """The warning. `waiting` are the options and faults that do nothing without steps, `seconds` how long it was."""
    names, verb = " and ".join(waiting), "have" if len(waiting) > 1 else "has"
    return (
        f"No task has reported a step, {seconds:g} s after all of them started. Until one does, {names} {verb} "
        f"no effect. {advice(job)}"
    )


def advice(job: JobSpec) -> str:
    """How a program gets to report its steps."""
    report = "clusterkit.training.report(step=…) or, in Keras, the callback clusterkit.training.ReportProgress()"
    if job.progress_regex is not None:
        return f"No line in the logs matched --progress-regex '{job.progress_regex}'. Change it, or call {report}."
    return f"Call {report}, or have steps read from the logs: --progress-regex 'step (\\d+)'."
