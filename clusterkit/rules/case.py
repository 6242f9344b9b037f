"""A program and the job it is to run in, as the rules of the check see them."""

from __future__ import annotations

from typing import NamedTuple

from clusterkit.rules.expressions import Mark
from clusterkit.rules.program import Program
from clusterkit.words.findings import Finding, Place, Severity
from clusterkit.words.model import JobSpec, Shape, TaskType


class Case(NamedTuple):
    """What is judged; `keras` is None where the text leaves it open, or nothing is known of what is installed."""

    program: Program
    job: JobSpec
    keras: int | None
    tensorflow: tuple[int, int] | None

    @property
    def is_ps(self) -> bool:
        """Whether there are parameter servers."""
        return self.job.shape is Shape.PARAMETER_SERVER

    @property
    def is_gang(self) -> bool:
        """Whether several tasks train together without parameter servers."""
        return self.job.shape is Shape.MULTI_WORKER

    @property
    def is_closed(self) -> bool:
        """Whether what the text does not say is not done: no code that was not looked into, no role asked for."""
        return not self.program.is_opaque and not self.program.words.asks_role

    @property
    def tasks(self) -> str:
        """`2 workers and 1 ps`, for sentences."""
        words = []
        for kind in TaskType:
            if (count := self.job.counts.get(kind, 0)) and kind is not TaskType.EVALUATOR:
                plural = "s" if kind is TaskType.WORKER and count > 1 else ""
                words.append(f"{count} {kind}{plural}" if kind is not TaskType.CHIEF else "a chief")
        return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"

    def error(self, name: str, mark: Mark, what: str, advice: str) -> Finding:
        """A finding of what is certain to fail."""
        return Finding(name, Severity.ERROR, mark.place, what, advice)

    def warning(self, name: str, mark: Mark, what: str, advice: str) -> Finding:
        """A finding of what may go wrong, or not fail and still not be what is wanted."""
        return Finding(name, Severity.WARNING, mark.place, what, advice)


def where(place: Place, seen_from: Place) -> str:
    """`line 12`, with its file where that is another one."""
    return f"line {place.line}" if place.file == seen_from.file else str(place)
