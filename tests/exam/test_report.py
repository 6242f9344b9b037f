"""The verdict of an exam: its exit code, its check mark, what it says was not seen, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from clusterkit.exam.model import (
    Cell,
    CellResult,
    Chapter,
    ExamFinding,
    Grade,
    Report,
    Setting,
    judge,
    not_reached,
    parse_cell,
)
from clusterkit.exam.text import (
    cell_lines,
    document,
    is_out_of_reach,
    mark_of,
    out_of_reach_lines,
    summary,
)

PASSED, FAILED, NOT_REACHED, SKIPPED = Grade
REPEAT, EQUALITY, RESUME, SURVIVAL = Chapter
NO_CHECKPOINT = "the program saves no checkpoint"


def report_of(*graded: tuple[Chapter, Grade], asked: Sequence[Chapter] = tuple(Chapter)) -> Report:
    """An exam whose cells ended so."""
    report = Report("exam-1", 7, asked=tuple(asked))
    for number, (chapter, grade) in enumerate(graded):
        reason = NO_CHECKPOINT if grade in (NOT_REACHED, SKIPPED) else ""
        report.results.append(CellResult(Cell(chapter, f"kill/worker:{number}/step"), grade, reason))
    return report


def replay(cell: Cell) -> str:
    """The command that repeats a cell."""
    return f"clusterkit exam --cell={cell} train.py"


LOG = "/runs/{}/attempt-1.log"
ALL = [(chapter, PASSED) for chapter in Chapter]
FIRST_THREE = ALL[:3]


@pytest.mark.parametrize(
    ("graded", "asked", "code", "mark"),
    [
        (ALL, Chapter, 0, "✔"),
        ([*ALL, (SURVIVAL, NOT_REACHED), (RESUME, SKIPPED)], Chapter, 0, "✔"),
        ([*ALL, (SURVIVAL, FAILED)], Chapter, 1, "✘"),
        (FIRST_THREE, Chapter, 3, "–"),
        ([*FIRST_THREE, (SURVIVAL, NOT_REACHED)], Chapter, 3, "–"),
        ([*FIRST_THREE, (SURVIVAL, SKIPPED)], Chapter, 3, "–"),
        ([*FIRST_THREE, (SURVIVAL, SKIPPED)], [EQUALITY, RESUME], 0, "–"),
        ([(REPEAT, PASSED), (RESUME, PASSED)], [RESUME], 0, "–"),
        ([(REPEAT, PASSED), (RESUME, NOT_REACHED)], [RESUME], 3, "–"),
        ([(SURVIVAL, NOT_REACHED)], Chapter, 4, "–"),
        ([], Chapter, 4, "–"),
    ],
)
def test_exit_code_and_mark(
    graded: Sequence[tuple[Chapter, Grade]], asked: Sequence[Chapter], code: int, mark: str
) -> None:
    """0 needs a cell of each chapter that was asked for; the check mark needs one of each chapter."""
    report = report_of(*graded, asked=tuple(asked))
    assert report.exit_code == code
    assert report.ok == (code == 0)
    assert mark_of(report) == mark
    assert bool(report.why) == ((code != 0 and bool(graded)) or not graded)


@pytest.mark.parametrize(("graded", "code"), [(ALL, 4), ([*ALL, (RESUME, FAILED)], 1), ([], 4)])
def test_a_program_that_could_not_be_examined(graded: Sequence[tuple[Chapter, Grade]], code: int) -> None:
    """Is not one that passed, whatever was seen before."""
    report = report_of(*graded)
    report.invalid_reason = "it stopped."
    assert report.exit_code == code
    assert mark_of(report) == "✘"
    assert report.why.startswith("The program could not be examined: it stopped.")


def test_an_interrupted_exam_has_no_check_mark() -> None:
    """Even if every chapter was seen before the signal."""
    report = report_of(*ALL)
    report.is_interrupted = True
    assert mark_of(report) == "–"
    assert report.verdict() == "Interrupted: 4 of 4 cells passed."
    early = report_of((REPEAT, PASSED))
    early.is_interrupted = True
    assert early.verdict() == (
        "Interrupted: 1 of 1 cell passed. Nothing of equality, resume and survival was examined."
    )
    assert "resume was not seen: the exam was interrupted." in early.why


def test_a_cell_that_was_asked_for_has_to_pass() -> None:
    """Also if another cell of its chapter does."""
    report = report_of((REPEAT, PASSED), (RESUME, PASSED), asked=[RESUME])
    report.asked_cells = ("resume/x",)
    report.add(not_reached(Cell(RESUME, "x"), NO_CHECKPOINT))
    assert report.exit_code == 3
    assert report.why == f"resume/x was not reached: {NO_CHECKPOINT}."
    report.results[-1] = judge(Cell(RESUME, "x"), [])
    assert report.ok
    report.asked = (RESUME, EQUALITY)
    assert report.why == "equality was not seen: no cell of it was examined."


def test_a_job_of_one_worker() -> None:
    """Has no equality, which is said and counts only if a test insists on it."""
    some = [(REPEAT, PASSED), (RESUME, PASSED), (SURVIVAL, PASSED)]
    chapters = (REPEAT, RESUME, SURVIVAL)
    report = report_of(*some, asked=chapters)
    report.chapters = chapters
    assert (report.exit_code, mark_of(report)) == (0, "✔")
    assert report.verdict() == "3 of 3 cells passed. Only one worker trains, so equality was not examined."
    report.asked = (EQUALITY,)
    assert report.exit_code == 3
    assert report.why == "equality was not seen: only one worker trains."


def test_an_exam_of_some_chapters_passes_as_such() -> None:
    """Its check mark is for these alone, and the line says so."""
    report = report_of((REPEAT, PASSED), (RESUME, PASSED), asked=[RESUME])
    report.chosen = (RESUME,)
    assert (report.exit_code, mark_of(report)) == (0, "✔")
    assert report.verdict() == "2 of 2 cells passed. Only resume had to be examined."
    report.chosen = (RESUME, SURVIVAL)
    assert (report.exit_code, mark_of(report)) == (0, "–")
    assert "Nothing of survival was examined. Only resume and survival had" in report.verdict()
    report.chosen, report.asked_cells = (RESUME,), ("resume/kill/worker:1/step",)
    assert (report.exit_code, mark_of(report)) == (0, "✔")
    assert report.verdict() == "2 of 2 cells passed. Only 1 cell had to be examined."


def test_a_cell_that_ended_early_says_where_beside_one_that_failed() -> None:
    """The other one may have failed by what came later."""
    report = Report("exam-1", 7)
    early = [CellResult(Cell(RESUME, name), PASSED, until=24) for name in ("one", "two")]
    first = report.add(early[0])
    assert cell_lines(report, first, replay)[0].endswith("resume/one")
    report.add(judge(Cell(RESUME, "killed"), [ExamFinding("epoch", "5 steps too many.")]))
    second = report.add(early[1])
    assert cell_lines(report, second, replay)[0].endswith("compared until step 24")
    assert document(report, replay)["cells"][2]["compared_until_step"] == 24


def test_a_job_that_starts_over_has_not_recovered_where_it_was() -> None:
    """It saves nothing, so that nothing was lost that it had kept."""
    report = Report("exam-1", 7)
    result = report.add(CellResult(Cell(SURVIVAL, "kill"), PASSED, seconds=3.5, lost=20, starts_over=True))
    (line,) = cell_lines(report, result, replay)
    assert line.endswith("started over from step 0 in 3.5 s, 20 steps again")
    assert document(report, replay)["cells"][0]["starts_over"] is True


def test_an_exam_that_has_seen_nothing_says_so() -> None:
    """Even if nothing was required."""
    report = report_of((RESUME, NOT_REACHED), asked=())
    assert report.why == report.verdict()


def test_why_a_test_fails() -> None:
    """What failed with its remedy, and why chapters were not seen; each reason once."""
    report = Report("exam-1", 7, asked=(EQUALITY, RESUME))
    report.add(judge(Cell(REPEAT, "unbroken"), []))
    report.add(judge(Cell(EQUALITY, "1-against-2"), [ExamFinding("x", "The gradients are too large.", "Divide.")], "r"))
    report.logs["r"] = "/r/attempt-1.log"
    report.add(not_reached(Cell(RESUME, "a"), NO_CHECKPOINT))
    report.add(not_reached(Cell(RESUME, "b"), NO_CHECKPOINT))
    assert report.why.splitlines() == [
        "equality/1-against-2 failed:",
        "  The gradients are too large.",
        "  → Divide.",
        "  run r, its log: /r/attempt-1.log",
        f"resume was not seen: {NO_CHECKPOINT}.",
    ]


def test_cells_that_the_budget_did_not_reach_are_counted() -> None:
    """With the budget, and how to change it."""
    report = report_of((SURVIVAL, PASSED), (SURVIVAL, FAILED), (SURVIVAL, SKIPPED), (RESUME, SKIPPED))
    report.chapters = report.asked = (RESUME, SURVIVAL)
    report.budget = 60.0
    told = "1 of 4 cells passed, 1 failed; 2 not run within 1m. Nothing of resume was examined."
    assert report.verdict().startswith(told)
    assert "Cells were skipped because the time was up. Give the exam more time with --budget" in summary(report)


def test_what_was_not_seen_is_said_in_the_end() -> None:
    """With the reason."""
    report = report_of((REPEAT, PASSED), (EQUALITY, PASSED), (RESUME, NOT_REACHED), (SURVIVAL, PASSED))
    assert f"\nresume was not seen: {NO_CHECKPOINT}.\n" in summary(report)


def test_a_reason_is_given_once_in_a_chapter() -> None:
    """Later cells refer to it."""
    report = Report("exam-1", 7)
    cells = [Cell(chapter, name) for chapter in (RESUME, SURVIVAL) for name in ("a", "b")]
    results = [report.add(not_reached(cell, NO_CHECKPOINT)) for cell in cells]
    lines = [cell_lines(report, result, replay) for result in results]
    assert [len(each) for each in lines] == [2, 1, 2, 1]
    assert lines[1][0].endswith(f"not reached, as {cells[0]}")
    assert lines[3][0].endswith(f"not reached, as {cells[2]}")


def test_faults_in_phases_that_a_program_has_not_are_a_line_for_each_reason() -> None:
    """They would hide the others; a cell whose run was made is told by itself."""
    report = Report("exam-1", 7)
    assert out_of_reach_lines(report) == []
    names = ("kill/worker:0/exporting", "term/worker:0/exporting", "kill/worker:0/evaluating", "kill/worker:1/step")
    reasons = ("no export", "no export", "no evaluation", "it missed the step")
    for name, reason in zip(names, reasons, strict=True):
        report.add(not_reached(Cell(Chapter.SURVIVAL, name), reason, *(["run"] if "step" in name else [])))
    report.add(not_reached(Cell(Chapter.RESUME, "killed-between-checkpoints"), "no checkpoint"))
    assert [is_out_of_reach(one) for one in report.results] == [True, True, True, False, False]
    assert out_of_reach_lines(report) == [
        "  – 3 cells of survival not reached",
        "      no export (kill, term)",
        "      no evaluation (kill)",
    ]


def examined() -> Report:
    """An exam of a program whose equality fails, and that saves nothing."""
    setting = Setting("train.py", "2 workers", "clusterkit exam train.py", 1.8e9, {"tensorflow": "2.20"}, ("KEY",))
    report = Report("exam-1", 7, budget=60.0, setting=setting)
    report.durations |= {"exam-1-again": 2.0, "exam-1-one": 1.5, "exam-1-two": 4.0}
    report.add(judge(Cell(REPEAT, "unbroken"), [], "exam-1-again"))
    found = ExamFinding("loss-summed", "The gradients are 2 times too large.", "Divide by the global batch.")
    report.add(judge(Cell(EQUALITY, "1-against-2"), [found], "exam-1-one", "exam-1-again"))
    report.logs |= {run: LOG.format(run) for run in ("exam-1-one", "exam-1-again")}
    report.add(not_reached(Cell(RESUME, "killed"), NO_CHECKPOINT))
    passed = judge(Cell(SURVIVAL, "kill/worker:0/step"), [], "exam-1-two")
    report.add(CellResult(passed.cell, passed.grade, runs=passed.runs, seconds=0.5, lost=1))
    return report


def test_an_exam_as_text() -> None:
    """A failed cell names what was found, its run, the log, and the command that repeats it."""
    report = examined()
    failed = cell_lines(report, report.results[1], replay)
    assert [line.strip() for line in failed[1:]] == [
        "The gradients are 2 times too large.",
        "→ Divide by the global batch.",
        "run exam-1-again, its log: /runs/exam-1-again/attempt-1.log",
        "clusterkit exam --cell=equality/1-against-2 train.py",
    ]
    assert failed[0].split() == ["✘", "equality/1-against-2", "1.5", "s"]
    (passed,) = cell_lines(report, report.results[3], replay)
    assert passed.split(maxsplit=2)[2] == "4.0 s, recovered in 0.5 s, 1 step again"
    text = summary(report)
    assert "✘ 2 of 4 cells passed, 1 failed; 1 not reached. Nothing of resume was examined." in text
    assert "The commands leave out the value of KEY: set it, or add --show-env." in text


def test_an_exam_as_json() -> None:
    """Whoever reads it finds what was examined, durations beside recovery times, and what was not seen."""
    told = json.loads(json.dumps(document(examined(), replay)))
    assert told["program"] == "train.py"
    assert told["command"] == "clusterkit exam train.py"
    assert told["began"] == "2027-01-15 08:00:00 UTC"
    assert told["versions"] == {"tensorflow": "2.20"}
    assert told["exit_code"] == 1
    assert told["chapters_not_examined"] == ["resume"]
    assert told["chapters"]["resume"] == {"passed": 0, "failed": 0, "not_reached": 1, "skipped": 0}
    repeat, equality, _, survival = told["cells"]
    assert equality["findings"][0]["code"] == "loss-summed"
    assert equality["logs"] == [LOG.format("exam-1-one"), LOG.format("exam-1-again")]
    assert equality["command"] == replay(Cell(EQUALITY, "1-against-2"))
    assert [one["duration_seconds"] for one in told["cells"]] == [2.0, 1.5, 0.0, 4.0]
    assert (survival["recovery_seconds"], survival["steps_trained_again"], survival["logs"]) == (0.5, 1, [])
    assert repeat["recovery_seconds"] is None


def test_the_same_finding_is_explained_once() -> None:
    """Forty cells that fail in the same way do not repeat what to do."""
    report = Report("exam-1", 7)
    for number in range(3):
        found = ExamFinding("not-recovered", "The job did not recover.", "Save checkpoints.")
        report.add(judge(Cell(SURVIVAL, str(number)), [found]))
    assert [one.findings[0].remedy for one in report.results] == ["Save checkpoints.", "", ""]


@pytest.mark.parametrize("text", ["", "resume", "resume/", "unknown/x", "resume/x y", "resume/x;rm", "resume/x\n"])
def test_what_is_not_the_name_of_a_cell(text: str) -> None:
    """Is refused with an example."""
    with pytest.raises(ValueError, match="is not a cell"):
        parse_cell(text)
    assert parse_cell("survival/kill/worker:1/step") == Cell(SURVIVAL, "kill/worker:1/step")
