"""Conditions on the code in which an error was raised."""

from __future__ import annotations

from clusterkit.explain.row import HOLDS, Condition, Evidence, Words


def through(code: str) -> Condition:
    """The traceback passes through this code: a part of a path, a function or a line."""

    def holds(evidence: Evidence) -> Words | None:
        return HOLDS if code in evidence.first.text else None

    return holds


def not_through(code: str) -> Condition:
    """The traceback does not pass through this code."""

    def holds(evidence: Evidence) -> Words | None:
        return None if code in evidence.first.text else HOLDS

    return holds
