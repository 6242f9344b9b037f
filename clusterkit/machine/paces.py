"""Inspects how training tasks spend their time, and detects which of them are slower than their peers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.ending import Ending
from clusterkit.machine.restart import true_name
from clusterkit.machine.straggler import PATIENCE, Deviation, Observation, Peers, compared, hints, slower
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Inspect
from clusterkit.words.events import KeepsUp, Look, Slowness, StepsTimed, StepTimes, Straggling, Vitals
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskState, TaskType

EVERY = 2.0  # seconds between two inspections, once an inspection has shown a difference
CALM = 15.0  # seconds between two inspections until one shows a difference; each costs the supervisor some ms per task
LOOKS = 5  # the number of inspections that have to agree
SETTLING = 10.0  # seconds after a start in which a task is not compared, since it connects and compiles
OVER = 10  # inspections without a difference until a task has caught up; many, since a busy host hides differences
QUIET = 60.0  # seconds between two reports of the same task; doubled with each report
UNANSWERED = 60.0  # seconds until an unanswered inspection is abandoned
BRIEF = 0.2  # seconds; an inspection with longer phases is ignored (some jobs save every few seconds)


@dataclass(slots=True)
class ReportedStraggler:
    """An attempt that was reported as slower than its peers, and since when it is slower."""

    attempt: int
    slowness: Slowness
    since: float


@dataclass(slots=True)
class Paces:
    """Reports a task that is persistently slower than its peers, and reports when the task has caught up.

    Inspections are requested after a reported step, so there are none while training makes no steps. Only training
    is compared: no phases without steps, no starts, and no tasks that are paused or in the debugger.
    """

    state: ClusterState
    ending: Ending
    sights: deque[Observation] = field(default_factory=lambda: deque(maxlen=OVER))
    steps: dict[Task, StepTimes] = field(default_factory=dict)  # step times of workers since the last inspection
    named: dict[Task, ReportedStraggler] = field(default_factory=dict)
    times: dict[Task, int] = field(default_factory=dict)  # how often each task was reported as slow
    quiet_until: dict[Task, float] = field(default_factory=dict)
    asked_at: float | None = None  # when the pending inspection was requested
    disturbed_at: float = 0.0  # when training was last interrupted
    away: float = 0.0  # seconds of finished phases since the last inspection was requested
    away_since: float | None = None
    closely: int = 0  # remaining inspections at short intervals

    _peers: tuple[JobSpec, Peers] | None = None

    @property
    def peers(self) -> Peers:
        """Return the tasks to compare, without the workers that were given up."""
        if self._peers is None or self._peers[0] is not self.state.job:
            self._peers = self.state.job, peers_of(self.state.job)
        return self._peers[1]

    def progressed(self) -> None:
        """Schedule an inspection of the tasks, since training makes steps."""
        timers, now = self.state.timers, self.state.now
        waits = self.asked_at is not None and now < self.asked_at + UNANSWERED
        if not waits and not timers.is_set(Timer.PACE) and len(self.peers.every) > 1:
            timers.set(Timer.PACE, now + (EVERY if self.closely or self.named else CALM))

    def timed(self, event: StepsTimed) -> None:
        """Add the times of the steps of a coordinator's workers."""
        for task, times in ((true_name(task, self.state.known), times) for task, times in event.workers.items()):
            if task in self.state.records:
                before = self.steps.get(task, StepTimes(0, 0.0))
                self.steps[task] = StepTimes(before.count + times.count, before.seconds + times.seconds)

    def due(self) -> None:
        """Request an inspection of the tasks, unless they do something other than training."""
        if self.ending.begun:
            return
        if self._is_interrupted() or self._is_in_phase():
            self.disturb()
        else:
            self.asked_at, self.away, self.away_since = self.state.now, 0.0, None
            self.state.out.append(Inspect(Look.PACE))

    def disturb(self) -> None:
        """Note an interruption of training: measurements during the interruption are ignored."""
        self.disturbed_at = self.state.now
        self.steps.clear()

    def phase_changed(self) -> None:
        """Note that a task began or ended a phase without steps. Measurements of a brief phase are used."""
        if self._is_in_phase():
            self.away_since = self.state.now if self.away_since is None else self.away_since
        elif self.away_since is not None:
            if self.state.now - self.away_since > BRIEF:
                self.steps.clear()
            self.away, self.away_since = self._away(), None

    def exited(self, record: TaskRecord) -> None:
        """Forget the measurements and the report of an attempt that ended."""
        self.named.pop(record.task, None)
        for sight in self.sights:
            sight.paces.pop(record.task, None)

    def seen(self, vitals: Mapping[Task, Vitals]) -> None:
        """Evaluate an inspection, and report the tasks that are slower than their peers or have caught up."""
        asked, self.asked_at = self.asked_at, None
        steps, self.steps = self.steps, {}
        if asked is None or self.ending.begun or self._is_interrupted() or self.disturbed_at >= asked:
            return
        if self._away() > BRIEF:
            return
        settled = {record.task for record in self.state.alive() if self._is_settled(record)}
        paces = {task: of.pace for task, of in vitals.items() if of.pace is not None and task in settled}
        sight = Observation(asked, paces, {task: times for task, times in steps.items() if task in settled})
        self.sights.append(sight)
        self.closely = LOOKS if hints(sight, self.peers) else max(0, self.closely - 1)
        self._end()
        if len(self.sights) >= LOOKS:
            for task, finding in slower(self._newest(), self.peers).items():
                self._name(self.state.records[task], finding)

    def _name(self, record: TaskRecord, finding: Deviation) -> None:
        task, now = record.task, self.state.now
        if task in self.named or now < self.quiet_until.get(task, now):
            return
        since = self._since(task, finding.slowness)
        slowness, factor, _, why = finding
        self.named[task] = ReportedStraggler(record.attempt, slowness, since)
        self.times[task] = self.times.get(task, 0) + 1
        self.state.record(Straggling(task, record.attempt, slowness, round(factor, 2), round(now - since, 1), why))

    def _since(self, task: Task, slowness: Slowness) -> float:
        """Return when an inspection first showed the slowness."""
        sights = self._newest()
        findings = ((sight.at, compared([sight], self.peers, slowness).finding(task)) for sight in sights)
        return next((at for at, found in findings if found and found.is_slow(PATIENCE)), sights[0].at)

    def _newest(self) -> list[Observation]:
        return [*self.sights][-LOOKS:]

    def _end(self) -> None:
        """Report the slow tasks that have caught up with their peers."""
        recent, peers = [*self.sights], self.peers
        for task, named in list(self.named.items()):
            found = compared(recent, peers, named.slowness).finding(task)
            if found is not None and not found.is_slow(PATIENCE):
                del self.named[task]
                self.quiet_until[task] = self.state.now + QUIET * 2 ** (self.times[task] - 1)
                self.state.record(KeepsUp(task, named.attempt, round(self.state.now - named.since, 1)))

    def _away(self) -> float:
        """Return the seconds of phases since the last inspection was requested."""
        return self.away + (0.0 if self.away_since is None else self.state.now - self.away_since)

    def _is_in_phase(self) -> bool:
        return any(self.state.records[task].phases for task in self.state.job.steppers)

    def _is_interrupted(self) -> bool:
        """Whether a task is paused or held in the debugger, or no step was made yet."""
        if self.state.holds.tasks or self.state.records[self.state.job.leader].first_step is None:
            return True
        return any(self.state.records[task].paused_by for task in self.state.job.steppers)

    def _is_settled(self, record: TaskRecord) -> bool:
        """Whether the task has trained or served for long enough."""
        if record.state is not TaskState.RUNNING or record.paused_by or record.spawned is None:
            return False
        return self.state.now - record.spawned >= SETTLING


def peers_of(job: JobSpec) -> Peers:
    """Return the tasks to compare (all of a gang, or a coordinator's workers), and those to compare for stops."""
    if job.shape is Shape.SINGLE:
        return Peers((), (), gang=False)
    gang = job.shape is Shape.MULTI_WORKER
    alike = [task for task in job.training if gang or job.is_server(task)]
    return Peers([task for task in job.tasks if task.type is not TaskType.EVALUATOR], alike, gang)
