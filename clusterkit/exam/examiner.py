"""The examiner: does the runs of an exam, chapter by chapter, and yields what each cell shows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from clusterkit.chaos.invariants import began_anew, violations
from clusterkit.chaos.schedule import SPARE
from clusterkit.chaos.trial import Trials
from clusterkit.exam.breaking import Break
from clusterkit.exam.equality import draws, equality
from clusterkit.exam.model import Cell, CellResult, Chapter, ExamFinding, Grade, Report, judged, not_reached
from clusterkit.exam.resume import differing_kinds, resumption
from clusterkit.exam.runs import Examined, Runs
from clusterkit.exam.survival import (
    POWER,
    SurvivalCell,
    middle_step,
    power_failure,
    survival_cells,
    survived,
    too_old,
    unreachable,
)
from clusterkit.job.options import Options
from clusterkit.ledger.ledger import ledger_of
from clusterkit.store.cleaning import find_leaks
from clusterkit.words.faults import FaultAction, Phase
from clusterkit.words.model import TaskType

SAVES_NOTHING = (
    "the program saves no checkpoint, so that nothing can be resumed. One line saves them: "
    "callbacks=[training.Backup()] in fit, or training.Checkpointer(checkpoint) in a loop"
)
NO_STEPS = (
    "no steps were seen: the program makes none, or does so where clusterkit can't see them. One line reports them: "
    "training.report(step=step, loss=loss)"
)


@dataclass(slots=True)
class Examiner:
    """An exam in progress. `chosen` are the names of the only cells to examine; empty for all."""

    trials: Trials
    report: Report
    until: float  # on time.monotonic(): no further cell begins after that
    chosen: frozenset[str] = frozenset()
    phases: Sequence[str] | None = None  # of survival; None: all
    disk: bool = False  # whether this machine can fill up a checkpoint directory

    def examine(self) -> Iterator[CellResult]:
        """Examine the program. Ends early, with `report.irregular`, if it cannot be examined."""
        runs = Runs(self.trials, self.report.name, self.report.seed)
        try:
            yield from self._chapters(runs)
        finally:
            if not self.trials.keep:
                self._remove(runs.started)

    def _chapters(self, runs: Runs) -> Iterator[CellResult]:
        unbroken = runs.up("unbroken", {})
        if not unbroken.succeeded:
            self.report.irregular = f"it fails even unbroken: {unbroken.why}."
            return
        runs.begin(unbroken)
        leader = runs.leader(unbroken)
        if not runs.baseline.last_step and (leader is None or not leader.last_step):
            self.report.irregular = f"{NO_STEPS}."
            return
        again = runs.up("again", {})
        yield self.report.add(self._repeat(runs, unbroken, again))
        if again.succeeded:
            is_exact = self.report.passed(Chapter.REPEAT) and runs.is_synchronous
            yield from self._equality(runs, again)
            yield from self._resume(runs, again, again if is_exact else None)
            yield from self._survival(runs, again, again if is_exact else None)
            for name in sorted(self.chosen - {str(one.cell) for one in self.report.results}):
                chapter, _, rest = name.partition("/")
                cell = Cell(Chapter(chapter), rest)
                yield self.report.add(not_reached(cell, "the exam of this program has no such cell"))

    def replay(self, cell: Cell) -> str:
        """Return the command that examines this cell alone."""
        template = self.trials.template.changed({"seed": self.report.seed}, "run_id", "timeout")
        return template.command("exam", f"--cell={cell}")

    def _remove(self, started: Sequence[str]) -> None:
        """Remove the runs that nobody will look at: those of cells that passed or were not reached."""
        failed = {run for one in self.report.results if one.grade is Grade.FAILED for run in one.runs}
        for run in started:
            if run not in failed and not (self.report.irregular and run == started[-1]):
                self.trials.remove(run)

    def _repeat(self, runs: Runs, unbroken: Examined, again: Examined) -> CellResult:
        """The same job twice, which tells how exactly other runs can be compared."""
        cell, ids = Cell(Chapter.REPEAT, "unbroken"), (unbroken.run_id, again.run_id)
        if not again.succeeded:
            return judged(cell, [ExamFinding("not-recovered", f"The second time it failed: {again.why}.")], *ids)
        runs.allow(again)
        first, second = runs.leader(unbroken), runs.leader(again)
        notes = () if first is None else tuple(first.notes)
        if not runs.is_synchronous:
            notes = (*notes, "parameter servers take updates as they come: runs are compared by their metric")
            return judged(cell, runs.metric(again), *ids, notes=notes)
        if first is None or second is None or first.end is None or second.end is None:
            return not_reached(cell, "; ".join(notes) or "no variables were seen", *ids)
        kinds = differing_kinds(first.end, second.end)
        found = [
            ExamFinding(
                "not-deterministic",
                f"Two unbroken runs with the same seed end with another {name}: the program is not deterministic, and "
                "can be compared only roughly.",
                "Seed what draws at random: numpy.random.default_rng(seed), tf.keras.utils.set_random_seed(seed).",
            )
            for name in list(kinds.values())[:1]
        ]
        return judged(cell, found, *ids, notes=notes)

    def _equality(self, runs: Runs, again: Examined) -> Iterator[CellResult]:
        """One worker against several."""
        job = runs.job
        workers = len(job.steppers) if runs.is_synchronous else job.counts.get(TaskType.WORKER, 0)
        cell = Cell(Chapter.EQUALITY, f"1-against-{workers}")
        if workers < 2 or not self._is_wanted(cell):
            return
        words, notes = list[str](), list[str]()
        if draws(again.tasks):
            words.append("no-dropout")
            again = runs.up("without-dropout", {}, words=words)
            notes.append("dropout was switched off, since several workers drop something else than one does")
        counts: Options = {"workers": 1} if job.counts.get(TaskType.PS) else {"workers": 1, "chief": False}
        alone = runs.up("one-worker", counts, words=words)
        ids = alone.run_id, again.run_id
        one, several = runs.leader(alone), again.tasks
        if not (alone.succeeded and again.succeeded):
            result = not_reached(cell, f"with one worker the job fails: {alone.why}", *ids)
        elif not runs.is_synchronous:
            result = judged(cell, runs.metric(alone), *ids)
        elif one is None or len(several) < workers:
            result = not_reached(cell, "no variables were seen in every worker", *ids)
        else:
            notes += [] if one.rows else ["rows were not counted"]
            result = judged(cell, equality(one, several), *ids, notes=notes)
        yield self.report.add(result)

    def _resume(self, runs: Runs, again: Examined, exact: Examined | None) -> Iterator[CellResult]:
        """Stopped and continued, or killed and restarted, against unbroken."""
        middle, leader = middle_step(runs.baseline), runs.job.leader
        if middle is None:
            return
        saved = max((step for step in runs.baseline.checkpoints if step < middle), default=None)
        ways = {
            "stopped-between-checkpoints": Break(leader, middle),
            "killed-between-checkpoints": Break(leader, middle, f"{FaultAction.KILL} {leader}"),
            **({} if saved is None else {"stopped-after-a-checkpoint": Break(leader, saved)}),
        }
        for name, one in ways.items():
            cell = Cell(Chapter.RESUME, name)
            if self._is_wanted(cell):
                result = _resumed(runs, cell, one, exact) if _saves(again) else not_reached(cell, SAVES_NOTHING)
                yield self.report.add(result)

    def _survival(self, runs: Runs, again: Examined, exact: Examined | None) -> Iterator[CellResult]:
        """Each fault in each phase."""
        compared = exact if self.report.passed(Chapter.RESUME) else None
        if any(task.renamed for task in again.tasks) and self._is_wanted(POWER):
            yield self.report.add(judged(POWER, power_failure(again.tasks), again.run_id))
        for one in survival_cells(runs.job, runs.baseline, self.disk):
            if (self.phases is None or one.phase in self.phases or self.chosen) and self._is_wanted(one.cell):
                why = unreachable(one, again.phases(one.task))
                if one.phase == Phase.RESTORING and not _saves(again):
                    why = SAVES_NOTHING
                yield self.report.add(not_reached(one.cell, why) if why else _broken(runs, one, compared))

    def _is_wanted(self, cell: Cell) -> bool:
        if self.chosen:
            return str(cell) in self.chosen
        if time.monotonic() < self.until:
            return True
        self.report.add(CellResult(cell, Grade.SKIPPED, reason="the time was up"))
        return False


def _saves(unbroken: Examined) -> bool:
    """Whether a task has saved something in the unbroken run."""
    return Phase.SAVING in unbroken.phases()


def _resumed(runs: Runs, cell: Cell, one: Break, exact: Examined | None) -> CellResult:
    """Break a run, continue it if it was stopped, and compare its end with the unbroken run's."""
    broken = last = runs.up(cell.name, {}, one)
    ids = [broken.run_id]
    if broken.missed:
        return not_reached(cell, broken.missed, *ids)
    if broken.succeeded and all(recording.attempt == 1 for recording in broken.tasks):
        return not_reached(cell, "the training ended before it was stopped", *ids)
    if not one.fault and not broken.succeeded:
        last = runs.up(f"{cell.name}-resumed", {"resume": broken.run_id})
        ids.append(last.run_id)
    if not last.succeeded:
        return judged(cell, [ExamFinding("not-recovered", f"The continued run failed: {last.why}.")], *ids)
    mine, theirs = None if exact is None else runs.leader(exact), runs.leader(last)
    if mine is None or theirs is None:
        return judged(cell, runs.metric(last), *ids)
    return judged(cell, resumption(mine, theirs), *ids)


def _broken(runs: Runs, one: SurvivalCell, exact: Examined | None) -> CellResult:
    """Break a run, and see whether what has to hold after every fault does."""
    job, changes = runs.job, runs.trials.restart_budget(len(one.breaks) + bool(one.fault) + SPARE)
    broken = runs.up(one.cell.name.replace("/", "-").replace(":", "-"), changes, *one.breaks, fault=one.fault)
    if broken.missed:
        return not_reached(one.cell, broken.missed, broken.run_id)
    left = find_leaks(runs.trials.store, broken.run_id).sentences
    said = violations(job, runs.baseline, broken.run.result, broken.run.events, left)
    differing = ""
    mine, theirs = None if exact is None else runs.leader(exact), runs.leader(broken)
    if mine is not None and theirs is not None and mine.end is not None and theirs.end is not None:
        differing = next(iter(differing_kinds(mine.end, theirs.end).values()), "")
    anew = began_anew(job, broken.run.events)
    recoveries = ledger_of(job, broken.run.events).incidents.report().recoveries
    seconds = [recovery.seconds for recovery in recoveries if recovery.seconds is not None]
    lost = [recovery.lost for recovery in recoveries if recovery.lost is not None]
    findings = [*survived(broken.run.result, said, anew, differing)]
    found = judged(one.cell, findings or too_old(runs.baseline, lost), broken.run_id)
    return replace(found, seconds=max(seconds, default=None), lost=sum(lost) if lost else None)
