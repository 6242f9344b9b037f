"""Builds an exam from options: the job, the cells and the time limit."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Unpack

from clusterkit import __version__
from clusterkit.api.options import Keywords, check_names, gathered
from clusterkit.chaos.trial import JobTemplate, Trials, campaign_name, template_from
from clusterkit.exam.examiner import Examiner
from clusterkit.exam.model import Chapter, Report, Setting, parse_cell
from clusterkit.exam.runs import workers_of
from clusterkit.exam.survival import QUICK
from clusterkit.job.options import GivenOptions
from clusterkit.network.virtual import why_not
from clusterkit.system.platform import platform_of
from clusterkit.text.durations import exact, seconds
from clusterkit.text.spelling import did_you_mean
from clusterkit.words.errors import BadJob
from clusterkit.words.job import JobSpec

# The default times, in seconds, after which no more cells are examined: in a full exam, and in a quick exam.
BUDGET, QUICK_BUDGET = 360.0, 60.0
# What a test insists on unless it says otherwise. A quick exam may have no time for survival.
REQUIRED = (Chapter.EQUALITY, Chapter.RESUME)


def make_examiner(
    options: GivenOptions,
    quick: bool = False,
    budget: float | None = None,
    cells: Sequence[str] = (),
    keep: bool = False,
    wide: bool = False,
    chapters: Sequence[Chapter] = (),
    require: Sequence[Chapter] | None = None,
) -> tuple[Examiner, tuple[str, ...]]:
    """Return an examiner that has not started yet, and warnings for the user. Raises BadJob.

    `chapters` are the only chapters to examine; an empty sequence stands for all. `require` are the chapters without
    which the exam does not pass; None stands for those that are examined.
    """
    asked, warnings = template_from(options)
    name = campaign_name(asked, "exam")
    seed = secrets.randbits(31) if asked.job.seed is None else asked.job.seed
    own = _flags(quick, budget, cells, wide, chapters, require)
    budget = budget or (QUICK_BUDGET if quick else BUDGET)
    trials = Trials(asked.with_changes({}, "fault", "seed", "run_id"), name, keep, kind="exam")
    can_fill = not asked.job.hosts.count and why_not(network=False, disk=True) is None
    phases = QUICK if quick else None
    longest = 0.0 if asked.job.limits.job else max(budget, BUDGET)
    applicable = applicable_chapters(asked.job, wide)
    chosen = chapters or [parse_cell(one).chapter for one in cells] or applicable
    report = Report(
        name,
        seed,
        budget=budget,
        chapters=applicable,
        asked=tuple(chosen if require is None else require),
        asked_cells=tuple(dict.fromkeys(cells)),
        setting=_setting(asked.with_changes({"seed": seed}, "run_id"), own),
    )
    until = time.monotonic() + budget
    only = frozenset(chapters)
    return Examiner(trials, report, until, longest, frozenset(cells), phases, can_fill, wide, only), warnings


def examine_program(
    program: object,
    cleanup: ExitStack,
    *,
    quick: bool = True,
    budget: float | str | None = None,
    cells: Sequence[str] = (),
    chapters: Sequence[str] = (),
    require: Sequence[str] | None = None,
    keep: bool = False,
    wide: bool = False,
    **options: Unpack[Keywords],
) -> Report:
    """Examine a program. When the exit stack `cleanup` closes, the exam's live runs end. Raises BadJob or TypeError.

    `budget` is in seconds, or text such as `5m`. `require` are the chapters without which the exam does not pass; None
    stands for `chapters` or the chapters of `cells` if any are given, and otherwise for those of REQUIRED that apply.
    """
    args = options.pop("args", ())
    check_names(options)
    for cell in _names("cells", cells):
        _check_cell(cell)
    only, required = _chapters("chapters", chapters), None
    if require is not None:
        required = _chapters("require", require)
    given = gathered(program, args, options)
    examiner, _ = make_examiner(given, quick, _budget(budget), cells, keep, wide, only, required)
    report = examiner.report
    if require is None and not only and not cells:
        report.asked = tuple(one for one in REQUIRED if one in report.chapters)
    cleanup.callback(examiner.trials.stop)
    for _result in examiner.examine():
        pass
    return report


def applicable_chapters(job: JobSpec, wide: bool) -> tuple[Chapter, ...]:
    """Return the chapters that have cells for a job: without several workers, there is nothing to compare with one."""
    workers = workers_of(job) * (2 if wide else 1)
    return tuple(one for one in Chapter if workers > 1 or one is not Chapter.EQUALITY)


def _names(keyword: str, given: Sequence[str]) -> Sequence[str]:
    if isinstance(given, str) or not all(isinstance(one, str) for one in given):
        raise BadJob([f"{keyword}={given!r}: it has to be a list of names."])
    return given


def _check_cell(text: str) -> None:
    try:
        parse_cell(text)
    except ValueError as error:
        raise BadJob([f"cells: {error}"]) from None


def _chapters(keyword: str, given: Sequence[str]) -> tuple[Chapter, ...]:
    """Return the chapters with these names. Raises BadJob."""
    names = _names(keyword, given)
    for name in names:
        if name not in tuple(Chapter):
            raise BadJob([f"{keyword}: {name!r} is not a chapter. {did_you_mean(name, tuple(Chapter))}"])
    return tuple(Chapter(name) for name in names)


def _budget(given: float | str | None) -> float | None:
    if given is None:
        return None
    try:
        return seconds(given)
    except ValueError as error:
        raise BadJob([f"budget={given!r}: {error}"]) from None


def _flags(
    quick: bool,
    budget: float | None,
    cells: Sequence[str],
    wide: bool,
    chapters: Sequence[Chapter],
    require: Sequence[Chapter] | None,
) -> list[str]:
    """Return the exam's own options as command-line arguments."""
    flags = ["--quick"] * quick + ["--wide"] * wide
    flags += [] if budget is None else [f"--budget={exact(budget)}"]
    flags += [f"--chapter={one}" for one in chapters]
    flags += [f"--require={one}" for one in require or ()]
    return [*flags, *(f"--cell={one}" for one in cells)]


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
