"""The data of an exam: the chapters, the cells, the results of the cells, and the verdict."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clusterkit.text.durations import compact
from clusterkit.text.spelling import listed
from clusterkit.words.model import number_of

NOT_COMPARABLE = "not comparable: "  # begins the reason of a cell whose runs succeeded and can't be compared
NOT_SEEN = 3  # exit code if nothing failed, but a chapter or a cell that was asked for was not seen
NOT_EXAMINED = 4  # exit code if the program could not be examined


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


def parse_cell(text: str) -> Cell:
    """Parse the name of a cell. Raises ValueError, with a message for users, if a cell can't have this name."""
    match = re.fullmatch(rf"(?P<chapter>{'|'.join(Chapter)})/(?P<name>[a-z0-9:/-]+)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a cell. An exam prints its cells, like resume/killed-between-checkpoints.")
    return Cell(Chapter(match["chapter"]), match["name"])


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
    is the number of seconds that the runs took, without those that belong to an earlier cell, too. `until` is the step
    after which the last run was ended, so that later ones were not compared; None stands for the program's own end.
    `starts_over` is True if an attempt after a failure began with step 0.
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
    until: int | None = None
    starts_over: bool = False


def judge(cell: Cell, findings: Iterable[ExamFinding], *runs: str, notes: Sequence[str] = ()) -> CellResult:
    """Return the result of a cell that was reached: "passed" without findings, "failed" with findings."""
    mistakes = tuple(findings)
    grade = Grade.FAILED if mistakes else Grade.PASSED
    return CellResult(cell, grade, findings=mistakes, notes=tuple(notes), runs=runs)


def not_reached(cell: Cell, reason: str, *runs: str) -> CellResult:
    """Return the result of a cell that was not reached, and therefore proves nothing about the program."""
    return CellResult(cell, Grade.NOT_REACHED, reason=reason, runs=runs)


@dataclass(frozen=True, slots=True)
class Setting:
    """What an exam examines, how, and when: the program, the job's tasks, and the command that repeats the exam.

    `began` is the wall time in seconds. `versions` maps names such as `tensorflow` to versions. `left_out` are the
    variables whose values the commands do not show, so that the user has to set them.
    """

    program: str
    tasks: str
    command: str
    began: float
    versions: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    """The results of an exam so far. If the program could not be examined, `invalid_reason` says why.

    `budget` is the time in seconds after which no more cells are examined. `chapters` are the chapters that apply to
    the job. `asked` are the chapters, and `asked_cells` the cells, without which the exam does not pass. `chosen` are
    the only chapters to examine; empty stands for all.
    `is_interrupted` is True if a signal has ended the exam.
    """

    name: str
    seed: int
    results: list[CellResult] = field(default_factory=list)
    invalid_reason: str = ""
    budget: float = 0.0
    chapters: tuple[Chapter, ...] = tuple(Chapter)
    asked: tuple[Chapter, ...] = tuple(Chapter)
    asked_cells: tuple[str, ...] = ()
    chosen: tuple[Chapter, ...] = ()
    is_interrupted: bool = False
    setting: Setting | None = None
    durations: dict[str, float] = field(default_factory=dict)  # the seconds of each run that no cell counts yet
    logs: dict[str, str] = field(default_factory=dict)  # for each run of a failed cell, the path of the log to read

    def results_of(self, chapter: Chapter) -> list[CellResult]:
        return [result for result in self.results if result.cell.chapter is chapter]

    def count(self, grade: Grade, chapter: Chapter | None = None) -> int:
        """Count the cells with a grade, in one chapter or in all chapters."""
        return sum(one.grade is grade and chapter in (None, one.cell.chapter) for one in self.results)

    def unseen(self) -> list[Chapter]:
        """Return the chapters of the job in which no cell has passed or failed."""
        reached = {one.cell.chapter for one in self.results if one.grade in (Grade.PASSED, Grade.FAILED)}
        return [chapter for chapter in Chapter if chapter in (*self.chapters, *self.asked) and chapter not in reached]

    def first_alike(self, result: CellResult) -> CellResult:
        """Return the first result in the chapter with the same reason; the result itself if it has no reason."""
        alike = (one for one in self.results_of(result.cell.chapter) if one.reason == result.reason)
        return next(alike, result) if result.reason else result

    def passed(self, chapter: Chapter) -> bool:
        """Return whether at least one cell of the chapter has passed, and no cell of the chapter has failed."""
        return self.count(Grade.PASSED, chapter) > 0 and self.count(Grade.FAILED, chapter) == 0

    def missing(self) -> list[Chapter]:
        """Return the chapters that were asked for, and in which no cell has passed."""
        return [chapter for chapter in Chapter if chapter in self.asked and not self.count(Grade.PASSED, chapter)]

    def missing_cells(self) -> list[str]:
        """Return the cells that were asked for by name and have not passed."""
        passed = {str(one.cell) for one in self.results if one.grade is Grade.PASSED}
        return [name for name in self.asked_cells if name not in passed]

    @property
    def exit_code(self) -> int:
        """Return 0 if no cell failed, and a cell of each chapter that was asked for has passed.

        Return 1 if a cell failed, 4 if no cell passed or the program could not be examined, and 3 if everything that
        was examined passed, but a chapter or a cell that was asked for was not seen.
        """
        if self.count(Grade.FAILED):
            return 1
        if self.invalid_reason or not self.count(Grade.PASSED):
            return NOT_EXAMINED
        return NOT_SEEN if self.missing() or self.missing_cells() else 0

    @property
    def ok(self) -> bool:
        """True if nothing failed, and everything that was asked for was seen and has passed."""
        return self.exit_code == 0

    @property
    def is_whole(self) -> bool:
        """True if the exam has passed, was not interrupted, and has seen every chapter that it was to examine."""
        return self.ok and not self.is_interrupted and not self._unseen_of_chosen()

    def _unseen_of_chosen(self) -> list[Chapter]:
        return [chapter for chapter in self.unseen() if not self.chosen or chapter in self.chosen]

    @property
    def why(self) -> str:
        """Why the exam has not passed, as lines: the failed cells with what was found, and what was not seen.

        Empty if the exam has passed.
        """
        problems = list(self._problems())
        if not problems and not self.ok:
            return self.verdict()
        return "\n".join(problems)

    def _problems(self) -> Iterator[str]:
        if self.invalid_reason:
            yield self.verdict()
        for result in self.results:
            if result.grade is Grade.FAILED:
                yield f"{result.cell} failed:"
                for finding in result.findings:
                    yield f"  {finding.text}"
                    if finding.remedy:
                        yield f"  → {finding.remedy}"
                yield from (f"  {line}" for line in self.run_lines(result))
        named = {parse_cell(name).chapter for name in self.asked_cells}  # for these, the cells say more
        for chapter in self.missing():
            if chapter not in named and not self.count(Grade.FAILED, chapter) and not self.invalid_reason:
                yield f"{chapter} was not seen: {self._why_unseen(chapter)}."
        for name in self.missing_cells():
            for result in self.results:
                if str(result.cell) == name and result.grade is not Grade.FAILED:
                    yield f"{name} was {result.grade}: {result.reason}."

    def run_lines(self, result: CellResult) -> list[str]:
        """Return the last run of a failed cell and the path of its log, as a line; no line if the log is not known."""
        return [f"run {run}, its log: {self.logs[run]}" for run in result.runs[-1:] if run in self.logs]

    def _why_unseen(self, chapter: Chapter) -> str:
        """Return why no cell of a chapter has passed or failed, as clauses."""
        reasons = dict.fromkeys(one.reason.rstrip(".") for one in self.results_of(chapter) if one.reason)
        if reasons:
            return "; ".join(reasons)
        if chapter is Chapter.EQUALITY and chapter not in self.chapters:
            return "only one worker trains"
        return "the exam was interrupted" if self.is_interrupted else "no cell of it was examined"

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
        text = f"Interrupted: {text}" if self.is_interrupted else text
        unseen = self._unseen_of_chosen()
        if unseen:
            text += f". Nothing of {listed(unseen)} was examined"
        if self.asked_cells:
            return f"{text}. Only {number_of('cell', len(self.asked_cells))} had to be examined."
        if self.chosen:
            return f"{text}. Only {listed(self.chosen)} had to be examined."
        if Chapter.EQUALITY not in (*self.chapters, *self.asked):
            text += ". Only one worker trains, so equality was not examined"
        return f"{text}."
