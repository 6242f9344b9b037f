"""The data of an exam: the chapters, the cells, the results of the cells, and the verdict."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from clusterkit.text.durations import compact
from clusterkit.text.spelling import listed
from clusterkit.words.model import number_of

NOT_COMPARABLE = "not comparable: "  # begins the reason of a cell whose runs succeeded and can't be compared


class Chapter(enum.StrEnum):
    """The subjects of an exam, in the order in which they are examined."""

    REPEAT = "repeat"  # compares two uninterrupted runs
    EQUALITY = "equality"  # compares a run with one worker to runs with several workers
    RESUME = "resume"  # compares an interrupted and resumed run with an uninterrupted run
    SURVIVAL = "survival"  # injects each fault in each phase


class Grade(enum.StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_REACHED = "not reached"  # the fault or the comparison was not possible; the result contains the reason
    SKIPPED = "skipped"  # the exam's time was up before the cell could be examined


@dataclass(frozen=True, slots=True)
class Cell:
    """One test of an exam. The option `--cell` selects a cell by its text, such as `survival/kill/worker:1/saved`."""

    chapter: Chapter
    name: str

    def __str__(self) -> str:
        return f"{self.chapter}/{self.name}"


@dataclass(frozen=True, slots=True)
class ExamFinding:
    """A mistake in the program: the kind (`code`), what was observed (`text`), and how to correct it (`remedy`)."""

    code: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CellResult:
    """The result of a cell.

    `runs` contains the ids of the cell's runs. `reason` explains why the cell was not reached or was skipped. `seconds`
    is the duration of the longest recovery, and `lost` is the number of steps that had to be computed again. `duration`
    is the number of seconds that the runs took, without those that belong to an earlier cell, too.
    """

    cell: Cell
    grade: Grade
    reason: str = ""
    findings: tuple[ExamFinding, ...] = ()
    notes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    seconds: float | None = None
    lost: int | None = None
    duration: float = 0.0


def judge(cell: Cell, findings: Iterable[ExamFinding], *runs: str, notes: Sequence[str] = ()) -> CellResult:
    """Return the result of a cell that was reached: "passed" without findings, "failed" with findings."""
    mistakes = tuple(findings)
    grade = Grade.FAILED if mistakes else Grade.PASSED
    return CellResult(cell, grade, findings=mistakes, notes=tuple(notes), runs=runs)


def not_reached(cell: Cell, reason: str, *runs: str) -> CellResult:
    """Return the result of a cell that was not reached, and therefore proves nothing about the program."""
    return CellResult(cell, Grade.NOT_REACHED, reason=reason, runs=runs)


@dataclass(slots=True)
class Report:
    """The results of an exam so far. If the program could not be examined, `invalid_reason` says why.

    `budget` is the time in seconds after which no more cells are examined.
    """

    name: str
    seed: int
    results: list[CellResult] = field(default_factory=list)
    invalid_reason: str = ""
    budget: float = 0.0
    durations: dict[str, float] = field(default_factory=dict)  # the seconds of each run that no cell counts yet

    def results_of(self, chapter: Chapter) -> list[CellResult]:
        return [result for result in self.results if result.cell.chapter is chapter]

    def count(self, grade: Grade, chapter: Chapter | None = None) -> int:
        """Count the cells with a grade, in one chapter or in all chapters."""
        return sum(one.grade is grade and chapter in (None, one.cell.chapter) for one in self.results)

    def unseen(self) -> list[Chapter]:
        """Return the chapters whose cells were all skipped or not reached."""
        reached = {one.cell.chapter for one in self.results if one.grade in (Grade.PASSED, Grade.FAILED)}
        return [chapter for chapter in Chapter if self.results_of(chapter) and chapter not in reached]

    def is_first(self, result: CellResult) -> bool:
        """Return True if no earlier result in the chapter has the same reason, or if the result has no reason."""
        alike = (one for one in self.results_of(result.cell.chapter) if one.reason == result.reason)
        return not result.reason or next(alike, result) is result

    def passed(self, chapter: Chapter) -> bool:
        """Return whether at least one cell of the chapter has passed, and no cell of the chapter has failed."""
        return self.count(Grade.PASSED, chapter) > 0 and self.count(Grade.FAILED, chapter) == 0

    @property
    def exit_code(self) -> int:
        """Return 1 if a cell failed, 4 if no cell passed or the program could not be examined, and 0 otherwise."""
        if self.count(Grade.FAILED):
            return 1
        return 4 if self.invalid_reason or not self.count(Grade.PASSED) else 0

    def add(self, result: CellResult) -> CellResult:
        """Add a result to the report, and return the result as it was added.

        If an earlier cell of the chapter has the same finding, the finding is added without its remedy.
        """
        earlier = {finding.text for one in self.results_of(result.cell.chapter) for finding in one.findings}
        shortened = tuple(replace(one, remedy="") if one.text in earlier else one for one in result.findings)
        duration = sum(self.durations.pop(run, 0.0) for run in result.runs)
        self.results.append(replace(result, findings=shortened, duration=duration))
        return self.results[-1]

    def verdict(self) -> str:
        if self.invalid_reason:
            return f"The program could not be examined: {self.invalid_reason}"
        passed, failed, skipped = (self.count(one) for one in (Grade.PASSED, Grade.FAILED, Grade.SKIPPED))
        missing = [f"{count} not reached"] if (count := self.count(Grade.NOT_REACHED)) else []
        missing += [f"{skipped} not run within {compact(self.budget)}"] if skipped else []
        text = f"{passed} of {number_of('cell', len(self.results))} passed" + (f", {failed} failed" if failed else "")
        text += f"; {', '.join(missing)}" if missing else ""
        return text + (f", among them all of {listed(unseen)}." if (unseen := self.unseen()) else ".")
