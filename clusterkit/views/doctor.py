"""Findings for people, as lines in groups, and for programs, as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from clusterkit.words.doctor import Finding, Grade, Topic
from clusterkit.words.printable import printable

MARKS = {Grade.FINE: "✔", Grade.NOTE: "·", Grade.DOUBT: "!", Grade.WRONG: "✘"}
COLORS = {Grade.FINE: "\033[32m", Grade.NOTE: "\033[2m", Grade.DOUBT: "\033[33m", Grade.WRONG: "\033[31m"}
PLAIN = "\033[0m"
WIDTH = 100  # columns; commands to copy are not broken


def as_text(findings: Sequence[Finding], color: bool) -> str:
    """A page: the groups in their order, then the sum."""
    lines = []
    pythons = {finding.about for finding in findings if finding.about}
    for topic in Topic:
        group = [finding for finding in findings if finding.topic is topic]
        lines += [topic.value] if group else []
        for finding in group:
            # Where there are several interpreters, which one is meant is in the text of some findings only.
            about = f"{finding.about}: " if len(pythons) > 1 and finding.about not in finding.text else ""
            lines += _lines(finding, about, color)
    return "\n".join([*lines, _sum(findings), ""])


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings, and how many of them are wrong or doubtful."""
    return {
        "findings": [
            {
                "topic": finding.topic.name.lower(),
                "name": finding.name,
                "grade": finding.grade.value,
                "text": finding.text,
                "interpreter": finding.about or None,
            }
            for finding in findings
        ],
        "wrong": _count(findings, Grade.WRONG),
        "doubts": _count(findings, Grade.DOUBT),
    }


def _lines(finding: Finding, about: str, color: bool) -> list[str]:
    mark = MARKS[finding.grade]
    mark = f"{COLORS[finding.grade]}{mark}{PLAIN}" if color else mark
    sentence, run, command = printable(finding.text).partition(" Run: ")
    lines = textwrap.wrap(f"{about}{sentence}", WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    lines += [f"Run: {command}"] if run else []
    return [f"  {mark} {lines[0]}", *(f"    {line}" for line in lines[1:])]


def _count(findings: Sequence[Finding], grade: Grade) -> int:
    return sum(finding.grade is grade for finding in findings)


def _sum(findings: Sequence[Finding]) -> str:
    wrong, doubts = _count(findings, Grade.WRONG), _count(findings, Grade.DOUBT)
    if not wrong and not doubts:
        return "Nothing is wrong."
    said = "Nothing is wrong" if not wrong else "1 thing is wrong" if wrong == 1 else f"{wrong} things are wrong"
    things = "1 thing" if doubts == 1 else f"{doubts} things"
    return f"{said}; {things} may matter to you (!)." if doubts else f"{said}."
