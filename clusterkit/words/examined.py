"""What an exam says of one of its cells: stored in the runs of the cell, for those who look at such a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExaminedCell:
    """The result of a cell of an exam.

    `grade` is passed, failed, not reached or skipped. `texts` are the findings with their remedies, or the reason why
    the cell was not reached. `command` examines the cell again.
    """

    exam: str
    cell: str
    grade: str
    texts: tuple[str, ...] = ()
    command: str = ""

    @property
    def has_failed(self) -> bool:
        return self.grade == "failed"

    @property
    def text(self) -> str:
        """The result as a clause, such as `survival/kill/worker:0/step failed: The job did not recover.`"""
        was = "was " if self.grade in ("not reached", "skipped") else ""
        said = f"{self.cell} {was}{self.grade}"
        return f"{said}: {' '.join(self.texts)}" if self.texts else f"{said}."
