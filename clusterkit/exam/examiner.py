"""Examines a program: runs the job for each experiment of the plan, and yields the result of each cell."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from clusterkit.chaos.invariants import began_anew, violations
from clusterkit.chaos.schedule import SPARE_RESTARTS
from clusterkit.chaos.trial import Trials
from clusterkit.exam.clipping import cut_off, last_common
from clusterkit.exam.coordinator import continuation
from clusterkit.exam.equality import Rerun, compared
from clusterkit.exam.leftovers import shared_path, written_tables
from clusterkit.exam.model import (
    NOT_COMPARABLE,
    Cell,
    CellResult,
    Chapter,
    ExamFinding,
    Grade,
    Report,
    judge,
    not_reached,
)
from clusterkit.exam.pace import PART, StepPace, announcement, pace_of, runs_at_once
from clusterkit.exam.plan import (
    KILLED,
    REPEAT,
    Experiment,
    Reading,
    Repetition,
    StopAndResume,
    WorkerComparison,
    breadth_first,
    breaks,
    comparisons,
    quick_cells,
    readings,
    resumptions,
    second_fit_killed,
    wanted,
)
from clusterkit.exam.resume import (
    chance_note,
    differing_kinds,
    failed_continuation,
    repetition,
    resumption,
    resumption_by_others,
    shared_backup,
    step_of_second_fit,
    unsaved_draws,
)
from clusterkit.exam.runs import ExaminedRun, ExamRuns, with_workers, workers_of
from clusterkit.exam.scheduler import Done, Runs, Scheduler
from clusterkit.exam.survival import (
    POWER,
    SurvivalCell,
    old_checkpoint_findings,
    power_failure_findings,
    recovery_remedy,
    survival_cells,
    survival_findings,
    torn_export_findings,
    torn_file,
    why_unreachable,
)
from clusterkit.exam.tables import continued_documents, continued_tables, shared_tables
from clusterkit.exam.verdict import verdict
from clusterkit.ledger.ledger import ledger_of
from clusterkit.store.cleaning import find_leaks
from clusterkit.store.examined import note_cells
from clusterkit.system.memory import available_memory
from clusterkit.text.durations import compact
from clusterkit.text.printable import printable
from clusterkit.words.examined import ExaminedCell
from clusterkit.words.faults import FaultAction, Phase
from clusterkit.words.model import number_of
from clusterkit.words.outcome import RunState
from clusterkit.words.verification import Equality

SAVES_NOTHING = "the program saves no checkpoint, so that nothing can be resumed. One line saves them: "
SAVED_TOO_LATE = "the program saves no checkpoint until step {}, after which the runs are ended to keep to the budget"
ENDED_EARLY = "the runs are ended after step {}, to keep to the budget of {}"
IN_FIT, IN_A_LOOP = "callbacks=[training.Backup()] in fit", "training.Checkpointer(model=model) in a loop"
NO_STEPS = (
    "no steps were seen: the program runs none, or clusterkit can't observe them. One line reports them: "
    "training.report(step=step, loss=loss)"
)


TOO_LONG = (
    "it did not end within {:g} s. Have it train for fewer steps, or give the exam more time, as by --budget 30m."
)
NO_DROPOUT = "dropout and random layers were switched off, since several workers draw something else than one does"
HANGS = (
    "without memory the task hangs instead of failing, as Python may: https://github.com/python/cpython/issues/140746"
)
# What runs side by side write into one table could be told apart neither from each other nor from a mistake.
ONE_AT_A_TIME = "The program writes {}, which is not in its run's directory: one run is made at a time."
ALONE = "-alone"  # is added to the names of runs that are repeated while no other run is made
DISTURBED = "runs of this program disturb each other side by side; it was run alone, and so are the runs after it"


@dataclass(slots=True)
class Examiner:
    """An exam in progress. If `chosen` is not empty, only the cells with the names in `chosen` are examined."""

    trials: Trials
    report: Report
    until: float  # the monotonic time after which no more cells are examined
    longest: float = 0.0  # the timeout of the first run, in seconds; 0 stands for the job's own timeout
    chosen: frozenset[str] = frozenset()
    quick: bool = False  # True to inject one fault in each phase
    disk: bool = False  # True if this machine can simulate a full disk
    wide: bool = False  # True to also compare a run with one worker to a run with twice the job's number of workers
    parallel: int | None = None  # the number of runs at the same time; None stands for as many as the machine allows
    # Further arguments of the program in the run with one worker that is compared with several.
    alone_args: tuple[str, ...] = ()
    chapters: frozenset[Chapter] = frozenset()  # the only chapters to examine; an empty set stands for all
    announce: Callable[[str], None] = lambda text: None  # called with a sentence about what will be examined
    # The codes of findings in runs that had the machine to themselves.
    _confirmed: set[str] = field(default_factory=set)

    def examine(self) -> Iterator[CellResult]:
        """Yield the result of each cell. If the program can't be examined, set `report.invalid_reason` and return."""
        runs = ExamRuns(self.trials, self.report.name, self.report.seed, self.report.durations)
        runs.alone_args = self.alone_args
        try:
            for result in self._examine(runs):
                self._note(result)
                yield result
        finally:
            if not self.trials.keep:
                self._remove(runs.started)

    def _examine(self, runs: ExamRuns) -> Iterator[CellResult]:
        allowance = self.report.budget / PART if runs.is_synchronous else float("inf")
        unbroken = runs.first({"timeout": self.longest} if self.longest else {}, allowance)
        why = self._why_unfit(runs, unbroken)
        if why:
            self.report.invalid_reason = why
            return
        runs.set_baseline(unbroken)
        leader = runs.leader(unbroken)
        if not runs.baseline.last_step and (leader is None or not leader.last_step):
            self.report.invalid_reason = f"{NO_STEPS}."
            return
        pace = pace_of(unbroken.events)
        repetition = Experiment((REPEAT,), Repetition(), seconds=pace.seconds(runs.baseline.last_step or 0))
        plan = wanted(self._plan(runs, unbroken, pace), self._is_chosen)
        possible, unreached = _possible(plan, lambda one, cell: self._why_not(runs, unbroken, one, cell))
        experiments = [repetition, *possible]
        slots = self.parallel or _usual_slots(unbroken)
        path = shared_path(unbroken.tables)
        if path and slots > 1:
            slots = 1
            self.announce(ONE_AT_A_TIME.format(printable(path)))
        self._announce(runs, experiments, pace, slots)
        yield from self._carry_out(runs, unbroken, experiments, unreached, slots)
        known = {str(cell) for one in (repetition, *plan) for cell in one.cells}
        for name in sorted(self.chosen - known):
            chapter, _, rest = name.partition("/")
            cell = Cell(Chapter(chapter), rest)
            why = "the exam of this program has no such cell" if runs.baseline.last_step else NO_STEPS
            yield self.report.add(not_reached(cell, why))

    def _why_unfit(self, runs: ExamRuns, unbroken: ExaminedRun) -> str:
        """Return why the program can't be examined, judging by the first run; "" if it can be."""
        if unbroken.has_succeeded or (runs.last is not None and unbroken.result is not None):
            return ""
        if self.longest and unbroken.state is RunState.TIMED_OUT:
            return TOO_LONG.format(self.longest)
        return f"it fails even without interruptions: {unbroken.failure_text}."

    def _announce(self, runs: ExamRuns, experiments: Sequence[Experiment], pace: StepPace, slots: int) -> None:
        left = float("inf") if self.chosen else self.until - time.monotonic()
        costs, cells = [one.seconds for one in experiments], [len(one.cells) for one in experiments]
        self.announce(announcement(pace, costs, cells, left, slots, runs.last))

    def _plan(self, runs: ExamRuns, unbroken: ExaminedRun, pace: StepPace) -> list[Experiment]:
        """Return the experiments after the repetition, in order."""
        job, baseline, recorded = runs.job, runs.baseline, runs.recorded_steps()
        workers, exact = workers_of(job), runs.is_synchronous
        is_brief = self.quick and not self.chosen
        cells = survival_cells(job, baseline, self.disk, early=self.quick)
        saves = Phase.SAVING in unbroken.phases()
        if is_brief:
            cells = quick_cells(cells, job.leader, unbroken.phases, saves)
        sizes = [workers, *([2 * workers] if self.wide else [])]
        leader = runs.leader(unbroken)
        second_fit = None if leader is None else step_of_second_fit(leader)
        resuming = resumptions(job, baseline, recorded, pace, exact, early=self.quick)
        if second_fit is not None:  # right after the first experiment, since it explains what others may find, too
            resuming.insert(1, second_fit_killed(job, second_fit, pace))
        return breadth_first(
            readings(any(task.renamed for task in unbroken.tasks), Phase.EXPORTING in unbroken.phases()),
            comparisons(sizes, pace, baseline.last_step or 0),
            resuming,
            list(breaks(cells, baseline, recorded, pace, exact)),
        )

    def _carry_out(
        self,
        runs: ExamRuns,
        unbroken: ExaminedRun,
        experiments: Sequence[Experiment],
        unreached: Sequence[CellResult],
        slots: int,
    ) -> Iterator[CellResult]:
        """Make the runs of the experiments, and yield the results of their cells and those of `unreached` cells."""
        state, waiting = _State(unbroken, _cells_of(experiments)), list[Done]()
        free = [one for one in experiments if isinstance(one.subject, Reading)]
        costly = [one for one in experiments if one not in free]
        until = float("inf") if self.chosen else self.until
        scheduler = Scheduler(lambda one: _make_runs(runs, one, unbroken), slots, until, self.trials.stop)
        with closing(scheduler.run(costly)) as ended:
            for done in ended:
                waiting.append(done)
                for one in _ready(waiting, state):
                    yield from self._results(runs, scheduler, state, one)
                    if state.again is not None and not state.again.has_succeeded:
                        return  # there is nothing to compare with
                    if REPEAT in one.experiment.cells:
                        for each in free:
                            yield from self._results(runs, scheduler, state, Done(each, ()))
                        yield from map(self.report.add, unreached)

    def _results(self, runs: ExamRuns, scheduler: Scheduler, state: _State, done: Done) -> Iterator[CellResult]:
        """Judge an experiment. If it fails beside other runs, it is repeated alone before the program is accused."""
        experiment, made = done.experiment, done.runs
        if made is None:
            state.judged.update(experiment.cells)
            for cell in experiment.cells:
                why = f"the budget of {compact(self.report.budget)} was spent"
                self.report.add(CellResult(cell, Grade.SKIPPED, reason=why))
            return
        results = list(self._judge(runs, state, experiment, made))
        # A run that several experiments share may have been made beside others, too.
        was_alone = done.was_alone and not (experiment.first_run and scheduler.has_overlapped)
        is_doubtful = not _codes(results) <= self._confirmed or _is_unexpected(results, experiment, made)
        if is_doubtful and not was_alone:
            beside = results
            made = scheduler.alone(lambda: _make_runs(runs, experiment, state.unbroken, ALONE))
            results = list(self._judge(runs, state, experiment, made, ALONE))
            if _are_better(results, beside):
                scheduler.slots = 1
                results = [replace(one, notes=(*one.notes, DISTURBED)) for one in results]
        if is_doubtful:
            self._confirmed |= _codes(results)
        state.judged.update(experiment.cells)
        yield from map(self.report.add, results)

    def _judge(
        self, runs: ExamRuns, state: _State, experiment: Experiment, made: Runs, more: str = ""
    ) -> Iterator[CellResult]:
        """Yield the results of an experiment's cells, given the runs that it has made.

        `more` is added to the names of the runs that only the judgement turns out to need.
        """
        end = experiment.last or runs.last
        match experiment.subject:
            case Reading():
                recorded = state.again or state.unbroken
                for cell in experiment.cells:
                    findings = power_failure_findings if cell == POWER else torn_export_findings
                    yield judge(cell, findings(recorded.tasks), recorded.run_id)
            case Repetition():
                state.again, state.exact = made[0], None
                result = self._repeat(runs, state.unbroken, made[0])
                if result.grade is Grade.PASSED and runs.is_synchronous:
                    state.exact = made[0]
                yield result
            case WorkerComparison(workers):
                several = made[1] if len(made) > 1 else state.again
                assert several is not None
                words = _left_out(state.unbroken)
                notes = [NO_DROPOUT] if words else []
                rerun = partial(runs.rerun, several, words, more)
                compare = _compare if runs.last is None or not runs.is_synchronous else _compare_first_steps
                result = compare(runs, experiment.cells[0], made[0], several, workers, rerun)
                yield replace(result, notes=(*notes, *result.notes))
            case StopAndResume() as stop:
                # If the results depend on the number of workers, runs with different numbers can't be compared.
                compares = not self.report.count(Grade.FAILED, Chapter.EQUALITY)
                how = _Resumption(experiment.cells[0], stop.interruption.step, end, stop.workers, compares)
                yield _resume_result(runs, how, made, state.exact)
            case SurvivalCell() as one:
                exact = None if state.again is None or _draws_unsaved(runs, state.again) else state.exact
                reference = exact if self.report.passed(Chapter.RESUME) else None
                if KILLED in experiment.cells:
                    result = _resume_result(runs, _Resumption(KILLED, one.breaks[0].step, end), made, state.exact)
                    yield result
                    failed = result.grade is not Grade.PASSED or self.report.count(Grade.FAILED, Chapter.RESUME)
                    reference = None if failed else exact
                if one.cell in experiment.cells:
                    yield _break_result(runs, one, made[0], reference, end)

    def _why_not(self, runs: ExamRuns, unbroken: ExaminedRun, one: Experiment, cell: Cell) -> str:
        """Return why a cell can't be reached, judging by an unbroken run; "" if it can be."""
        subject, reached = one.subject, ""
        if cell.chapter is Chapter.RESUME or getattr(subject, "phase", "") == Phase.RESTORING:
            return _saves_nothing(unbroken, runs.last)
        if isinstance(subject, SurvivalCell):
            reached = why_unreachable(subject, unbroken.phases(subject.task))
            is_at_the_end = subject.phase in ("last-step", Phase.ENDING)
            if runs.last is not None and (reached or is_at_the_end):
                return ENDED_EARLY.format(runs.last, compact(self.report.budget))
        return reached

    def _is_chosen(self, cell: Cell) -> bool:
        if self.chosen:
            return str(cell) in self.chosen
        return not self.chapters or cell.chapter in self.chapters

    def replay(self, cell: Cell) -> str:
        """Return a command that examines only this cell again, to be shown to the user who has started the exam."""
        return self._replay(cell, os.environ)

    def _replay(self, cell: Cell, shell: Mapping[str, str] | None) -> str:
        """Return the command. Without a shell, it can be stored: it has no values of variables that may be secrets."""
        template = self.trials.template
        limited = () if template.job.limits.job else ("timeout",)  # the exam has set a timeout unless the user did
        own = [f"--cell={cell}", *["--quick"] * self.quick, *["--wide"] * self.wide]
        own += [f"--one-worker-args={shlex.join(self.alone_args)}"] if self.alone_args else []
        again = template.with_changes({"seed": self.report.seed}, "run_id", *limited)
        return again.command("exam", *own, shell=shell)

    def _log(self, run_id: str) -> str:
        """Return the path of the log that explains how a run ended: that of the cause, or else the leader's last."""
        run = self.trials.store.run(run_id)
        result = run.result()
        if result is not None and result.cause is not None:
            return str(run.log(result.cause.task, result.cause.attempt))
        leader = self.trials.template.job.leader
        ended = [] if result is None else result.attempts
        return str(run.log(leader, max((one.attempt for one in ended if one.task == leader), default=1)))

    def _note(self, result: CellResult) -> None:
        """Note the result in the runs of the cell, for those who look at one of them, and the logs in the report."""
        if result.grade is Grade.FAILED:
            self.report.logs.update((run, self._log(run)) for run in result.runs)
        for run in result.runs:
            of_run = [self._noted(one) for one in self.report.results if run in one.runs]
            note_cells(self.trials.store.run(run), of_run)

    def _noted(self, result: CellResult) -> ExaminedCell:
        texts = [result.reason] if result.reason else []
        for finding in result.findings:
            texts += [finding.text, f"→ {finding.remedy}"] if finding.remedy else [finding.text]
        command = self._replay(result.cell, None)
        return ExaminedCell(self.report.name, str(result.cell), result.grade, tuple(texts), command)

    def _remove(self, started: Sequence[str]) -> None:
        """Remove the exam's runs. Keep the runs of failed cells, and the last run if the program can't be examined."""
        failed = {run for one in self.report.results if one.grade is Grade.FAILED for run in one.runs}
        for run in started:
            if run not in failed and not (self.report.invalid_reason and run == started[-1]):
                self.trials.remove(run)

    def _repeat(self, runs: ExamRuns, unbroken: ExaminedRun, again: ExaminedRun) -> CellResult:
        """Compare two uninterrupted runs of the job, to find out how exactly other runs can be compared."""
        cell, ids = Cell(Chapter.REPEAT, "unbroken"), (unbroken.run_id, again.run_id)
        if not again.has_succeeded:
            return judge(
                cell, [ExamFinding("not-recovered", f"The second time it failed: {again.failure_text}.")], *ids
            )
        runs.allow_variation(unbroken, again)
        first, second = runs.leader(unbroken), runs.leader(again)
        notes = () if first is None else tuple(first.notes)
        if not runs.is_synchronous:
            notes = (*notes, "parameter servers take updates as they come: runs are compared by their metric")
            return judge(cell, runs.metric(again), *ids, notes=notes)
        if first is None or second is None or last_common(first, second) is None:
            return not_reached(cell, "; ".join(notes) or "no variables were seen", *ids)
        findings = repetition(first, second)
        return judge(cell, findings, *ids, notes=notes)


@dataclass(slots=True)
class _State:
    """What the judgement of an experiment may need: the unbroken runs, and which cells have been judged."""

    unbroken: ExaminedRun
    cells: frozenset[Cell]  # all cells of the exam
    again: ExaminedRun | None = None
    exact: ExaminedRun | None = None  # the second unbroken run, if other runs have to equal it bit by bit
    judged: set[Cell] = field(default_factory=set)

    def is_ready(self, done: Done) -> bool:
        """Return whether all that the judgement of an experiment depends on has been judged.

        What a fault does to the result is compared only if a killed job resumes where it was.
        """
        if done.runs is None or REPEAT in done.experiment.cells:
            return True
        needed = {REPEAT}
        if isinstance(done.experiment.subject, SurvivalCell) and KILLED not in done.experiment.cells:
            needed |= {KILLED} & self.cells
        return needed <= self.judged


def _ready(waiting: list[Done], state: _State) -> Iterator[Done]:
    """Take the experiments that can be judged from a list, one after the other."""
    while True:
        one = next((done for done in waiting if state.is_ready(done)), None)
        if one is None:
            return
        waiting.remove(one)
        yield one


def _cells_of(experiments: Sequence[Experiment]) -> frozenset[Cell]:
    return frozenset(cell for one in experiments for cell in one.cells)


def _codes(results: Sequence[CellResult]) -> set[str]:
    return {finding.code for one in results for finding in one.findings}


def _is_unexpected(results: Sequence[CellResult], experiment: Experiment, made: Runs) -> bool:
    """Return whether a cell was not reached although the unbroken run says that it can be.

    A task that another run disturbs may fail and be restarted, so that its interruption comes too late, or never.
    """
    is_interrupted = isinstance(experiment.subject, StopAndResume | SurvivalCell)
    is_unreached = any(one.grade is Grade.NOT_REACHED for one in results)
    return is_unreached and (is_interrupted or any(run.state is RunState.FAILED for run in made))


def _are_better(alone: Sequence[CellResult], beside: Sequence[CellResult]) -> bool:
    """Return whether the results of runs alone have nothing to report, unlike those beside other runs."""
    passed = [sum(one.grade is Grade.PASSED for one in results) for results in (alone, beside)]
    return not _codes(alone) and passed[0] > passed[1]


def _possible(
    plan: Sequence[Experiment], why_not: Callable[[Experiment, Cell], str]
) -> tuple[list[Experiment], list[CellResult]]:
    """Return the experiments with the cells that can be reached, and the results of the other cells."""
    possible, results = list[Experiment](), list[CellResult]()
    for one in plan:
        reasons = {cell: why_not(one, cell) for cell in one.cells}
        results += [not_reached(cell, reason) for cell, reason in reasons.items() if reason]
        left = tuple(cell for cell, reason in reasons.items() if not reason)
        if left:
            possible.append(replace(one, cells=left))
    return possible, results


def _usual_slots(unbroken: ExaminedRun) -> int:
    """Return how many runs of the job this machine can make side by side, judging by what one run has used."""
    cores = len(os.sched_getaffinity(0))
    memory = available_memory()
    used_cores, used_memory = unbroken.used()
    return runs_at_once(cores, float("inf") if memory is None else memory, used_cores, used_memory)


def _left_out(unbroken: ExaminedRun) -> list[str]:
    """Return the words of --record that leave out random layers where the program draws at random in training."""
    return ["no-dropout"] if unbroken.draws else []


def _make_runs(runs: ExamRuns, one: Experiment, unbroken: ExaminedRun, more: str = "") -> Runs:
    """Make the runs of an experiment. `more` is added to their names."""
    job, name = runs.job, f"{one.name}{more}"
    match one.subject:
        case Reading():
            return ()
        case Repetition():
            return (runs.run(f"again{more}", {}),)
        case WorkerComparison(workers):
            words = _left_out(unbroken)
            made = [runs.shared(f"one-worker{more}", lambda: runs.run(f"one-worker{more}", runs.alone(), words=words))]
            if workers != workers_of(job):
                made.append(runs.run(f"{workers}-workers{more}", with_workers(job, workers), words=words))
            elif words:
                made.append(runs.run(f"without-dropout{more}", {}, words=words))
            return made
        case StopAndResume(interruption, workers) as stop:
            stopped = f"{stop.stopped}{more}"
            deferred = runs.words_of_resuming
            broken = runs.shared(stopped, lambda: runs.run(stopped, {}, interruption, words=deferred))
            if broken.has_succeeded or broken.missed_breaks:
                return (broken,)
            changes = {} if workers is None else with_workers(job, workers)
            changes = {**changes, "resume": broken.run_id}
            return broken, runs.run(f"{name}-resumed", changes, words=deferred, last=one.last)
        case SurvivalCell(breaks=interruptions, fault=fault):
            restarts = runs.restarts(len(interruptions) + bool(fault) + SPARE_RESTARTS)
            deferred = runs.words_of_resuming if KILLED in one.cells else ()
            return (runs.run(name, restarts, *interruptions, fault=fault, words=deferred, last=one.last),)


def _compare(
    runs: ExamRuns,
    cell: Cell,
    alone: ExaminedRun,
    several: ExaminedRun,
    workers: int,
    rerun: Rerun,
) -> CellResult:
    one, ids = runs.leader(alone), (alone.run_id, several.run_id)
    if failed := _failed_comparison(alone, several, workers):
        return not_reached(cell, failed, *ids)
    if not runs.is_synchronous:
        return judge(cell, runs.metric(alone), *ids)
    if one is None or len(several.tasks) < workers:
        return not_reached(cell, "no variables were seen in every worker", *ids)
    comparison = compared(one, several.tasks, rerun)
    findings = [*comparison.findings, *shared_tables(alone.tables, several.tables)]
    if not findings and comparison.why_not:
        return not_reached(cell, NOT_COMPARABLE + comparison.why_not, *ids)
    if not findings and not (one.states or one.end):
        return not_reached(cell, "no variables were seen", *ids)
    uncounted = () if one.rows else ("rows were not counted",)
    return judge(cell, findings, *ids, notes=uncounted)


def _failed_comparison(alone: ExaminedRun, several: ExaminedRun, workers: int) -> str:
    """Return which of two runs that are to be compared has failed, and why, as a clause; "" if none has."""
    for run, number in ((alone, 1), (several, workers)):
        if not run.has_succeeded:
            return f"with {number_of('worker', number)} the job fails: {run.failure_text}"
    return ""


def _draws_unsaved(runs: ExamRuns, unbroken: ExaminedRun) -> bool:
    """Return whether the program draws random numbers from a state that no checkpoint holds."""
    leader = runs.leader(unbroken)
    return leader is None or unsaved_draws(leader) is not None


def _compare_first_steps(
    runs: ExamRuns, cell: Cell, alone: ExaminedRun, several: ExaminedRun, workers: int, rerun: Rerun
) -> CellResult:
    """Compare runs that were ended early, so that their rows are not those of whole epochs."""
    ids = (alone.run_id, several.run_id)
    if failed := _failed_comparison(alone, several, workers):
        return not_reached(cell, failed, *ids)
    tasks = sorted(several.tasks, key=lambda one: one.task != runs.job.leader)
    found = verdict(runs.leader(alone), tasks, workers, runs.last or 0, rerun)
    if found.equality is Equality.NOT_COMPARABLE:
        return not_reached(cell, NOT_COMPARABLE + found.text, *ids)
    findings = [ExamFinding("differs", found.text, found.remedy)] if found.equality is Equality.DIFFERENT else []
    return judge(cell, findings, *ids)


def _saves_nothing(unbroken: ExaminedRun, last: int | None) -> str:
    """If no task saved a checkpoint in the unbroken run, return a clause that says so; otherwise, return "".

    `last` is the step after which the run was ended early; None if it was not.
    """
    if Phase.SAVING in unbroken.phases():
        return ""
    if last is not None:
        return SAVED_TOO_LATE.format(last)
    return SAVES_NOTHING + (IN_FIT if any(task.logs for task in unbroken.tasks) else IN_A_LOOP)


@dataclass(frozen=True, slots=True)
class _Resumption:
    """How a run was interrupted after the step `step`, and continued.

    The runs were ended after the step `end`; None stands for the program's own end. `others` is the number of workers
    that continued, if it is another one. If `compares` is False, the final metrics are not compared.
    """

    cell: Cell
    step: int
    end: int | None = None
    others: int | None = None
    compares: bool = True


def _resume_result(runs: ExamRuns, how: _Resumption, made: Runs, exact: ExaminedRun | None) -> CellResult:
    """Compare an interrupted and continued run with an unbroken run.

    `made` is the interrupted run and, unless that restarted itself, the run that continues it.
    """
    broken, last = made[0], made[-1]
    ids = [run.run_id for run in made]
    if broken.missed_breaks:
        return not_reached(how.cell, broken.missed_breaks, *ids)
    if broken.has_succeeded and all(recording.attempt == 1 for recording in broken.tasks):
        return not_reached(how.cell, "the training ended before it was stopped", *ids)
    if Phase.SAVED not in broken.phases(attempt=1):
        return not_reached(how.cell, f"nothing had been saved at step {how.step}, where it was interrupted", *ids)
    if not last.has_succeeded:
        return judge(how.cell, [failed_continuation(last.failure_text, how.others)], *ids)
    reference, continued = None if exact is None else runs.leader(exact), runs.leader(last)
    if how.end is not None and reference is not None and continued is not None:
        reference, continued = cut_off(reference, how.end), cut_off(continued, how.end)
    findings = list[ExamFinding]()
    if reference is not None and continued is not None:
        compare = resumption if how.others is None else resumption_by_others
        findings = compare(reference, continued)
        findings = shared_backup(reference, findings, how.step)
    if not runs.is_synchronous:
        findings = _coordinator_findings(runs, how, broken, last)
    if not findings and exact is not None and how.end is None:  # the tables of a run that was ended early are shorter
        findings = _table_findings(runs, how, broken, last, exact)
    if not findings and how.compares and (reference is None or continued is None or how.others is not None):
        findings = list(runs.metric(last, how.end))
    note = "" if reference is None else chance_note(reference)
    result = judge(how.cell, findings, *ids, notes=[note] if note else [])
    return replace(result, until=how.end)


def _coordinator_findings(
    runs: ExamRuns, how: _Resumption, broken: ExaminedRun, last: ExaminedRun
) -> list[ExamFinding]:
    """Compare what a coordinator continued with what it had saved, if it was interrupted once."""
    leader = runs.job.leader
    attempts = [broken.attempts.get((leader, 1)), last.attempts.get((leader, 2 if last is broken else 1))]
    before, after = attempts
    if before is None or after is None or any(number > 2 for task, number in last.attempts if task == leader):
        return []
    return continuation(runs.scheduled if how.others is None else None, before, after)


def _table_findings(
    runs: ExamRuns, how: _Resumption, broken: ExaminedRun, last: ExaminedRun, exact: ExaminedRun
) -> list[ExamFinding]:
    """Compare the tables and documents that the interrupted and continued runs left with those of an unbroken run."""
    tables = last.tables
    if last is not broken:
        attempts = [*broken.attempts.values(), *last.attempts.values()]
        tables = written_tables(attempts, broken.run.path.parent)
    findings = list(continued_tables(exact.tables, runs.tables, tables, compares_lost=how.others is None))
    if how.others is None:  # other workers sum in another order, so that they may have other numbers
        findings += continued_documents(exact.tables, runs.tables, tables)
    return findings


def _break_result(
    runs: ExamRuns, one: SurvivalCell, broken: ExaminedRun, exact: ExaminedRun | None, end: int | None
) -> CellResult:
    """Check the conditions that must hold after every fault, given the run with the cell's faults.

    The run was ended after the step `end`; None stands for the program's own end.
    """
    job, baseline = runs.job, runs.baseline
    if broken.missed_breaks:
        return not_reached(one.cell, broken.missed_breaks, broken.run_id)
    if one.action is FaultAction.MEMORY and broken.state is RunState.TIMED_OUT:
        return not_reached(one.cell, HANGS, broken.run_id)
    leaks = find_leaks(runs.trials.store, broken.run_id).sentences
    mine, theirs = None if exact is None else runs.leader(exact), runs.leader(broken)
    if end is not None and theirs is not None and (theirs.last_step or 0) >= end:
        baseline = runs.baseline_until(None if broken.result is None else broken.result.last_step)
        mine, theirs = None if mine is None else cut_off(mine, end), cut_off(theirs, end)
    violated = violations(job, baseline, broken.result, broken.events)
    differing = ""
    if mine is not None and theirs is not None and mine.end is not None and theirs.end is not None:
        differing = next(iter(differing_kinds(mine.end, theirs.end).values()), "")
    starts_anew = began_anew(job, broken.events)
    recoveries = ledger_of(job, broken.events).incidents.report().recoveries
    seconds = [recovery.seconds for recovery in recoveries if recovery.seconds is not None]
    lost = [recovery.lost for recovery in recoveries if recovery.lost is not None]
    torn = torn_file(one, broken.attempts)
    remedy = recovery_remedy(broken.result, baseline.last_step) if violated or differing else ""
    findings = list(survival_findings(broken.result, [*violated, *leaks], starts_anew, differing, torn, remedy))
    result = judge(one.cell, findings or old_checkpoint_findings(broken.events, recoveries), broken.run_id)
    starts_over = any(recovery.last_step and recovery.lost == recovery.last_step for recovery in recoveries)
    return replace(
        result,
        seconds=max(seconds, default=None),
        lost=sum(lost) if lost else None,
        starts_over=starts_over and not starts_anew,
    )
