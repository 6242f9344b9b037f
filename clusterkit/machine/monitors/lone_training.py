"""Detects tasks that have peers but train alone: the job may succeed, but its training is not distributed."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Inspect
from clusterkit.words.distribution import DTENSOR, SPANS_TASKS, Training, Undistributed, WhyAlone
from clusterkit.words.events import Look, TrainAlone, TrainsWith
from clusterkit.words.job import Convention, RestartScope
from clusterkit.words.model import Shape, TaskType
from clusterkit.words.outcome import Reservation

PATIENCE = 5.0  # seconds from a task's first step to the inspection of the tasks' ports


@dataclass(slots=True)
class LoneTraining:
    """Warns once about tasks that train alone, and reports at the end whether any task trained alone.

    The evidence is what the tasks' runtimes report; a program that does not train with TensorFlow reports nothing. A
    task with an open port is not regarded as training alone. Jobs whose tasks restart alone, and jobs with --allow
    alone, are not examined: their tasks are meant to be independent.
    """

    state: ClusterState
    warned: bool = False
    finding: Undistributed | None = None
    inspection_pending: bool = False  # True while the answer to a requested inspection is pending

    def trains_with(self, record: TaskRecord, event: TrainsWith) -> None:
        record.trains_with = event
        self.schedule_inspection(record)

    def schedule_inspection(self, record: TaskRecord) -> None:
        """Schedule an inspection if the task, which has just reported on its training, may be training alone."""
        if not self.warned and _trains(record) and _why_alone(record) and self._applies():
            timers = self.state.timers
            if not timers.is_set(Timer.LONE_TRAINING) and not self.inspection_pending:
                timers.set(Timer.LONE_TRAINING, self.state.now + PATIENCE)

    def on_timer(self) -> None:
        """Request an inspection of the tasks' ports, after tasks have trained for a while."""
        self.inspection_pending = True
        self.state.actions.append(Inspect())

    def inspected(self, look: Look) -> None:
        if self.inspection_pending and look is Look.GLANCE:
            self.inspection_pending = False
            self.judge()

    def judge(self) -> Undistributed | None:
        """Find the tasks that train alone, and warn about the first finding. Return the newest finding, or None."""
        if not self._applies():
            return None
        records = [self.state.records[task] for task in self.state.job.tasks if task.type is not TaskType.EVALUATOR]
        is_distributed = any(record.trains_with is not None and record.trains_with.distributed for record in records)
        if is_distributed and not any(_has_other_fit(record) for record in records):
            self.finding = None
        elif found := self._find(records):
            self.finding = found
            if not self.warned:
                self.warned = True
                self.state.record(TrainAlone(found))
        return self.finding

    def _applies(self) -> bool:
        job = self.state.job
        other = job.convention is not Convention.TENSORFLOW or job.restart.scope is RestartScope.TASK
        return job.shape is not Shape.SINGLE and not other and Reservation.ALONE not in job.allow

    def _find(self, records: list[TaskRecord]) -> Undistributed | None:
        """Return the tasks that train alone; None unless all training tasks, including the leader, train alone.

        In a gang, at least two tasks have to train alone. If the leader's program never calls its main(), return all
        tasks whose programs never call their main().
        """
        job = self.state.job
        uncalled = tuple(record.task for record in records if _is_uncalled(record))
        if job.leader in uncalled:
            return Undistributed(uncalled, WhyAlone.UNCALLED)
        alone = [(record, why) for record in records if _trains(record) and (why := _why_alone(record))]
        has_leader = any(record.task == job.leader for record, _ in alone)
        if not has_leader or (job.shape is Shape.MULTI_WORKER and len(alone) < 2):
            return None
        if len(alone) < sum(map(_trains, records)):
            return None
        reports = [record.trains_with for record, _ in alone]
        strategies = dict.fromkeys(name for report in reports if report is not None for name in report.strategies)
        tasks, has_ps = tuple(record.task for record, _ in alone), job.shape is Shape.PARAMETER_SERVER
        place = next((report.outside for report in reports if report is not None), "")
        return Undistributed(tasks, alone[0][1], tuple(strategies), has_ps, place)


def _trains(record: TaskRecord) -> bool:
    """Return whether the task is training something by itself: it reports steps, or has called `fit`.

    Loops with DTensor report no steps. A program that makes a mesh and takes gradients trains.
    """
    report = record.trains_with
    calls_fit = report is not None and report.training in (Training.SCOPED, Training.FIT)
    loops = report is not None and report.training is Training.LOOP and DTENSOR in report.strategies
    return calls_fit or loops or record.first_step is not None


def _is_uncalled(record: TaskRecord) -> bool:
    """Return whether the task's program has ended without calling its main()."""
    report, ok = record.trains_with, record.exit is not None and record.exit.ok
    return ok and report is not None and report.training is Training.UNCALLED


def _has_other_fit(record: TaskRecord) -> bool:
    """Return whether the task's program was distributed, but also called `fit` of a model outside every scope."""
    report = record.trains_with
    if report is None or not report.outside or report.cluster == 0:
        return False
    has_strategy = any(name in SPANS_TASKS for name in report.strategies)
    return has_strategy and (report.distributed or report.training is Training.SCOPED)


def _why_alone(record: TaskRecord) -> WhyAlone | None:
    """Return why the task's training is not shared with its peers; None if it may be shared."""
    report = record.trains_with
    if _has_other_fit(record):
        return WhyAlone.ONE_FIT
    if report is None or report.distributed or report.training in (Training.NONE, Training.UNCALLED):
        return None
    if report.cluster == 0:
        return None if record.port_was_open else WhyAlone.NEVER_CONNECTED
    has_strategy = any(name in SPANS_TASKS for name in report.strategies)
    return WhyAlone.NO_SCOPE if has_strategy and report.training is Training.FIT else None
