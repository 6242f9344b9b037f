"""Runs the job for an exam, reads the recordings, and compares metrics with those of an uninterrupted run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import cast

from clusterkit.chaos.invariants import Measure, baseline_of, last_metrics
from clusterkit.chaos.model import Baseline, Timed
from clusterkit.chaos.trial import During, FinishedRun, Trials
from clusterkit.exam.breaking import FirstRunWatcher, Interrupter, Interruption
from clusterkit.exam.equality import draws
from clusterkit.exam.leftovers import written_tables
from clusterkit.exam.model import ExamFinding
from clusterkit.exam.pace import FirstRun, shortened
from clusterkit.exam.recording import DEFERRED, NUDGE, Recording, following
from clusterkit.exam.recordings import by_task, recordings
from clusterkit.exam.tables import Table
from clusterkit.job.options import Options
from clusterkit.store.directory import RunDirectory
from clusterkit.store.usage import UsageReader
from clusterkit.text.printable import printable
from clusterkit.views.tracebacks import cause_lines
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.outcome import RunState
from clusterkit.words.reports import PhaseReached

STEPS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)  # the steps after which tasks record their state
MOST_CHECKPOINTS = 20  # tasks also record their state at the steps of up to this many checkpoints and ends of epochs
WIDTH = 200  # columns; longer lines of an error message are shortened
USUAL_MEMORY = 800e6  # bytes; what a task with TensorFlow uses if it was not measured
BACKOFF = 0.1  # seconds; the backoff of a task that has died before its first step
LONGEST_ID = 64  # letters; the maximum length of a run id
SPREAD = 3.0  # how much a metric may differ, as a multiple of the difference between two uninterrupted runs


@dataclass(slots=True)
class ExaminedRun(FinishedRun):
    """A finished run and the recordings of its tasks' last attempts.

    `missed_breaks` is the reason why an interruption or a fault did not take place; "" if nothing was missed. `tables`
    are the tables that the run has written, as they were when it ended. `attempts` are the recordings of all attempts.
    """

    tasks: Sequence[Recording] = ()
    missed_breaks: str = ""
    tables: Mapping[str, Table] = field(default_factory=dict)
    attempts: Mapping[tuple[Task, int], Recording] = field(default_factory=dict)

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
    def draws(self) -> bool:
        """Whether the program draws random numbers in training, judging by its last recorded states."""
        return draws([replace(one, end=one.end or one.states.get(max(one.states, default=-1))) for one in self.tasks])

    def used(self) -> tuple[float, float]:
        """Return how many cores the run kept busy on average, and the most bytes of memory that its tasks used.

        A run that ended before its use was measured counts with half a core and USUAL_MEMORY bytes for each task.
        """
        samples = UsageReader(self.run.usage).new()
        if not samples:
            return len(self.tasks) / 2, len(self.tasks) * USUAL_MEMORY
        cores = [sum(percent for percent, _ in sample.tasks.values()) / 100 for sample in samples]
        memory = [sum(used for _, used in sample.tasks.values()) for sample in samples]
        return sum(cores) / len(cores), max(memory)

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

    def __init__(self, trials: Trials, name: str, seed: int, durations: dict[str, float]) -> None:
        self.trials, self.name, self.seed = trials, name, seed
        self.baseline = Baseline(0.0)
        self.last: int | None = None  # the step after which all runs are ended; None stands for the program's own end
        self.epoch_ends: tuple[int, ...] = ()  # the last step of each epoch of `fit`, where Keras's callbacks save
        self.tables: Mapping[str, Table] = {}  # the tables of the first uninterrupted run
        self.started: list[str] = []  # the ids of the exam's runs
        self.alone_args: tuple[str, ...] = ()  # arguments that the program gets besides where one worker runs it
        self._durations = durations  # the wall seconds that each run took, by its id
        self._unbroken: Timed = ()  # the events of an uninterrupted run
        self._shared: dict[str, Future[ExaminedRun]] = {}  # the runs that `shared` has started, by name
        self._lock = threading.Lock()
        # How many functions the coordinator schedules without an interruption; None if there is no such number.
        self.scheduled: int | None = None
        self._spread = 0.0  # the difference between the metrics of two uninterrupted runs

    @property
    def job(self) -> JobSpec:
        return self.trials.template.job

    @property
    def is_synchronous(self) -> bool:
        """Whether two runs can end with equal values. Asynchronous training with parameter servers prevents this."""
        return self.job.shape is not Shape.PARAMETER_SERVER

    @property
    def words_of_resuming(self) -> Sequence[str]:
        """The words of --record in runs of which the exam compares what a program continues with what it had saved."""
        return () if self.is_synchronous else (DEFERRED,)

    def first(self, changes: Options, allowance: float) -> ExaminedRun:
        """Run the job without an interruption. From its first step on, it may train for `allowance` seconds.

        If a run to its end would take too long, the run is ended as soon as it has shown enough, and `last` is set.
        """
        watcher = FirstRunWatcher(FirstRun(allowance), self.job.limits.grace, self._is_recorded)
        examined = self._run("unbroken", {**self._options(self._steps()), **changes}, watcher)
        if not watcher.has_ended_it:
            return examined
        self.last = min(recording.last_step or 0 for recording in examined.tasks)
        return examined

    def run(
        self,
        name: str,
        changes: Options,
        *breaks: Interruption,
        fault: str = "",
        words: Sequence[str] = (),
        last: int | None = None,
    ) -> ExaminedRun:
        """Run the job with the interruptions `breaks` and the fault `fault`. The list `words` is added to --record.

        If `last` is given, the run is ended after this step.
        """
        ends = [step for step in (last, self.last) if step is not None]
        recorded = [*self._steps(), *words, *(one.hold for one in breaks), *(f"until={min(ends)}" for _ in ends[:1])]
        options = self._options(recorded, *([fault] if fault else []))
        breaking = Interrupter(breaks, self.job.limits.grace, not self.is_synchronous)
        examined = self._run(name, {**options, **changes}, breaking)
        examined.missed_breaks = breaking.missed_breaks
        for one in () if examined.result is None else examined.result.not_injected:
            examined.missed_breaks = examined.missed_breaks or (one.why if one.fault == fault else "")
        return examined

    def shared(self, name: str, run: Callable[[], ExaminedRun]) -> ExaminedRun:
        """Return the run with this name. The first caller runs it with `run`; others wait until that run has ended."""
        with self._lock:
            known = self._shared.get(name)
            future = self._shared.setdefault(name, Future())
        if known is None:
            try:
                future.set_result(run())
            except BaseException as error:
                future.set_exception(error)
                raise
        return future.result()

    def _options(self, recorded: Sequence[str], *faults: str) -> Options:
        # Tasks report every step at once, as while a fault waits for a step: then all runs report at the same moments.
        return {"record": ",".join(recorded), "seed": self.seed, "fault": faults, "every_step": True}

    def _run(self, name: str, options: Options, during: During) -> ExaminedRun:
        with self._lock:
            run_id = run_id_of(self.name, name, len(self.started))
            self.started.append(run_id)
        began = time.monotonic()
        run = self.trials.run_job(run_id, options, during)
        self._durations[run_id] = time.monotonic() - began
        attempts = recordings(run.run.recorded)
        tables = written_tables(attempts.values(), run.run.path.parent)
        tasks = by_task(attempts)
        return ExaminedRun(run.run, run.result, run.events, run.problems, tasks, tables=tables, attempts=attempts)

    def _is_recorded(self, run: RunDirectory) -> bool:
        """Return whether the tasks that train have recorded at least two steps, and the states after some of them."""
        tasks = by_task(recordings(run.recorded))
        return bool(tasks) and all(one.states and (one.last_step or 0) > 1 for one in tasks)

    def restarts(self, number: int) -> Options:
        """Return options that allow this number of restarts, with a short backoff, unless the user has set these.

        A longer backoff would only cost time: nothing else on this machine has to recover.
        """
        options = self.trials.template.options
        own: Options = {} if "restart_backoff" in options else {"restart_backoff": BACKOFF}
        return {**own, **self.trials.restart_budget(number)}

    def alone(self) -> Options:
        """Return the options of the run with one worker that is compared with several."""
        options = with_workers(self.job, 1)
        if not self.alone_args:
            return options
        return cast(Options, {**options, "args": (*self.job.program.args, *self.alone_args)})

    def rerun(self, several: ExaminedRun, words: Sequence[str], more: str, nudged: bool) -> Recording | None:
        """Run one worker that follows a run of several: see `clusterkit.exam.equality.Rerun`.

        `more` is added to the name of the run.
        """
        leader = self.leader(several)
        if leader is None:
            return None
        name = f"{'nudged' if nudged else 'followed'}-{len(several.tasks)}-workers{more}"
        asked = [following(several.run_id, leader), *([NUDGE] if nudged else [])]
        followed = self.run(name, self.alone(), words=[*words, *asked])
        return self.leader(followed) if followed.has_succeeded else None

    def set_baseline(self, unbroken: ExaminedRun) -> None:
        """Use an uninterrupted run as the baseline for later runs."""
        assert unbroken.result is not None
        self._unbroken = unbroken.events
        self.baseline = baseline_of(unbroken.result, unbroken.events)
        if self.last is not None:
            self.baseline = shortened(self.baseline, unbroken.events, self.last)
        self.tables = unbroken.tables
        leader = self.leader(unbroken)
        self.epoch_ends = () if leader is None else tuple(leader.epoch_ends.values())
        self.trials.limit(self.baseline.duration)

    def baseline_until(self, last: int | None) -> Baseline:
        """Return the baseline of a run that is ended after the step `last`; None stands for the program's own end."""
        return self.baseline if last is None else shortened(self.baseline, self._unbroken, last)

    def allow_variation(self, unbroken: ExaminedRun, again: ExaminedRun) -> None:
        """Use a second uninterrupted run to determine how much metrics may differ, and what is the same in each run."""
        self._spread = _metric_distance(self.baseline, again) or 0.0
        first, second = self.leader(unbroken), self.leader(again)
        if first is not None and second is not None and first.scheduled == second.scheduled:
            self.scheduled = first.scheduled

    def leader(self, examined: ExaminedRun) -> Recording | None:
        """Return the recording of the leader or, if there is no such recording, that of the first task.

        If no task has a recording, return None.
        """
        return next((one for one in examined.tasks if one.task == self.job.leader), next(iter(examined.tasks), None))

    def metric(self, examined: ExaminedRun, last: int | None = None) -> Iterator[ExamFinding]:
        """Yield a finding if a run's metric differs too much from the baseline's metric.

        If `last` is given, the run was ended after this step, and the baseline's metric is that after its last step.
        """
        baseline = self.baseline
        if last is not None and examined.result is not None:
            baseline = self.baseline_until(examined.result.last_step)
        name, apart = Measure().metric_in(baseline), _metric_distance(baseline, examined)
        if name is None or apart is None:
            return
        expected = baseline.metrics[name]
        allowed = max(Measure().allowed(name, expected), SPREAD * self._spread)
        if apart > allowed:
            away = f"{apart:.4g} away from the unbroken run's {expected:.4g}"
            yield ExamFinding("result-differs", f"The final {name} is {away}; {allowed:.4g} is allowed.")

    def recorded_steps(self) -> list[int]:
        """Return the steps after which the tasks of later runs record their state."""
        last = [] if self.last is None else [self.last]
        saved = sorted({*self.baseline.checkpoints, *self.epoch_ends})
        return sorted({*STEPS, *saved[:MOST_CHECKPOINTS], *last})

    def _steps(self) -> list[str]:
        return [*map(str, self.recorded_steps())]


def _metric_distance(baseline: Baseline, examined: ExaminedRun) -> float | None:
    """Return how much a run's metric differs from the baseline's metric; None if one of the metrics is unknown."""
    name = Measure().metric_in(baseline)
    value = None if name is None else last_metrics(examined.events).get(name)
    return None if name is None or value is None else abs(value - baseline.metrics[name])


def run_id_of(exam: str, name: str, number: int) -> str:
    """Return the id of a run of an exam. A name that is too long for an id is shortened, and has the number at its end.

    `number` is that of the exam's runs so far, so that no two ids are equal.
    """
    run_id = f"{exam}-{name}"
    if len(run_id) <= LONGEST_ID:
        return run_id
    end = f"-{number}"
    return run_id[: LONGEST_ID - len(end)].rstrip("-") + end


def workers_of(job: JobSpec) -> int:
    """Return the number of workers that train. A gang's chief counts as a worker, but a coordinator does not."""
    has_servers = job.shape is Shape.PARAMETER_SERVER
    return job.counts.get(TaskType.WORKER, 0) if has_servers else len(job.steppers)


def with_workers(job: JobSpec, workers: int) -> Options:
    """Return the options that give the job this number of workers."""
    if job.shape is Shape.PARAMETER_SERVER or not job.counts.get(TaskType.CHIEF):
        return {"workers": workers}
    return {"workers": 1, "chief": False} if workers == 1 else {"workers": workers - 1}
