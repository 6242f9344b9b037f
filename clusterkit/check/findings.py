"""Findings: problems in a program, each with a line and a fix. Functions here format findings as text and as JSON."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusterkit.text.printable import printable


class Severity(enum.StrEnum):
    """ERROR marks a line that makes every run of the job fail. WARNING marks a line with which a run may succeed.

    `up` does not start a program with an error unless --no-check is given.
    """

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in a program, and the advice that fixes it.

    `word` names the subject of the problem, such as a module that a file shadows.

    The row of clusterkit/explain with the same id matches the tracebacks that the problem causes.
    """

    id: str
    location: Location
    what: str
    advice: str
    word: str = ""
    severity: Severity = Severity.WARNING

    def __str__(self) -> str:
        return f"{self.location}: {self.severity}: {self.what} {self.advice} [{self.id}]"


def as_text(findings: Sequence[Finding]) -> str:
    """Format the findings like a compiler's output: one line for each finding, and a summary line."""
    return "".join(f"{line}\n" for line in [*(printable(str(finding)) for finding in findings), _summary(findings)])


def as_json(program: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """Convert the findings to a JSON document, with the numbers of errors and warnings."""
    return {
        "program": program,
        "findings": [
            {
                "id": finding.id,
                "severity": finding.severity.value,
                "file": finding.location.file,
                "line": finding.location.line,
                "what": finding.what,
                "advice": finding.advice,
            }
            for finding in findings
        ],
        "errors": _count(findings, Severity.ERROR),
        "warnings": _count(findings, Severity.WARNING),
    }


def _count(findings: Sequence[Finding], severity: Severity) -> int:
    return sum(finding.severity is severity for finding in findings)


def _summary(findings: Sequence[Finding]) -> str:
    if not findings:
        return "No findings."
    counts = [(_count(findings, severity), severity.value) for severity in Severity]
    return " and ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count) + "."
