"""Rows about what is typed at a terminal."""

from __future__ import annotations

from clusterkit.explain.row import HOLDS, Evidence, Row, Words


def _of_clusterkit(evidence: Evidence) -> Words | None:
    return None if evidence.job is None else HOLDS


ROWS: tuple[Row, ...] = (
    Row(
        "no-standard-input",
        "EOFError: EOF when reading a line",
        r"^EOFError: EOF when reading a line$",
        "{task} reads its standard input at {line}, and tasks have none.",
        "Pass what the program asks for as an argument, or as a variable with --env NAME=VALUE.",
        _of_clusterkit,
    ),
)
