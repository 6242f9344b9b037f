"""Builds an exam from options: the job, the cells and the time limit."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Unpack

from clusterkit.api.options import Keywords, check_names, gathered
from clusterkit.chaos.trial import Trials, campaign_name, template_from
from clusterkit.exam.examiner import Examiner
from clusterkit.exam.model import Report
from clusterkit.job.options import GivenOptions
from clusterkit.network.virtual import why_not

# The default times, in seconds, after which no more cells are examined: in a full exam, and in a quick exam.
BUDGET, QUICK_BUDGET = 360.0, 60.0


def make_examiner(
    options: GivenOptions,
    quick: bool = False,
    budget: float | None = None,
    cells: Sequence[str] = (),
    keep: bool = False,
    wide: bool = False,
) -> tuple[Examiner, tuple[str, ...]]:
    """Return an examiner that has not started yet, and warnings for the user. Raises BadJob."""
    asked, warnings = template_from(options)
    name = campaign_name(asked, "exam")
    seed = secrets.randbits(31) if asked.job.seed is None else asked.job.seed
    budget = budget or (QUICK_BUDGET if quick else BUDGET)
    trials = Trials(asked.with_changes({}, "fault", "seed", "run_id"), name, keep, kind="exam")
    can_fill = not asked.job.hosts.count and why_not(network=False, disk=True) is None
    longest = 0.0 if asked.job.limits.job else max(budget, BUDGET)
    report, until = Report(name, seed, budget=budget), time.monotonic() + budget
    return Examiner(trials, report, until, longest, frozenset(cells), quick, can_fill, wide), warnings


def examine_program(program: object, quick: bool, cleanup: ExitStack, **options: Unpack[Keywords]) -> Report:
    """Examine a program. When the exit stack `cleanup` closes, the exam's live runs end. Raises BadJob or TypeError."""
    args = options.pop("args", ())
    check_names(options)
    examiner, _ = make_examiner(gathered(program, args, options), quick)
    cleanup.callback(examiner.trials.stop)
    for _result in examiner.examine():
        pass
    return examiner.report
