"""The findings of a check for people, one a line, and for programs, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusterkit.rules.printable import printable
from clusterkit.words.findings import Finding, Severity


def as_text(findings: Sequence[Finding]) -> str:
    """Where, what and what to do, as compilers write it; then the sum."""
    return "".join(f"{line}\n" for line in [*(printable(str(finding)) for finding in findings), _sum(findings)])


def as_json(program: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """Every finding, and how many of each kind there are."""
    return {
        "program": program,
        "findings": [
            {
                "id": finding.id,
                "severity": finding.severity.value,
                "file": finding.place.file,
                "line": finding.place.line,
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


def _sum(findings: Sequence[Finding]) -> str:
    if not findings:
        return "Nothing was found."
    counts = [(_count(findings, severity), severity.value) for severity in Severity]
    return " and ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count) + "."
