"""Formats an exam as text (the result and findings of each cell, and a table of the chapters) and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clusterkit.exam.model import NOT_COMPARABLE, Cell, CellResult, Chapter, Grade, Report
from clusterkit.text.dates import utc
from clusterkit.text.durations import shown
from clusterkit.text.printable import printable
from clusterkit.text.spelling import listed
from clusterkit.views.tables import table
from clusterkit.words import wire
from clusterkit.words.model import number_of

MARKS = {Grade.PASSED: "✔", Grade.FAILED: "✘", Grade.NOT_REACHED: "–", Grade.SKIPPED: "·"}
_TITLES = {
    Chapter.REPEAT: "Is it the same twice?",
    Chapter.EQUALITY: "Do one worker and several compute the same?",
    Chapter.RESUME: "Does it continue where it was?",
    Chapter.SURVIVAL: "Does it survive each fault in each phase?",
}
NOT_PROVED = (
    "An exam shows mistakes. It does not prove that there are none: it saw this data, these steps and this machine."
)
BUDGET_SPENT = "Cells were skipped because the time was up. Give the exam more time with --budget, as in --budget 30m."
Replay = Callable[[Cell], str]


def title(chapter: Chapter) -> str:
    return f"{chapter}: {_TITLES[chapter]}"


def cell_lines(report: Report, result: CellResult, replay: Replay) -> list[str]:
    """Format a finished cell: a line with the result, then findings and remedies.

    The last lines of a failed cell are its last run with the log, and the command that repeats the cell. A reason is
    omitted if an earlier cell of the chapter has the same reason.
    """
    head = f"  {MARKS[result.grade]} {result.cell}"
    first = report.first_alike(result)
    is_first = first is result
    took = [shown(result.duration)] if result.duration else []
    grade = [] if is_first else [f"{result.grade}, as {first.cell}"]
    lines = [f"{head:<50} {', '.join([*took, *recovery_of(result), *_end_of(report, result), *grade])}".rstrip()]
    if result.reason and is_first:
        # Such a reason says itself what was not possible: a comparison, although the cell's runs were.
        grade_text = "" if result.reason.startswith(NOT_COMPARABLE) else f"{result.grade}: "
        lines.append(f"      {grade_text}{result.reason}")
    for finding in result.findings:
        lines.append(f"      {finding.text}")
        if finding.remedy:
            lines.append(f"      → {finding.remedy}")
    if result.grade is Grade.FAILED:
        lines += [f"      {line}" for line in report.run_lines(result)]
        lines.append(f"      {replay(result.cell)}")
    return [printable(line) for line in lines]


def is_out_of_reach(result: CellResult) -> bool:
    """Return whether a fault's cell was not reached, and no run was made for it: the program has no such phase."""
    return result.cell.chapter is Chapter.SURVIVAL and result.grade is Grade.NOT_REACHED and not result.runs


def out_of_reach_lines(report: Report) -> list[str]:
    """Format the cells that `is_out_of_reach` selects, a line for each reason, so that they do not hide the others."""
    faults: dict[str, list[str]] = {}
    for result in filter(is_out_of_reach, report.results):
        faults.setdefault(result.reason, []).append(result.cell.name.partition("/")[0])
    if not faults:
        return []
    lines = [
        f"  {MARKS[Grade.NOT_REACHED]} {number_of('cell', sum(map(len, faults.values())))} of survival not reached"
    ]
    lines += [f"      {reason} ({', '.join(dict.fromkeys(names))})" for reason, names in faults.items()]
    return [printable(line) for line in lines]


def mark_of(report: Report) -> str:
    """Return the mark of an exam: a check mark only if it has passed and has seen every chapter."""
    if report.is_whole:
        return MARKS[Grade.PASSED]
    return MARKS[Grade.FAILED if report.count(Grade.FAILED) or report.invalid_reason else Grade.NOT_REACHED]


def recovery_of(result: CellResult) -> list[str]:
    """Return phrases about a cell's recovery, such as `recovered in 1.0 s` and `5 steps again`."""
    how = "started over from step 0" if result.starts_over else "recovered"
    took = [] if result.seconds is None else [f"{how} in {shown(result.seconds)}"]
    return [*took, f"{number_of('step', result.lost)} again"] if result.lost else took


def _end_of(report: Report, result: CellResult) -> list[str]:
    """Say where a cell that has passed ended, if another cell of its chapter failed: what that one saw may come later.

    A cell that fails says itself at which step.
    """
    has_failed = report.count(Grade.FAILED, result.cell.chapter) > 0
    is_part = result.grade is Grade.PASSED and result.until is not None
    return [f"compared until step {result.until}"] if is_part and has_failed else []


def summary(report: Report) -> str:
    """Format the table of the chapters, and the verdict."""
    rows = []
    for chapter in Chapter:
        if report.results_of(chapter):
            rows.append((str(chapter), *(str(report.count(grade, chapter)) for grade in Grade)))
    lines = [table(("CHAPTER", *(grade.upper() for grade in Grade)), rows)] if rows else []
    lines.append(f"{mark_of(report)} {printable(report.verdict())}")
    lines += [printable(line) for line in _unseen_lines(report)]
    if report.count(Grade.SKIPPED):
        lines.append(BUDGET_SPENT)
    left_out = () if report.setting is None else report.setting.left_out
    if report.count(Grade.FAILED) and left_out:
        lines.append(printable(f"The commands leave out the value of {listed(left_out)}: set it, or add --show-env."))
    return "\n".join([*lines, NOT_PROVED])


def _unseen_lines(report: Report) -> list[str]:
    """Return why chapters and cells that were asked for were not seen, if nothing else is wrong."""
    return [] if report.count(Grade.FAILED) or report.invalid_reason else report.why.splitlines()


def document(report: Report, replay: Replay) -> dict[str, Any]:
    """Return the exam as JSON. Durations are in seconds."""
    setting = report.setting
    return {
        "exam": report.name,
        "program": "" if setting is None else setting.program,
        "tasks": "" if setting is None else setting.tasks,
        "command": "" if setting is None else setting.command,
        "began": None if setting is None else utc(setting.began),
        "versions": {} if setting is None else dict(setting.versions),
        "seed": report.seed,
        "budget_seconds": report.budget,
        "exit_code": report.exit_code,
        "verdict": report.verdict(),
        "why_not_passed": report.why.splitlines(),
        "why_not_examined": report.invalid_reason,
        "interrupted": report.is_interrupted,
        "chapters_required": [chapter.value for chapter in report.asked],
        "chapters_not_examined": [chapter.value for chapter in report.unseen()],
        "chapters": {
            chapter.value: {grade.value.replace(" ", "_"): report.count(grade, chapter) for grade in Grade}
            for chapter in Chapter
        },
        "cells": [_cell_document(report, result, replay) for result in report.results],
    }


def _cell_document(report: Report, result: CellResult, replay: Replay) -> dict[str, Any]:
    return {
        "cell": str(result.cell),
        "chapter": result.cell.chapter.value,
        "grade": result.grade.value,
        "reason": result.reason,
        "findings": wire.encode(result.findings),
        "notes": list(result.notes),
        "duration_seconds": round(result.duration, 3),
        "recovery_seconds": result.seconds,
        "steps_trained_again": result.lost,
        "starts_over": result.starts_over,
        "compared_until_step": result.until,
        "runs": list(result.runs),
        "logs": [report.logs[run] for run in result.runs if run in report.logs and result.grade is Grade.FAILED],
        "command": replay(result.cell),
    }
