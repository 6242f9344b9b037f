"""In which order an exam judges, what is repeated alone before a program is accused, and what costs nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from clusterkit.chaos.model import Baseline
from clusterkit.chaos.trial import JobTemplate, Trials
from clusterkit.exam import examiner as examiner_module
from clusterkit.exam.breaking import Interruption
from clusterkit.exam.examiner import DISTURBED, Examiner
from clusterkit.exam.model import Cell, CellResult, Chapter, ExamFinding, Grade, Report, judge, not_reached
from clusterkit.exam.plan import (
    KILLED,
    REPEAT,
    STOPPED,
    Experiment,
    Reading,
    Repetition,
    StopAndResume,
    WorkerComparison,
)
from clusterkit.exam.runs import ExaminedRun, ExamRuns, run_id_of
from clusterkit.exam.scheduler import Runs
from clusterkit.exam.survival import POWER, survival_cells
from clusterkit.job.options import JobOptions
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, TaskType
from clusterkit.words.outcome import RunResult, RunState

JOB = JobSpec(Program(ProgramKind.SCRIPT, "train.py"), {TaskType.WORKER: 2})
BREAKS = [one for one in survival_cells(JOB, Baseline(1.0, 20, (5, 10)), disk=False) if one.phase == "saved"]
KILL = next(one for one in survival_cells(JOB, Baseline(1.0, 20, (5, 10)), disk=False) if one.phase == "step")
SAVED = [Experiment((one.cell,), one) for one in BREAKS]
REPETITION = Experiment((REPEAT,), Repetition())
KILL_LEADER = Experiment((KILLED, KILL.cell), KILL)
STOP = Experiment((STOPPED,), StopAndResume(Interruption(JOB.leader, 7)))
EQUALITY = Experiment((Cell(Chapter.EQUALITY, "1-against-2"),), WorkerComparison(2))
FREE = Experiment((POWER,), Reading())
WRONG, UNREACHED = "weights", "unreached"


class Script:
    """An exam whose runs and judgements are written down beforehand.

    `codes` maps the name of a cell to what is found in it, the first time, the second time and so on.
    """

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, codes: Mapping[str, Sequence[str]]) -> None:
        self.codes, self.made, self.judged, self.times = codes, list[str](), list[str](), Counter[str]()
        trials = Trials(JobTemplate(JOB, JobOptions()), "exam-1", kind="exam", store=RunStore(home))
        self.report = Report("exam-1", 7)
        self.examiner = Examiner(trials, self.report, time.monotonic() + 60)
        monkeypatch.setattr(examiner_module, "_make_runs", self.make)
        monkeypatch.setattr(Examiner, "_judge", self.judge)

    def make(self, runs: ExamRuns, one: Experiment, unbroken: ExaminedRun, more: str = "") -> Runs:
        """Make no run at all, and take note of it."""
        self.made.append(f"{one.name}{more}")
        state = RunState.FAILED if f"{one.name} fails" in self.codes else RunState.SUCCEEDED
        return (ExaminedRun(RunDirectory(Path("run")), RunResult(state, 0, ""), [], []),)

    def judge(self, runs: object, state: object, one: Experiment, made: Runs, more: str = "") -> Iterator[CellResult]:
        """Find what is written down."""
        if isinstance(one.subject, Repetition):
            state.again = made[0]  # type: ignore[attr-defined]
        for cell in one.cells:
            found = self.codes.get(cell.name, ())
            code = found[self.times[cell.name]] if self.times[cell.name] < len(found) else ""
            self.times[cell.name] += 1
            self.judged.append(cell.name)
            if code == UNREACHED:
                yield not_reached(cell, "nothing had been saved")
            else:
                yield judge(cell, [ExamFinding(code, f"It is wrong: {cell.name}.")] if code else [])

    def run(self, *experiments: Experiment, slots: int = 2, unreached: Sequence[CellResult] = ()) -> list[CellResult]:
        """The results, in the order in which they come."""
        unbroken = ExaminedRun(RunDirectory(Path("run")), None, [], [])
        runs = cast("ExamRuns", None)
        return list(self.examiner._carry_out(runs, unbroken, experiments, unreached, slots))


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """An exam in which nothing is found, unless a test writes something down."""
    return Script(tmp_path, monkeypatch, {})


def test_what_needs_another_judgement_waits_for_it(script: Script) -> None:
    """Nothing before the repetition; survival after the killed leader, which shows whether the job resumes at all."""
    script.run(SAVED[0], EQUALITY, KILL_LEADER, REPETITION, slots=1)
    assert script.judged[0] == REPEAT.name
    assert script.judged.index(KILLED.name) < script.judged.index(SAVED[0].cells[0].name)
    assert len(script.judged) == 5


def test_survival_alone_waits_for_nothing_else(script: Script) -> None:
    """As when one cell is chosen."""
    results = script.run(REPETITION, SAVED[0])
    assert [one.grade for one in results] == [Grade.PASSED, Grade.PASSED]


@pytest.mark.parametrize("name", [SAVED[0].cells[0].name, REPEAT.name])
def test_what_fails_beside_other_runs_is_repeated_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it passes then, the runs have disturbed each other: the program is not accused, and from now on runs alone."""
    script = Script(tmp_path, monkeypatch, {name: ["not-recovered"]})
    results = {str(one.cell): one for one in script.run(REPETITION, KILL_LEADER, *SAVED[:3])}
    assert {one.grade for one in results.values()} == {Grade.PASSED}
    assert sum(made.endswith("-alone") for made in script.made) == 1
    (disturbed,) = (one for one in results.values() if one.notes)
    assert disturbed.cell.name == name
    assert disturbed.notes == (DISTURBED,)


def test_what_fails_alone_too_is_a_failure_and_its_like_are_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake that forty cells find is confirmed once."""
    names = [one.cells[0].name for one in SAVED[:3]]
    script = Script(tmp_path, monkeypatch, {name: [WRONG] * 3 for name in names})
    results = script.run(REPETITION, KILL_LEADER, *SAVED[:3])
    assert sum(one.grade is Grade.FAILED for one in results) == 3
    assert sum(made.endswith("-alone") for made in script.made) == 1


def test_what_fails_alone_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run at a time disturbs nobody."""
    script = Script(tmp_path, monkeypatch, {STOPPED.name: [WRONG]})
    results = script.run(REPETITION, STOP, slots=1)
    assert [one.grade for one in results] == [Grade.PASSED, Grade.FAILED]
    assert len(script.made) == 2


@pytest.mark.parametrize(("times", "grade"), [(1, Grade.PASSED), (2, Grade.NOT_REACHED)])
def test_what_is_missed_beside_other_runs_is_tried_alone(
    times: int, grade: Grade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once. A comparison that is not possible, such as that of rows in another order, is not possible alone either."""
    codes = {STOPPED.name: [UNREACHED] * times, EQUALITY.cells[0].name: [UNREACHED]}
    script = Script(tmp_path, monkeypatch, codes)
    results = {one.cell: one.grade for one in script.run(REPETITION, STOP, EQUALITY, slots=3)}
    assert results[STOPPED] is grade
    assert results[EQUALITY.cells[0]] is Grade.NOT_REACHED
    assert [made for made in script.made if made.endswith("-alone")] == [f"{STOP.name}-alone"]


def test_a_run_that_two_experiments_share_may_have_been_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So one that continues it later, alone, is repeated alone if it fails."""
    fewer = Experiment((Cell(Chapter.RESUME, "continued-by-1-worker"),), StopAndResume(Interruption(JOB.leader, 7), 1))
    script = Script(tmp_path, monkeypatch, {STOPPED.name: [WRONG], "continued-by-1-worker": [WRONG]})
    results = script.run(REPETITION, STOP, fewer)
    assert {one.grade for one in results} == {Grade.PASSED}
    assert {"stopped-between-checkpoints-alone", "continued-by-1-worker-alone"} < set(script.made)


@pytest.mark.parametrize("length", [3, 40])
def test_the_ids_of_runs_are_not_too_long(length: int) -> None:
    """Whatever the exam is called; and no two are equal."""
    names = ["again", "stopped-between-checkpoints-alone-resumed", "stopped-between-checkpoints-alone-other"]
    ids = [run_id_of("e" * length, name, number) for number, name in enumerate(names)]
    assert len(set(ids)) == len(names)
    assert all(len(one) <= 64 for one in ids)
    assert ids[0] == f"{'e' * length}-again"


def test_cells_that_cost_nothing_are_examined_when_the_time_is_up(script: Script) -> None:
    """And cells that can't be reached are told; the others are skipped."""
    script.examiner.until = time.monotonic() - 1
    lost = not_reached(Cell(Chapter.RESUME, "x"), "it saves nothing")
    results = script.run(REPETITION, FREE, EQUALITY, unreached=[lost])
    assert [one.cell for one in results] == [POWER, lost.cell]
    assert {str(one.cell) for one in script.report.results if one.grade is Grade.SKIPPED} == {
        str(REPEAT),
        str(EQUALITY.cells[0]),
    }


def test_free_cells_come_right_after_the_repetition(script: Script) -> None:
    """Wherever they stand in the plan."""
    results = script.run(REPETITION, EQUALITY, KILL_LEADER, FREE, slots=1)
    assert [one.cell for one in results][:2] == [REPEAT, POWER]


def test_a_second_run_that_fails_ends_the_exam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to compare with."""
    script = Script(tmp_path, monkeypatch, {REPEAT.name: [WRONG] * 2, f"{REPEAT.name} fails": []})
    results = script.run(REPETITION, EQUALITY, KILL_LEADER)
    assert [one.cell for one in results] == [REPEAT]
