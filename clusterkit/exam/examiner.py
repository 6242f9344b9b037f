"""The examiner: does the runs of an exam, chapter by chapter, and yields what each cell shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from clusterkit.chaos.invariants import Measure, baseline_of, last_metrics, violations
from clusterkit.chaos.model import Baseline
from clusterkit.chaos.schedule import budget
from clusterkit.chaos.trial import NEVER, FinishedRun, Trials
from clusterkit.exam.equality import by_task, draws, equality
from clusterkit.exam.model import Cell, CellResult, Chapter, Finding, Report, judged, not_reached
from clusterkit.exam.recording import Recording
from clusterkit.exam.recordings import recordings
from clusterkit.exam.resume import differing_kinds, resumption
from clusterkit.exam.survival import SurvivalCell, compares_exactly, middle_step, survival_cells, survived
from clusterkit.job.options import Options
from clusterkit.ledger.ledger import ledger_of
from clusterkit.store.cleaning import find_leaks
from clusterkit.words.grammar import parse_fault
from clusterkit.words.job import RestartRules
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import RunState

STEPS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)  # after which the state is recorded
SAVES_NOTHING = (
    "the program saves no checkpoint, so that nothing can be resumed. One line saves them: "
    "callbacks=[training.Backup()] in fit, or training.Checkpointer(checkpoint) in a loop"
)
NO_STEPS = (
    "no steps were seen: the program makes none, or does so where clusterkit can't see them. One line reports them: "
    "training.report(step=step, loss=loss)"
)
NOTHING = Baseline(0.0)
SPREAD = 3.0  # how many times farther than two unbroken runs another one may be


@dataclass(frozen=True, slots=True)
class Examined:
    """A finished run of an exam, with what its tasks recorded, in the order of the tasks."""

    run: FinishedRun
    recorded: dict[tuple[Task, int], Recording] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.run.run_id

    @property
    def why(self) -> str:
        """Why it failed."""
        result = self.run.result
        why = self.run.problems or [result.reason if result else "it left no result"]
        if result is not None and result.explanations:
            why = [*why, str(result.explanations[0])]
        return "; ".join(why).rstrip(".")

    def tasks(self) -> list[Recording]:
        """The recording of the last attempt of each task."""
        return by_task(self.recorded)


@dataclass(slots=True)
class Examiner:
    """An exam in progress. `chosen` are the names of the only cells to examine; empty for all."""

    trials: Trials
    report: Report
    until: float  # on time.monotonic(): no further cell begins after that
    chosen: frozenset[str] = frozenset()
    phases: Sequence[str] | None = None
    disk: bool = False
    begun: Callable[[Cell], None] = lambda cell: None
    _unbroken: Examined | None = None
    _again: Examined | None = None
    _spread: float | None = None  # how far apart the metric of two unbroken runs is
    _is_exact: bool = False
    _baseline: Baseline = NOTHING

    def examine(self) -> Iterator[CellResult]:
        """Examine the program. Ends early, with `report.irregular`, if it cannot be examined."""
        unbroken = self._unbroken = self._up("unbroken", {"fault": [NEVER]})
        result = unbroken.run.result
        if result is None or result.state is not RunState.SUCCEEDED:
            self.report.irregular = f"it fails even unbroken: {unbroken.why}."
            return
        self._baseline = baseline_of(result, unbroken.run.events)
        leader = self._leader(unbroken)
        if not self._baseline.last_step and (leader is None or not leader.last_step):
            self.report.irregular = f"{NO_STEPS}."
            return
        if not self.trials.template.job.limits.job:
            limit = round(max(60.0, 10 * self._baseline.duration))
            self.trials.template = self.trials.template.changed({"timeout": limit})
        yield from self._repeat()
        yield from self._equality()
        yield from self._resume()
        yield from self._survival()

    def replay(self, cell: Cell) -> str:
        """Return the command that examines this cell alone."""
        template = self.trials.template.changed({"seed": self.report.seed}, "run_id", "timeout")
        return template.command("exam", f"--cell={cell}")

    # --- chapters

    def _repeat(self) -> Iterator[CellResult]:
        """The same job again, which tells how exactly other runs can be compared."""
        cell = Cell(Chapter.REPEAT, "unbroken")
        self.begun(cell)
        again = self._again = self._up("again", {"fault": [NEVER], "record": self._steps()})
        assert self._unbroken is not None
        if not again.run.has_succeeded:
            yield self.report.add(judged(cell, [Finding("not-recovered", f"It failed: {again.why}.")], again.run_id))
            return
        self._spread = self._apart(again.run)
        first, second = self._leader(self._unbroken), self._leader(again)
        exact = compares_exactly(self.trials.template.job)
        notes = () if first is None else tuple(first.notes)
        if not exact:
            notes = (*notes, "parameter servers take updates as they come: runs are compared by their metric")
        elif first is None or second is None or first.end is None or second.end is None:
            yield self.report.add(not_reached(cell, "; ".join(notes) or "no variables were seen", again.run_id))
            return
        elif kinds := differing_kinds(first.end, second.end):
            name = next(iter(kinds.values()))
            text = f"Two unbroken runs with the same seed end with another {name}: the program is not deterministic."
            remedy = "Seed what draws at random: numpy.random.default_rng(seed), tf.keras.utils.set_random_seed(seed)."
            finding = Finding("not-deterministic", text, remedy)
            yield self.report.add(judged(cell, [finding], self._unbroken.run_id, again.run_id, notes=notes))
            return
        else:
            self._is_exact = True
        yield self.report.add(judged(cell, [], self._unbroken.run_id, again.run_id, notes=notes))

    def _equality(self) -> Iterator[CellResult]:
        """One worker against several."""
        job = self.trials.template.job
        workers = len(job.steppers) if compares_exactly(job) else job.counts.get(TaskType.WORKER, 0)
        cell = Cell(Chapter.EQUALITY, f"1-against-{workers}")
        if not self._is_wanted(cell) or workers < 2:
            return
        self.begun(cell)
        counts: Options = {"workers": 1} if job.counts.get(TaskType.PS) else {"workers": 1, "chief": False}
        assert self._again is not None
        again, steps, notes = self._again, self._steps(), list[str]()
        if draws(again.tasks()):
            steps = f"{steps},no-dropout"
            again = self._up("without-dropout", {"fault": [NEVER], "record": steps})
            notes.append("dropout was switched off, since several workers drop something else than one does")
        alone = self._up("one-worker", {**counts, "fault": [NEVER], "record": steps})
        runs = alone.run_id, again.run_id
        if not (alone.run.has_succeeded and again.run.has_succeeded):
            yield self.report.add(not_reached(cell, f"with one worker the job fails: {alone.why}", *runs))
            return
        one, several = self._leader(alone), again.tasks()
        if not compares_exactly(job):
            yield self.report.add(judged(cell, self._metric(alone.run), *runs))
        elif one is None or len(several) < workers:
            yield self.report.add(not_reached(cell, "no variables were seen in every worker", *runs))
        else:
            notes += [] if one.rows else ["rows were not counted"]
            yield self.report.add(judged(cell, equality(one, several), *runs, notes=notes))

    def _resume(self) -> Iterator[CellResult]:
        """Stopped and continued, or killed and restarted, against unbroken."""
        middle = middle_step(self._baseline)
        leader = self.trials.template.job.leader
        ways: dict[str, tuple[int, Options]] = {}
        if middle is not None:
            ways["stopped-between-checkpoints"] = middle, {}
            ways["killed-between-checkpoints"] = middle, {"fault": [f"kill {leader} @ step={middle}"]}
            if saved := self._newest_before(middle):
                ways["stopped-after-a-checkpoint"] = saved, {}
        for name, (step, changes) in ways.items():
            cell = Cell(Chapter.RESUME, name)
            if not self._is_wanted(cell):
                continue
            if not self._baseline.checkpoints:
                yield self.report.add(not_reached(cell, SAVES_NOTHING))
                continue
            self.begun(cell)
            yield self.report.add(self._resumed(cell, step, changes))

    def _resumed(self, cell: Cell, step: int, changes: Options) -> CellResult:
        record: Options = {"record": self._steps()}
        stops = not changes
        waiting: Options = changes or {"fault": [NEVER]}  # so that each step is reported at once
        hold: Options = {"record": f"{self._steps()},hold={step}"}
        broken = self._up(cell.name, {**waiting, **hold}, step if stops else None)
        runs = [broken.run_id]
        if not stops and broken.run.result is not None and broken.run.result.not_injected:
            return not_reached(cell, broken.run.result.not_injected[0].why, *runs)
        last = broken
        if broken.run.has_succeeded and all(recording.attempt == 1 for recording in broken.tasks()):
            return not_reached(cell, "the training ended before it was stopped", *runs)
        if stops and not broken.run.has_succeeded:
            last = self._up(f"{cell.name}-resumed", {"resume": broken.run_id, "fault": [NEVER], **record})
            runs.append(last.run_id)
        if not last.run.has_succeeded:
            return judged(cell, [Finding("not-recovered", f"The continued run failed: {last.why}.")], *runs)
        assert self._again is not None
        mine, theirs = self._leader(self._again), self._leader(last)
        if not self._is_exact or mine is None or theirs is None:
            return judged(cell, self._metric(last.run), *runs)
        return judged(cell, resumption(mine, theirs), *runs)

    def _survival(self) -> Iterator[CellResult]:
        """Each fault in each phase."""
        for one in survival_cells(self.trials.template.job, self._baseline, self.disk):
            if not self._is_wanted(one.cell) or (self.phases is not None and one.phase not in self.phases):
                continue
            if one.phase == "restoring" and not self._baseline.checkpoints:
                yield self.report.add(not_reached(one.cell, SAVES_NOTHING))
                continue
            self.begun(one.cell)
            yield self.report.add(self._broken(one))

    def _broken(self, one: SurvivalCell) -> CellResult:
        job = self.trials.template.job
        faults = tuple(map(parse_fault, one.faults))
        changes: Options = {"fault": list(one.faults)}
        if "restart_budget" not in self.trials.template.options and job.restart.budget == RestartRules().budget:
            changes["restart_budget"] = budget(faults, job.restart)
        broken = self._up(one.cell.name.replace("/", "-").replace(":", "-"), {**changes, "record": self._steps()})
        result = broken.run.result
        if result is not None and result.not_injected:
            return not_reached(one.cell, result.not_injected[-1].why, broken.run_id)
        events = broken.run.events
        left = find_leaks(self.trials.store, broken.run_id).sentences
        said = violations(replace(job, faults=faults), self._baseline, result, events, left, Measure())
        differing = ""
        if self._is_exact and self.report.passed(Chapter.RESUME) and self._again is not None:
            mine, theirs = self._leader(self._again), self._leader(broken)
            if mine is not None and theirs is not None and mine.end is not None and theirs.end is not None:
                differing = next(iter(differing_kinds(mine.end, theirs.end).values()), "")
        found = judged(one.cell, survived(result, said, differing), broken.run_id)
        recoveries = ledger_of(job, events).incidents.report().recoveries
        seconds = [recovery.seconds for recovery in recoveries if recovery.seconds is not None]
        lost = [recovery.lost for recovery in recoveries if recovery.lost is not None]
        return replace(found, seconds=max(seconds, default=None), lost=sum(lost) if lost else None)

    # --- runs

    def _up(self, name: str, changes: Options, stop_at: int | None = None) -> Examined:
        record: Options = {"record": ",".join(map(str, STEPS)), "seed": self.report.seed}
        run = self.trials.up(f"{self.report.name}-{name}", {**record, **changes}, stop_at)
        return Examined(run, dict(recordings(run.run.recorded)))

    def _leader(self, examined: Examined) -> Recording | None:
        leader = self.trials.template.job.leader
        return next((one for one in examined.tasks() if one.task == leader), next(iter(examined.tasks()), None))

    def _steps(self) -> str:
        """The steps after which the state is recorded: also at each checkpoint from which a run may continue."""
        return ",".join(map(str, sorted({*STEPS, *self._baseline.checkpoints[:20]})))

    def _newest_before(self, step: int) -> int | None:
        return max((saved for saved in self._baseline.checkpoints if saved < step), default=None)

    def _is_wanted(self, cell: Cell) -> bool:
        if self.chosen:
            return str(cell) in self.chosen
        if time.monotonic() < self.until:
            return True
        self.report.skip([cell], "the time was up")
        return False

    def _apart(self, run: FinishedRun) -> float | None:
        """How far a run's metric is from the unbroken run's; None if it has none, or no number."""
        name = Measure().of(self._baseline)
        value = None if name is None else last_metrics(run.events).get(name)
        return None if name is None or value is None else abs(value - self._baseline.metrics[name])

    def _metric(self, run: FinishedRun) -> Iterator[Finding]:
        """Compare a run by its metric, within a bound that two unbroken runs give."""
        name, apart = Measure().of(self._baseline), self._apart(run)
        if name is None or apart is None:
            return
        expected = self._baseline.metrics[name]
        allowed = max(Measure().allowed(name, expected), SPREAD * (self._spread or 0.0))
        if apart > allowed:
            away = f"{apart:.4g} away from the unbroken run's {expected:.4g}"
            yield Finding("result-differs", f"The final {name} is {away}; {allowed:.4g} is allowed.")
