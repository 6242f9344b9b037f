"""Runs the job for an exam, reads the recordings, and compares metrics with those of an uninterrupted run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from clusterkit.chaos.invariants import Measure, baseline_of, last_metrics
from clusterkit.chaos.model import Baseline
from clusterkit.chaos.trial import NEVER_FAULT, FinishedRun, Trials
from clusterkit.exam.breaking import Interrupter, Interruption
from clusterkit.exam.leftovers import written_tables
from clusterkit.exam.model import ExamFinding
from clusterkit.exam.recording import Recording
from clusterkit.exam.recordings import by_task, recordings
from clusterkit.exam.tables import Table
from clusterkit.job.options import Options
from clusterkit.text.printable import printable
from clusterkit.views.tracebacks import cause_lines
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.outcome import RunState
from clusterkit.words.reports import PhaseReached

STEPS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)  # the steps after which tasks record their state
MOST_CHECKPOINTS = 20  # tasks also record their state at the steps of up to this many checkpoints and ends of epochs
WIDTH = 200  # columns; longer lines of an error message are shortened
SPREAD = 3.0  # how much a metric may differ, as a multiple of the difference between two uninterrupted runs


@dataclass(slots=True)
class ExaminedRun(FinishedRun):
    """A finished run and the recordings of its tasks' last attempts.

    `missed_breaks` is the reason why an interruption or a fault did not take place; "" if nothing was missed. `tables`
    are the tables that the run has written, as they were when it ended.
    """

    tasks: Sequence[Recording] = ()
    missed_breaks: str = ""
    tables: Mapping[str, Table] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        return self.run.run_id

    @property
    def state(self) -> RunState | None:
        """The final state of the run; None if the run left no result."""
        return None if self.result is None else self.result.state

    def phases(self, task: Task | None = None, attempt: int | None = None) -> set[str]:
        """Return the phases that a task has reached in an attempt. None stands for any task or any attempt."""
        reached = (event for _, event in self.events if isinstance(event, PhaseReached))
        return {e.phase for e in reached if task in (None, e.task) and attempt in (None, e.attempt)}

    @property
    def failure_text(self) -> str:
        """The reason for the failure, an explanation or the last line of the error, and the path of the task's log."""
        result = self.result
        if result is None or result.cause is None:
            return "; ".join(self.why).rstrip(".")
        more = [str(one).rstrip(".") for one in result.explanations[:1]]
        if not more and result.cause.exception is not None:
            more = [printable(line) for line in cause_lines(result.cause.tail, WIDTH)[-1:]]
        log = self.run.log(result.cause.task, result.cause.attempt)
        return "; ".join([*(one.rstrip(".") for one in self.why), *more, f"its log: {log}"])


class ExamRuns:
    """Runs the job for an exam, each time with the same seed."""

    def __init__(self, trials: Trials, name: str, seed: int) -> None:
        self.trials, self.name, self.seed = trials, name, seed
        self.baseline = Baseline(0.0)
        self.epoch_ends: tuple[int, ...] = ()  # the last step of each epoch of `fit`, where Keras's callbacks save
        self.tables: Mapping[str, Table] = {}  # the tables of the first uninterrupted run
        self.started: list[str] = []  # the ids of the exam's runs
        self._spread = 0.0  # the difference between the metrics of two uninterrupted runs

    @property
    def job(self) -> JobSpec:
        return self.trials.template.job

    @property
    def is_synchronous(self) -> bool:
        """Whether two runs can end with equal values. Asynchronous training with parameter servers prevents this."""
        return self.job.shape is not Shape.PARAMETER_SERVER

    def run(
        self, name: str, changes: Options, *breaks: Interruption, fault: str = "", words: Sequence[str] = ()
    ) -> ExaminedRun:
        """Run the job with the interruptions `breaks` and the fault `fault`. The list `words` is added to --record."""
        recorded = [*self._steps(), *words, *(one.hold for one in breaks)]
        # While a fault is waiting for a step, tasks report every step immediately. NEVER_FAULT is never injected, so
        # tasks do this for the whole run.
        faults = [NEVER_FAULT, *([fault] if fault else [])]
        common: Options = {"record": ",".join(recorded), "seed": self.seed, "fault": faults}
        self.started.append(f"{self.name}-{name}")
        breaking = Interrupter(breaks, self.job.limits.grace, not self.is_synchronous)
        run = self.trials.run_job(f"{self.name}-{name}", {**common, **changes}, breaking)
        missed = breaking.missed_breaks
        for one in () if run.result is None else run.result.not_injected:
            missed = missed or (one.why if one.fault in faults[1:] else "")
        attempts = recordings(run.run.recorded)
        tables = written_tables(attempts.values(), run.run.path.parent)
        return ExaminedRun(run.run, run.result, run.events, run.problems, by_task(attempts), missed, tables)

    def set_baseline(self, unbroken: ExaminedRun) -> None:
        """Use an uninterrupted run as the baseline for later runs."""
        assert unbroken.result is not None
        self.baseline = baseline_of(unbroken.result, unbroken.events)
        self.tables = unbroken.tables
        leader = self.leader(unbroken)
        self.epoch_ends = () if leader is None else tuple(leader.epoch_ends.values())
        self.trials.limit(self.baseline.duration)

    def allow_variation(self, again: ExaminedRun) -> None:
        """Use a second uninterrupted run to determine how much metrics may differ."""
        self._spread = self._metric_distance(again) or 0.0

    def leader(self, examined: ExaminedRun) -> Recording | None:
        """Return the recording of the leader or, if there is no such recording, that of the first task.

        If no task has a recording, return None.
        """
        return next((one for one in examined.tasks if one.task == self.job.leader), next(iter(examined.tasks), None))

    def metric(self, examined: ExaminedRun) -> Iterator[ExamFinding]:
        """Yield a finding if a run's metric differs too much from the baseline's metric."""
        name, apart = Measure().metric_in(self.baseline), self._metric_distance(examined)
        if name is None or apart is None:
            return
        expected = self.baseline.metrics[name]
        allowed = max(Measure().allowed(name, expected), SPREAD * self._spread)
        if apart > allowed:
            away = f"{apart:.4g} away from the unbroken run's {expected:.4g}"
            yield ExamFinding("result-differs", f"The final {name} is {away}; {allowed:.4g} is allowed.")

    def _metric_distance(self, examined: ExaminedRun) -> float | None:
        """Return how much a run's metric differs from the baseline's metric; None if one of the metrics is unknown."""
        name = Measure().metric_in(self.baseline)
        value = None if name is None else last_metrics(examined.events).get(name)
        return None if name is None or value is None else abs(value - self.baseline.metrics[name])

    def _steps(self) -> list[str]:
        saved = sorted({*self.baseline.checkpoints, *self.epoch_ends})
        return [*map(str, sorted({*STEPS, *saved[:MOST_CHECKPOINTS]}))]


def workers_of(job: JobSpec) -> int:
    """Return the number of workers that train. A gang's chief counts as a worker, but a coordinator does not."""
    has_servers = job.shape is Shape.PARAMETER_SERVER
    return job.counts.get(TaskType.WORKER, 0) if has_servers else len(job.steppers)


def with_workers(job: JobSpec, workers: int) -> Options:
    """Return the options that give the job this number of workers."""
    if job.shape is Shape.PARAMETER_SERVER or not job.counts.get(TaskType.CHIEF):
        return {"workers": workers}
    return {"workers": 1, "chief": False} if workers == 1 else {"workers": workers - 1}
