"""The explanation of a failure: what the failure means, and what to do, from the table in clusterkit/explain."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.words.model import Task


@dataclass(frozen=True, slots=True)
class Explanation:
    """A row of the table that matches a failure, with its texts filled in for this failure.

    `task` is the task whose failure or log matches the row; None for a log of unknown origin. `reported` are public
    issue threads, each written as `owner/repository#number`.
    """

    row: str
    task: Task | None
    means: str
    advice: str
    reported: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.means} {self.advice}"
