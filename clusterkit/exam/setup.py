"""Builds an exam from options: the job, the cells and the time limit."""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Unpack, cast

from clusterkit import __version__
from clusterkit.api.options import Keywords, check_names, gathered
from clusterkit.chaos.trial import JobTemplate, Trials, campaign_name, template_from
from clusterkit.exam.examiner import Examiner
from clusterkit.exam.model import Chapter, Report, Setting, parse_cell
from clusterkit.exam.runs import workers_of
from clusterkit.job.options import GivenOptions
from clusterkit.network.virtual import why_not
from clusterkit.system.platform import platform_of
from clusterkit.text.durations import compact, seconds
from clusterkit.text.spelling import did_you_mean
from clusterkit.words.errors import BadJob
from clusterkit.words.job import JobSpec

# The default times, in seconds, after which no more cells are examined: in a full exam, and in a quick exam.
BUDGET, QUICK_BUDGET = 360.0, 60.0
MOST_PARALLEL = 1000  # the largest number of runs at the same time; each run uses a thread
# What a test insists on unless it says otherwise. A quick exam may have no time for survival.
REQUIRED = (Chapter.EQUALITY, Chapter.RESUME)


@dataclass(frozen=True, slots=True)
class ExamSettings:
    """What to examine, and how.

    `budget` is in seconds; None stands for the usual time. `cells` and `chapters` are the only ones to examine; an
    empty sequence stands for all. `require` are the chapters without which the exam does not pass; None stands for
    those that are examined. `parallel` is the number of runs at the same time; None stands for as many as the machine
    allows. `one_worker_args` are further arguments of the program where one worker is compared with several.
    """

    quick: bool = False
    budget: float | None = None
    cells: Sequence[str] = ()
    keep: bool = False
    wide: bool = False
    chapters: Sequence[Chapter] = ()
    require: Sequence[Chapter] | None = None
    parallel: int | None = None
    one_worker_args: Sequence[str] = ()

    @property
    def seconds(self) -> float:
        """The time after which no more cells are examined."""
        return self.budget or (QUICK_BUDGET if self.quick else BUDGET)

    @property
    def flags(self) -> list[str]:
        """The settings as command-line arguments."""
        flags = ["--quick"] * self.quick + ["--wide"] * self.wide
        flags += [] if self.budget is None else [f"--budget={compact(self.budget)}"]
        flags += [] if self.parallel is None else [f"--parallel={self.parallel}"]
        flags += [f"--one-worker-args={shlex.join(self.one_worker_args)}"] if self.one_worker_args else []
        flags += [f"--chapter={one}" for one in self.chapters]
        flags += [f"--require={one}" for one in self.require or ()]
        return [*flags, *(f"--cell={one}" for one in self.cells)]


class ExamKeywords(Keywords, total=False):
    """The keyword arguments of `cluster.exam`: those of an exam, and the options of the job."""

    quick: bool
    budget: float | str | None
    cells: Sequence[str]
    chapters: Sequence[str]
    require: Sequence[str] | None
    keep: bool
    wide: bool
    parallel: int | None
    one_worker_args: Sequence[str]


OWN = frozenset(ExamKeywords.__annotations__) - frozenset(Keywords.__annotations__)


def make_examiner(options: GivenOptions, settings: ExamSettings) -> tuple[Examiner, tuple[str, ...]]:
    """Return an examiner that has not started yet, and warnings for the user. Raises BadJob."""
    asked, warnings = template_from(options)
    name = campaign_name(asked, "exam")
    seed = secrets.randbits(31) if asked.job.seed is None else asked.job.seed
    trials = Trials(asked.with_changes({}, "fault", "seed", "run_id"), name, settings.keep, kind="exam")
    applicable = applicable_chapters(asked.job, settings.wide)
    chosen = settings.chapters or [parse_cell(one).chapter for one in settings.cells] or applicable
    report = Report(
        name,
        seed,
        budget=settings.seconds,
        chapters=applicable,
        asked=tuple(chosen if settings.require is None else settings.require),
        asked_cells=tuple(dict.fromkeys(settings.cells)),
        chosen=() if chosen == applicable else tuple(dict.fromkeys(chosen)),
        setting=_setting(asked.with_changes({"seed": seed}, "run_id"), settings.flags),
    )
    examiner = Examiner(
        trials,
        report,
        until=time.monotonic() + settings.seconds,
        longest=0.0 if asked.job.limits.job else max(settings.seconds, BUDGET),
        chosen=frozenset(settings.cells),
        quick=settings.quick,
        disk=not asked.job.hosts.count and why_not(network=False, disk=True) is None,
        wide=settings.wide,
        parallel=settings.parallel,
        alone_args=tuple(settings.one_worker_args),
        chapters=frozenset(settings.chapters),
    )
    return examiner, warnings


def examine_program(program: object, cleanup: ExitStack, **keywords: Unpack[ExamKeywords]) -> Report:
    """Examine a program. When the exit stack `cleanup` closes, the exam's live runs end. Raises BadJob or TypeError.

    The exam is quick unless `quick` is False. `require` are the chapters without which the exam does not pass; None
    stands for `chapters` or the chapters of `cells` if any are given, and otherwise for those of REQUIRED that apply.
    """
    own = {name: value for name, value in keywords.items() if name in OWN}
    options = cast("Keywords", {name: value for name, value in keywords.items() if name not in OWN})
    args = options.pop("args", ())
    check_names(options)
    settings = _settings(own)
    examiner, _ = make_examiner(gathered(program, args, options), settings)
    report = examiner.report
    if settings.require is None and not settings.chapters and not settings.cells:
        report.asked = tuple(one for one in REQUIRED if one in report.chapters)
    cleanup.callback(examiner.trials.stop)
    for _result in examiner.examine():
        pass
    return report


def _settings(own: Mapping[str, Any]) -> ExamSettings:
    """Check the keywords of an exam. Raises BadJob."""
    cells, require = own.get("cells", ()), own.get("require")
    for cell in _names("cells", cells):
        _check_cell(cell)
    return ExamSettings(
        quick=bool(own.get("quick", True)),
        budget=_budget(own.get("budget")),
        cells=cells,
        keep=bool(own.get("keep", False)),
        wide=bool(own.get("wide", False)),
        chapters=_chapters("chapters", own.get("chapters", ())),
        require=None if require is None else _chapters("require", require),
        parallel=_parallel(own.get("parallel")),
    )


def applicable_chapters(job: JobSpec, wide: bool) -> tuple[Chapter, ...]:
    """Return the chapters that have cells for a job: without several workers, there is nothing to compare with one."""
    workers = workers_of(job) * (2 if wide else 1)
    return tuple(one for one in Chapter if workers > 1 or one is not Chapter.EQUALITY)


def _names(keyword: str, given: Any) -> Sequence[str]:
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(isinstance(one, str) for one in given):
        raise BadJob([f"{keyword}={given!r}: it has to be a list of names."])
    return given


def _check_cell(text: str) -> None:
    try:
        parse_cell(text)
    except ValueError as error:
        raise BadJob([f"cells: {error}"]) from None


def _chapters(keyword: str, given: Any) -> tuple[Chapter, ...]:
    """Return the chapters with these names. Raises BadJob."""
    names = _names(keyword, given)
    for name in names:
        if name not in tuple(Chapter):
            raise BadJob([f"{keyword}: {name!r} is not a chapter. {did_you_mean(name, tuple(Chapter))}"])
    return tuple(Chapter(name) for name in names)


def _parallel(given: Any) -> int | None:
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= MOST_PARALLEL:
        raise BadJob([f"parallel={given!r}: it has to be a number from 1 to {MOST_PARALLEL}."])
    return given


def _budget(given: Any) -> float | None:
    if given is None:
        return None
    try:
        return seconds(given)
    except ValueError as error:
        raise BadJob([f"budget={given!r}: {error}"]) from None


def _setting(template: JobTemplate, own: Sequence[str]) -> Setting:
    """Return what is examined, and on what."""
    job = template.job
    return Setting(
        program=str(job.program),
        tasks=job.shape_text,
        command=template.command("exam", *own, shell=os.environ),
        began=time.time(),
        versions={"clusterkit": __version__, **platform_of(job.setup.python)},
        left_out=tuple(template.left_out(os.environ)),
    )
