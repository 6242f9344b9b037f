"""The values of an exam: its chapters and cells, what was found in each, and the grade."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from clusterkit.text.spelling import listed
from clusterkit.words.model import number_of


class Chapter(enum.StrEnum):
    """The subjects of an exam, in the order in which they are examined."""

    REPEAT = "repeat"  # the same job twice, unbroken
    EQUALITY = "equality"  # one worker against several
    RESUME = "resume"  # stopped and continued against unbroken
    SURVIVAL = "survival"  # each fault in each phase


class Grade(enum.StrEnum):
    """How a cell ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_REACHED = "not reached"  # the fault or the comparison did not come about, for the reason that is said
    SKIPPED = "skipped"  # left out, for want of time or since the chapter was decided


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing to examine, named as `--cell` takes it: `kill/worker:1/saving-rename`."""

    chapter: Chapter
    name: str

    def __str__(self) -> str:
        return f"{self.chapter}/{self.name}"


@dataclass(frozen=True, slots=True)
class ExamFinding:
    """A fault of the program. `code` names its kind; `text` says what was seen, `remedy` what to do about it."""

    code: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CellResult:
    """How a cell went. `runs` are the ids of its runs, `reason` why it was not reached or was skipped.

    `seconds` is how long a recovery took, and `lost` how many steps were computed again.
    """

    cell: Cell
    grade: Grade
    findings: tuple[ExamFinding, ...] = ()
    reason: str = ""
    runs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float | None = None
    lost: int | None = None


def judged(cell: Cell, findings: Iterable[ExamFinding], *runs: str, notes: Sequence[str] = ()) -> CellResult:
    """A cell that was reached: it passed if nothing was found."""
    found = tuple(findings)
    return CellResult(cell, Grade.FAILED if found else Grade.PASSED, found, runs=runs, notes=tuple(notes))


def not_reached(cell: Cell, reason: str, *runs: str) -> CellResult:
    """A cell that proves nothing about the program."""
    return CellResult(cell, Grade.NOT_REACHED, reason=reason, runs=runs)


@dataclass(slots=True)
class Report:
    """What an exam has found so far. `irregular` says why the program could not be examined at all."""

    name: str
    seed: int
    results: list[CellResult] = field(default_factory=list)
    irregular: str = ""

    def of(self, chapter: Chapter) -> list[CellResult]:
        """The results of a chapter."""
        return [result for result in self.results if result.cell.chapter is chapter]

    def count(self, grade: Grade, chapter: Chapter | None = None) -> int:
        """How many cells ended so."""
        return sum(one.grade is grade and chapter in (None, one.cell.chapter) for one in self.results)

    def _is_reached(self, chapter: Chapter) -> bool:
        return any(one.grade in (Grade.PASSED, Grade.FAILED) for one in self.of(chapter))

    def passed(self, chapter: Chapter) -> bool:
        """Whether something was examined in the chapter, and all of that passed."""
        return self.count(Grade.PASSED, chapter) > 0 and self.count(Grade.FAILED, chapter) == 0

    @property
    def exit_code(self) -> int:
        """0 if all that was reached passed, 1 if not, 4 if the program was too irregular to be examined."""
        if self.count(Grade.FAILED):
            return 1
        return 4 if self.irregular or not self.count(Grade.PASSED) else 0

    def add(self, result: CellResult) -> CellResult:
        """Add a result. The same finding in a later cell of its chapter is said in short."""
        known = {finding.text for one in self.of(result.cell.chapter) for finding in one.findings}
        short = tuple(replace(one, remedy="") if one.text in known else one for one in result.findings)
        self.results.append(replace(result, findings=short))
        return self.results[-1]

    def verdict(self) -> str:
        """The grade in a sentence."""
        if self.irregular:
            return f"The program could not be examined: {self.irregular}"
        passed, failed = self.count(Grade.PASSED), self.count(Grade.FAILED)
        reached = number_of("cell", passed + failed)
        unseen = len(self.results) - passed - failed
        rest = f"; {unseen} of {len(self.results)} were not examined" if unseen else ""
        if blank := [chapter for chapter in Chapter if self.of(chapter) and not self._is_reached(chapter)]:
            rest += f", among them all of {listed(blank)}"
        return f"{passed} of {reached} passed{rest}."
