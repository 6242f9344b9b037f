"""Formats an exam as text (the result and findings of each cell, and a table of the chapters) and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clusterkit.exam.model import NOT_COMPARABLE, Cell, CellResult, Chapter, Grade, Report
from clusterkit.text.durations import shown
from clusterkit.text.printable import printable
from clusterkit.views.tables import table
from clusterkit.words import wire

MARKS = {Grade.PASSED: "✔", Grade.FAILED: "✘", Grade.NOT_REACHED: "–", Grade.SKIPPED: "–"}
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

    The last line of a failed cell is the command that repeats the cell. A reason is omitted if an earlier cell of the
    chapter has the same reason.
    """
    head = f"  {MARKS[result.grade]} {result.cell}"
    is_first = report.is_first(result)
    took = [shown(result.duration)] if result.duration else []
    grade = [] if is_first else [f"{result.grade} for the same reason"]
    lines = [f"{head:<50} {', '.join([*took, *recovery_of(result), *grade])}".rstrip()]
    if result.reason and is_first:
        # Such a reason says itself what was not possible: a comparison, although the cell's runs were.
        grade_text = "" if result.reason.startswith(NOT_COMPARABLE) else f"{result.grade}: "
        lines.append(f"      {grade_text}{result.reason}")
    for finding in result.findings:
        lines.append(f"      {finding.text}")
        if finding.remedy:
            lines.append(f"      → {finding.remedy}")
    if result.grade is Grade.FAILED:
        lines.append(f"      {replay(result.cell)}")
    return [printable(line) for line in lines]


def mark_of(report: Report) -> str:
    """Return the mark of an exam: a check mark only if no cell failed and every chapter has a cell that passed."""
    return MARKS[Grade.FAILED if report.exit_code else Grade.SKIPPED if report.unseen() else Grade.PASSED]


def recovery_of(result: CellResult) -> list[str]:
    """Return phrases about a cell's recovery, such as `recovered in 1.0 s` and `5 steps again`."""
    took = [] if result.seconds is None else [f"recovered in {shown(result.seconds)}"]
    return [*took, f"{result.lost} steps again"] if result.lost else took


def summary(report: Report) -> str:
    """Format the table of the chapters, and the verdict."""
    rows = []
    for chapter in Chapter:
        if report.results_of(chapter):
            rows.append((str(chapter), *(str(report.count(grade, chapter)) for grade in Grade)))
    drawn = table(("CHAPTER", *(grade.upper() for grade in Grade)), rows) + "\n" if rows else ""
    skipped = f"{BUDGET_SPENT}\n" if report.count(Grade.SKIPPED) else ""
    return f"{drawn}{mark_of(report)} {printable(report.verdict())}\n{skipped}{NOT_PROVED}"


def document(report: Report, replay: Replay) -> dict[str, Any]:
    return {
        "exam": report.name,
        "seed": report.seed,
        "exit_code": report.exit_code,
        "verdict": report.verdict(),
        "irregular": report.invalid_reason,
        "chapters": {
            chapter.value: {grade.value: report.count(grade, chapter) for grade in Grade} for chapter in Chapter
        },
        "cells": [
            {**wire.encode(result), "cell": str(result.cell), "command": replay(result.cell)}
            for result in report.results
        ],
    }
