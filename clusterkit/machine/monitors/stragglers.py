"""Inspects how training tasks spend their time, and detects which of them are slower than their peers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.ending import Ending
from clusterkit.machine.monitors.pace_comparison import (
    PARTIAL_SHARE,
    Deviation,
    Observation,
    Peers,
    compare,
    shows_slow_task,
    slow_tasks,
)
from clusterkit.machine.restart import true_name
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Inspect
from clusterkit.words.events import KeepsUp, Look, Slowness, StepsTimed, StepTimes, Straggling, Vitals
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskState, TaskType

SHORT_INTERVAL = 2.0  # seconds between inspections once an inspection has shown a difference
LONG_INTERVAL = 15.0  # seconds between inspections that show no difference; an inspection costs some ms per task
AGREEING = 5  # the number of inspections that have to agree
SETTLING = 10.0  # seconds; a task is not compared for this long after its start, since it connects and compiles
CAUGHT_UP = 10  # how many inspections together must show no difference; high, since a busy host hides differences
QUIET = 60.0  # seconds after a task has caught up in which it is not reported again; doubled with each report
ANSWER_TIMEOUT = 60.0  # seconds until an unanswered inspection is abandoned
BRIEF_PHASE = 0.2  # seconds; an inspection with longer phases is ignored (some jobs save every few seconds)


@dataclass(slots=True)
class ReportedStraggler:
    """An attempt that was reported as slower than its peers, and when it was first seen to be slower."""

    attempt: int
    slowness: Slowness
    since: float


@dataclass(slots=True)
class StragglerMonitor:
    """Reports a task that is persistently slower than its peers, and reports when the task has caught up.

    Inspections are requested only after a reported step, so a stall causes no inspections. Tasks are not compared
    during a phase without steps, while a task that reports steps is paused, or while any task is held in the debugger.
    A task that has just started is not compared with the others.
    """

    state: ClusterState
    ending: Ending
    observations: deque[Observation] = field(default_factory=lambda: deque(maxlen=CAUGHT_UP))
    step_times: dict[Task, StepTimes] = field(default_factory=dict)  # step times of workers since the last inspection
    reported: dict[Task, ReportedStraggler] = field(default_factory=dict)
    report_counts: dict[Task, int] = field(default_factory=dict)  # how often each task was reported as slow
    quiet_until: dict[Task, float] = field(default_factory=dict)
    requested_at: float | None = None  # when the pending inspection was requested
    interrupted_at: float = 0.0  # when training was last interrupted
    phase_seconds: float = 0.0  # seconds of finished phases since the last inspection was requested
    phase_since: float | None = None
    frequent: int = 0  # the number of remaining inspections at short intervals

    _peers: tuple[JobSpec, Peers] | None = None

    @property
    def peers(self) -> Peers:
        """Return the tasks to compare, except the workers that were given up."""
        if self._peers is None or self._peers[0] is not self.state.job:
            self._peers = self.state.job, peers_of(self.state.job)
        return self._peers[1]

    def progressed(self) -> None:
        """Schedule an inspection of the tasks, since training has completed a step."""
        timers, now = self.state.timers, self.state.now
        is_pending = self.requested_at is not None and now < self.requested_at + ANSWER_TIMEOUT
        if not is_pending and not timers.is_set(Timer.STRAGGLER) and len(self.peers.tasks) > 1:
            timers.set(Timer.STRAGGLER, now + (SHORT_INTERVAL if self.frequent or self.reported else LONG_INTERVAL))

    def add_step_times(self, event: StepsTimed) -> None:
        """Add the workers' step times that a coordinator has reported."""
        for task, times in ((true_name(task, self.state.omitted), times) for task, times in event.workers.items()):
            if task in self.state.records:
                previous = self.step_times.get(task, StepTimes(0, 0.0))
                self.step_times[task] = StepTimes(previous.count + times.count, previous.seconds + times.seconds)

    def on_timer(self) -> None:
        """Request an inspection of the tasks, unless they are doing something other than training."""
        if self.ending.begun:
            return
        if self._is_interrupted() or self._is_in_phase():
            self.interrupt()
        else:
            self.requested_at, self.phase_seconds, self.phase_since = self.state.now, 0.0, None
            self.state.actions.append(Inspect(Look.PACE))

    def interrupt(self) -> None:
        """Note an interruption of training: measurements during the interruption are ignored."""
        self.interrupted_at = self.state.now
        self.step_times.clear()

    def phase_changed(self) -> None:
        """Note that a task began or ended a phase without steps. A brief phase does not void the measurements."""
        if self._is_in_phase():
            self.phase_since = self.state.now if self.phase_since is None else self.phase_since
        elif self.phase_since is not None:
            if self.state.now - self.phase_since > BRIEF_PHASE:
                self.step_times.clear()
            self.phase_seconds, self.phase_since = self._phase_seconds(), None

    def exited(self, record: TaskRecord) -> None:
        """Forget the measurements and the report of an attempt that ended."""
        self.reported.pop(record.task, None)
        for observation in self.observations:
            observation.paces.pop(record.task, None)

    def evaluate(self, vitals: Mapping[Task, Vitals]) -> None:
        """Evaluate an inspection, and report the tasks that are slower than their peers or have caught up."""
        requested_at, self.requested_at = self.requested_at, None
        steps, self.step_times = self.step_times, {}
        if requested_at is None or self.ending.begun or self._is_interrupted() or self.interrupted_at >= requested_at:
            return
        if self._phase_seconds() > BRIEF_PHASE:
            return
        settled = {record.task for record in self.state.alive() if self._is_settled(record)}
        paces = {task: of.pace for task, of in vitals.items() if of.pace is not None and task in settled}
        observation = Observation(
            requested_at, paces, {task: times for task, times in steps.items() if task in settled}
        )
        self.observations.append(observation)
        self.frequent = AGREEING if shows_slow_task(observation, self.peers) else max(0, self.frequent - 1)
        self._report_caught_up()
        if len(self.observations) >= AGREEING:
            for task, finding in slow_tasks(self._recent(), self.peers).items():
                self._report_slow(self.state.records[task], finding)

    def _report_slow(self, record: TaskRecord, finding: Deviation) -> None:
        task, now = record.task, self.state.now
        if task in self.reported or now < self.quiet_until.get(task, now):
            return
        since = self._slow_since(task, finding.slowness)
        slowness, factor, _, why = finding
        self.reported[task] = ReportedStraggler(record.attempt, slowness, since)
        self.report_counts[task] = self.report_counts.get(task, 0) + 1
        self.state.record(Straggling(task, record.attempt, slowness, round(factor, 2), round(now - since, 1), why))

    def _slow_since(self, task: Task, slowness: Slowness) -> float:
        """Return when an inspection first showed the slowness."""
        observations = self._recent()
        findings = (
            (observation.at, compare([observation], self.peers, slowness).finding(task)) for observation in observations
        )
        return next((at for at, found in findings if found and found.is_slow(PARTIAL_SHARE)), observations[0].at)

    def _recent(self) -> list[Observation]:
        return [*self.observations][-AGREEING:]

    def _report_caught_up(self) -> None:
        """Report the slow tasks that have caught up with their peers."""
        recent, peers = [*self.observations], self.peers
        for task, report in list(self.reported.items()):
            found = compare(recent, peers, report.slowness).finding(task)
            if found is not None and not found.is_slow(PARTIAL_SHARE):
                del self.reported[task]
                self.quiet_until[task] = self.state.now + QUIET * 2 ** (self.report_counts[task] - 1)
                self.state.record(KeepsUp(task, report.attempt, round(self.state.now - report.since, 1)))

    def _phase_seconds(self) -> float:
        """Return the total seconds in phases without steps since the last inspection was requested."""
        return self.phase_seconds + (0.0 if self.phase_since is None else self.state.now - self.phase_since)

    def _is_in_phase(self) -> bool:
        return any(self.state.records[task].phases for task in self.state.job.steppers)

    def _is_interrupted(self) -> bool:
        """Return whether a task is paused or held in the debugger, or no step has been completed yet."""
        if self.state.full_holds.current or self.state.records[self.state.job.leader].first_step is None:
            return True
        return any(self.state.records[task].paused_by for task in self.state.job.steppers)

    def _is_settled(self, record: TaskRecord) -> bool:
        """Return whether the task is running, not paused, and started long enough ago to be compared."""
        if record.state is not TaskState.RUNNING or record.paused_by or record.spawned is None:
            return False
        return self.state.now - record.spawned >= SETTLING


def peers_of(job: JobSpec) -> Peers:
    """Return the tasks to compare. Stops are compared among all tasks, work only among tasks that do the same work."""
    if job.shape is Shape.SINGLE:
        return Peers((), (), gang=False)
    gang = job.shape is Shape.MULTI_WORKER
    alike = [task for task in job.training if gang or job.is_server(task)]
    return Peers([task for task in job.tasks if task.type is not TaskType.EVALUATOR], alike, gang)
