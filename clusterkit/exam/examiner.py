"""Runs the job for each cell of an exam, chapter by chapter, and yields the result of each cell."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from clusterkit.chaos.invariants import began_anew, violations
from clusterkit.chaos.model import Baseline
from clusterkit.chaos.schedule import SPARE_RESTARTS
from clusterkit.chaos.trial import Trials
from clusterkit.exam.breaking import Interruption
from clusterkit.exam.equality import draws, equality, other_order
from clusterkit.exam.model import Cell, CellResult, Chapter, ExamFinding, Grade, Report, judge, not_reached
from clusterkit.exam.resume import differing_kinds, resumption, resumption_by_others
from clusterkit.exam.runs import ExaminedRun, ExamRuns, with_workers, workers_of
from clusterkit.exam.survival import (
    EXPORT,
    POWER,
    SurvivalCell,
    middle_step,
    old_checkpoint_findings,
    other_step,
    power_failure_findings,
    survival_cells,
    survival_findings,
    torn_export_findings,
    why_unreachable,
)
from clusterkit.ledger.ledger import ledger_of
from clusterkit.store.cleaning import find_leaks
from clusterkit.store.examined import note_cells
from clusterkit.text.durations import compact
from clusterkit.words.examined import ExaminedCell
from clusterkit.words.faults import FaultAction, Phase
from clusterkit.words.job import JobSpec
from clusterkit.words.model import number_of
from clusterkit.words.outcome import RunState

SAVES_NOTHING = "the program saves no checkpoint, so that nothing can be resumed. One line saves them: "
IN_FIT, IN_A_LOOP = "callbacks=[training.Backup()] in fit", "training.Checkpointer(model=model) in a loop"
NO_STEPS = (
    "no steps were seen: the program runs none, or clusterkit can't observe them. One line reports them: "
    "training.report(step=step, loss=loss)"
)


TOO_LONG = (
    "it did not end within {:g} s. Have it train for fewer steps, or give the exam more time, as by --budget 30m."
)
HANGS = (
    "without memory the task hangs instead of failing, as Python may: https://github.com/python/cpython/issues/140746"
)


@dataclass(slots=True)
class Examiner:
    """An exam in progress. If `chosen` is not empty, only the cells with the names in `chosen` are examined."""

    trials: Trials
    report: Report
    until: float  # the monotonic time after which no more cells are examined
    longest: float = 0.0  # the timeout of the first run, in seconds; 0 stands for the job's own timeout
    chosen: frozenset[str] = frozenset()
    phase_limit: Sequence[str] | None = None  # the phases in which faults are injected; None stands for all phases
    disk: bool = False  # True if this machine can simulate a full disk
    wide: bool = False  # True to also compare a run with one worker to a run with twice the job's number of workers
    parallel: int | None = None  # the number of runs at the same time; None stands for as many as the machine allows
    chapters: frozenset[Chapter] = frozenset()  # the only chapters to examine; an empty set stands for all

    def examine(self) -> Iterator[CellResult]:
        """Yield the result of each cell. If the program can't be examined, set `report.invalid_reason` and return."""
        runs = ExamRuns(self.trials, self.report.name, self.report.seed, self.report.durations)
        try:
            for result in self._chapters(runs):
                self._note(result)
                yield result
        finally:
            if not self.trials.keep:
                self._remove(runs.started)

    def _chapters(self, runs: ExamRuns) -> Iterator[CellResult]:
        unbroken = runs.run("unbroken", {"timeout": self.longest} if self.longest else {})
        if not unbroken.has_succeeded:
            self.report.invalid_reason = f"it fails even without interruptions: {unbroken.failure_text}."
            if self.longest and unbroken.state is RunState.TIMED_OUT:
                self.report.invalid_reason = TOO_LONG.format(self.longest)
            return
        runs.set_baseline(unbroken)
        leader = runs.leader(unbroken)
        if not runs.baseline.last_step and (leader is None or not leader.last_step):
            self.report.invalid_reason = f"{NO_STEPS}."
            return
        again = runs.run("again", {})
        yield self.report.add(self._repeat(runs, unbroken, again))
        if again.has_succeeded:
            is_exact = self.report.passed(Chapter.REPEAT) and runs.is_synchronous
            yield from self._equality(runs, again)
            yield from self._resume(runs, again, again if is_exact else None)
            yield from self._survival(runs, again, again if is_exact else None)
            for name in sorted(self.chosen - {str(one.cell) for one in self.report.results}):
                chapter, _, rest = name.partition("/")
                cell = Cell(Chapter(chapter), rest)
                yield self.report.add(not_reached(cell, "the exam of this program has no such cell"))

    def replay(self, cell: Cell) -> str:
        """Return a command that examines only this cell again, to be shown to the user who has started the exam."""
        return self._replay(cell, os.environ)

    def _replay(self, cell: Cell, shell: Mapping[str, str] | None) -> str:
        """Return the command. Without a shell, it can be stored: it has no values of variables that may be secrets."""
        template = self.trials.template
        limited = () if template.job.limits.job else ("timeout",)  # the exam has set a timeout unless the user did
        own = [f"--cell={cell}", *(["--wide"] if self.wide else [])]
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
        runs.allow_variation(again)
        first, second = runs.leader(unbroken), runs.leader(again)
        notes = () if first is None else tuple(first.notes)
        if not runs.is_synchronous:
            notes = (*notes, "parameter servers take updates as they come: runs are compared by their metric")
            return judge(cell, runs.metric(again), *ids, notes=notes)
        if first is None or second is None or first.end is None or second.end is None:
            return not_reached(cell, "; ".join(notes) or "no variables were seen", *ids)
        kinds = differing_kinds(first.end, second.end)
        findings = [
            ExamFinding(
                "not-deterministic",
                f"Two unbroken runs with the same seed end with another {name}: the program is not deterministic, and "
                "can be compared only roughly.",
                "Seed what draws at random: numpy.random.default_rng(seed), tf.keras.utils.set_random_seed(seed).",
            )
            for name in list(kinds.values())[:1]
        ]
        return judge(cell, findings, *ids, notes=notes)

    def _equality(self, runs: ExamRuns, again: ExaminedRun) -> Iterator[CellResult]:
        job, workers = runs.job, workers_of(runs.job)
        sizes = [workers, *([2 * workers] if self.wide else [])]
        cells = {number: Cell(Chapter.EQUALITY, f"1-against-{number}") for number in sizes if number > 1}
        wanted = {number: cell for number, cell in cells.items() if self._is_wanted(cell)}
        if not wanted:
            return
        words, notes = list[str](), list[str]()
        if draws(again.tasks):
            words.append("no-dropout")
            again = runs.run("without-dropout", {}, words=words)
            notes.append("dropout was switched off, since several workers drop something else than one does")
        alone = runs.run("one-worker", with_workers(job, 1), words=words)
        for number, cell in wanted.items():
            several = (
                again if number == workers else runs.run(f"{number}-workers", with_workers(job, number), words=words)
            )
            yield self.report.add(_compare(runs, cell, alone, several, number, notes))

    def _resume(self, runs: ExamRuns, again: ExaminedRun, exact: ExaminedRun | None) -> Iterator[CellResult]:
        # If the results depend on the number of workers, runs with different numbers of workers can't be compared.
        compares = not self.report.count(Grade.FAILED, Chapter.EQUALITY)
        for plan in _interruption_plans(runs.job, runs.baseline, compares):
            if self._is_wanted(plan.cell):
                why = _saves_nothing(again)
                yield self.report.add(not_reached(plan.cell, why) if why else _resume_result(runs, plan, exact))

    def _survival(self, runs: ExamRuns, again: ExaminedRun, exact: ExaminedRun | None) -> Iterator[CellResult]:
        compared = exact if self.report.passed(Chapter.RESUME) else None
        if any(task.renamed for task in again.tasks) and self._is_wanted(POWER):
            yield self.report.add(judge(POWER, power_failure_findings(again.tasks), again.run_id))
        if Phase.EXPORTING in again.phases() and self._is_wanted(EXPORT):
            yield self.report.add(judge(EXPORT, torn_export_findings(again.tasks), again.run_id))
        for one in survival_cells(runs.job, runs.baseline, self.disk):
            if (self.phase_limit is None or one.phase in self.phase_limit or self.chosen) and self._is_wanted(one.cell):
                why = why_unreachable(one, again.phases(one.task))
                if one.phase == Phase.RESTORING:
                    why = _saves_nothing(again)
                yield self.report.add(not_reached(one.cell, why) if why else _break_result(runs, one, compared))

    def _is_wanted(self, cell: Cell) -> bool:
        if self.chosen:
            return str(cell) in self.chosen
        if self.chapters and cell.chapter not in self.chapters:
            return False
        if time.monotonic() < self.until:
            return True
        self.report.add(
            CellResult(cell, Grade.SKIPPED, reason=f"the budget of {compact(self.report.budget)} was spent")
        )
        return False


def _compare(
    runs: ExamRuns, cell: Cell, alone: ExaminedRun, several: ExaminedRun, workers: int, notes: Sequence[str]
) -> CellResult:
    one, ids = runs.leader(alone), (alone.run_id, several.run_id)
    for run, number in ((alone, 1), (several, workers)):
        if not run.has_succeeded:
            return not_reached(cell, f"with {number_of('worker', number)} the job fails: {run.failure_text}", *ids)
    if not runs.is_synchronous:
        return judge(cell, runs.metric(alone), *ids)
    if one is None or len(several.tasks) < workers:
        return not_reached(cell, "no variables were seen in every worker", *ids)
    findings = equality(one, several.tasks)
    why = other_order(one, several.tasks) or ("" if one.states or one.end else "no variables were seen")
    if why and not findings:
        return not_reached(cell, why, *ids)
    uncounted = () if one.rows else ("rows were not counted",)
    return judge(cell, findings, *ids, notes=(*notes, *uncounted))


def _saves_nothing(unbroken: ExaminedRun) -> str:
    """If no task saved a checkpoint in the uninterrupted run, return a clause that says so; otherwise, return ""."""
    if Phase.SAVING in unbroken.phases():
        return ""
    return SAVES_NOTHING + (IN_FIT if any(task.logs for task in unbroken.tasks) else IN_A_LOOP)


@dataclass(frozen=True, slots=True)
class _InterruptionPlan:
    """A plan to interrupt and resume a run."""

    cell: Cell
    one: Interruption
    workers: int | None = None  # the number of workers in the resumed run; None stands for an unchanged number
    compares: bool = True  # False if the final metric can't be compared with that of an uninterrupted run


def _interruption_plans(job: JobSpec, baseline: Baseline, compares: bool) -> Iterator[_InterruptionPlan]:
    middle, leader = middle_step(baseline), job.leader
    if middle is None:
        return
    yield _InterruptionPlan(Cell(Chapter.RESUME, "stopped-between-checkpoints"), Interruption(leader, middle))
    kill = Interruption(leader, middle, f"{FaultAction.KILL} {leader}")
    yield _InterruptionPlan(Cell(Chapter.RESUME, "killed-between-checkpoints"), kill)
    if (saved := other_step(baseline, middle)) is not None:
        yield _InterruptionPlan(Cell(Chapter.RESUME, "stopped-after-a-checkpoint"), Interruption(leader, saved))
    if workers := workers_of(job):
        others = workers - 1 or 2
        cell = Cell(Chapter.RESUME, f"continued-by-{number_of('worker', others).replace(' ', '-')}")
        yield _InterruptionPlan(cell, Interruption(leader, middle), others, compares)


def _resume_result(runs: ExamRuns, plan: _InterruptionPlan, exact: ExaminedRun | None) -> CellResult:
    """Interrupt a run, resume the run if it was stopped, and compare the result with that of an uninterrupted run."""
    broken = last = runs.run(plan.cell.name, {}, plan.one)
    ids = [broken.run_id]
    if broken.missed_breaks:
        return not_reached(plan.cell, broken.missed_breaks, *ids)
    if broken.has_succeeded and all(recording.attempt == 1 for recording in broken.tasks):
        return not_reached(plan.cell, "the training ended before it was stopped", *ids)
    if Phase.SAVED not in broken.phases(attempt=1):
        return not_reached(plan.cell, f"nothing had been saved at step {plan.one.step}, where it was interrupted", *ids)
    if not plan.one.fault and not broken.has_succeeded:
        changes = {} if plan.workers is None else with_workers(runs.job, plan.workers)
        last = runs.run(f"{plan.cell.name}-resumed", {**changes, "resume": broken.run_id})
        ids.append(last.run_id)
    if not last.has_succeeded:
        return judge(plan.cell, [ExamFinding("not-recovered", f"The continued run failed: {last.failure_text}.")], *ids)
    reference, continued = None if exact is None else runs.leader(exact), runs.leader(last)
    findings = list[ExamFinding]()
    if reference is not None and continued is not None:
        findings = (
            resumption(reference, continued) if plan.workers is None else resumption_by_others(reference, continued)
        )
    if not findings and plan.compares and (reference is None or continued is None or plan.workers is not None):
        findings = list(runs.metric(last))
    return judge(plan.cell, findings, *ids)


def _break_result(runs: ExamRuns, one: SurvivalCell, exact: ExaminedRun | None) -> CellResult:
    """Run the job with the cell's faults, and check the conditions that must hold after every fault."""
    job, changes = runs.job, runs.trials.restart_budget(len(one.breaks) + bool(one.fault) + SPARE_RESTARTS)
    broken = runs.run(one.cell.name.replace("/", "-").replace(":", "-"), changes, *one.breaks, fault=one.fault)
    if broken.missed_breaks:
        return not_reached(one.cell, broken.missed_breaks, broken.run_id)
    if one.action is FaultAction.MEMORY and broken.state is RunState.TIMED_OUT:
        return not_reached(one.cell, HANGS, broken.run_id)
    leaks = find_leaks(runs.trials.store, broken.run_id).sentences
    violated = violations(job, runs.baseline, broken.result, broken.events, leaks)
    differing = ""
    mine, theirs = None if exact is None else runs.leader(exact), runs.leader(broken)
    if mine is not None and theirs is not None and mine.end is not None and theirs.end is not None:
        differing = next(iter(differing_kinds(mine.end, theirs.end).values()), "")
    starts_anew = began_anew(job, broken.events)
    recoveries = ledger_of(job, broken.events).incidents.report().recoveries
    seconds = [recovery.seconds for recovery in recoveries if recovery.seconds is not None]
    lost = [recovery.lost for recovery in recoveries if recovery.lost is not None]
    findings = [*survival_findings(broken.result, violated, starts_anew, differing)]
    result = judge(one.cell, findings or old_checkpoint_findings(broken.events, recoveries), broken.run_id)
    return replace(result, seconds=max(seconds, default=None), lost=sum(lost) if lost else None)
