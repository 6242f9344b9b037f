"""`clusterkit chaos`: campaigns of faults."""

from __future__ import annotations

import math
import os
import secrets
import sys
from typing import Any

import click

from clusterkit.cli.help import Parsed, option
from clusterkit.cli.options import JobCommand, given, job_options, program_argument
from clusterkit.cli.terminal import say
from clusterkit.words.errors import BadJob
from clusterkit.words.faults import FaultAction, no_action
from clusterkit.words.job import JobSpec

MOST_RUNS = 100_000  # the maximum number of runs, which are all planned in one list when the campaign begins
MOST_SIDE_BY_SIDE = 1000  # the maximum number of parallel runs; each run uses a thread


class Number(click.FloatRange):
    """A finite number in a range. click's own type accepts NaN in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def _fault_actions(text: str) -> tuple[FaultAction, ...]:
    """Parse names of fault actions, such as `kill,stop`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in set(FaultAction):
            raise ValueError(no_action(name))
    if not names:
        raise ValueError("no action is named.")
    return tuple(dict.fromkeys(map(FaultAction, names)))


@click.command(
    "chaos",
    cls=JobCommand,
    examples=(
        ("chaos --workers 2 --ps 1 train.py", "30 runs with random faults."),
        ("chaos --runs 5 --actions kill,stop --workers 2 train.py", "Fewer runs, and only these faults."),
        ("chaos --json --workers 2 train.py > chaos.json", "Everything as JSON, for CI."),
    ),
)
@option("--runs", type=click.IntRange(1, MOST_RUNS), default=30, metavar="N", help="Number of runs.")
@option("--actions", type=Parsed("A,B", _fault_actions), help="Fault actions to use.", show_default="all possible ones")
@option("--rate", type=Number(1, 50), default=2.0, metavar="N", help="Average number of faults in a run.")
@option(
    "--parallel",
    type=click.IntRange(1, MOST_SIDE_BY_SIDE),
    metavar="N",
    help="Number of runs at a time.",
    show_default="half the number of cores; with TensorFlow, a quarter",
)
@option(
    "--metric", metavar="NAME", help="The metric to compare with the first run's.", show_default="accuracy, else loss"
)
@option(
    "--tolerance",
    type=Number(min=0),
    metavar="X",
    help="By how much the metric may differ.",
    show_default="0.05; for a loss, half of its value",
)
@option(
    "--shrink",
    "shrunk",
    type=click.IntRange(min=0),
    default=3,
    metavar="N",
    help="For how many failing runs to find the smallest set of faults that still makes the run fail.",
)
@option("-x", "--fail-fast", is_flag=True, help="Start no more runs after one has failed.")
@option("--keep", is_flag=True, help="Keep the directories of runs that passed, too.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, and the progress to stderr.")
@job_options()
@program_argument
def command(
    runs: int, actions: tuple[FaultAction, ...] | None, rate: float, parallel: int | None, metric: str | None,
    tolerance: float | None, shrunk: int, fail_fast: bool, keep: bool, as_json: bool, **values: object,
) -> None:  # fmt: skip
    """Run PROGRAM many times, break something different each time, and check that each run recovers.

    Takes every option of `up` that describes a job. The first run has no faults. Every other run has to succeed at the
    same step with nearly the same metric, lose no steps before the last checkpoint, leave nothing behind, and name
    what was broken as the cause. If a run fails this check, its faults are reduced to the smallest set with which
    it still fails.
    """
    from clusterkit.chaos.invariants import Measure
    from clusterkit.chaos.runner import CampaignSettings
    from clusterkit.chaos.trial import campaign_name, template_from
    from clusterkit.cli.commands.campaign import run_campaign

    asked, warnings = template_from(given(values))
    for warning in warnings:
        say(warning)
    name = campaign_name(asked, "chaos")
    seed = secrets.randbits(32) if asked.job.seed is None else asked.job.seed
    terms = CampaignSettings(
        name, runs, seed, _actions(asked.job, actions), rate, parallel or _usual_parallel(asked.job), shrunk,
        Measure(metric, tolerance), keep, fail_fast,
    )  # fmt: skip
    sys.exit(run_campaign(asked, terms, as_json))


def _actions(job: JobSpec, wanted: tuple[FaultAction, ...] | None) -> tuple[FaultAction, ...]:
    """Return the fault actions to use. Raises BadJob if the job does not support a requested action."""
    from clusterkit.chaos.schedule import possible
    from clusterkit.network.virtual import why_not

    asks_disk = wanted is None or FaultAction.DISK_FULL in wanted
    why_no_disk = why_not(network=False, disk=True) if asks_disk else None
    if job.hosts.count:
        why_no_disk = "it is for tasks on one machine"
    can = possible(job, disk=why_no_disk is None)
    if wanted is None:
        return can
    problems = []
    for action in wanted:
        if action not in can:
            why = (
                why_no_disk if action is FaultAction.DISK_FULL else "it needs --network virtual and more than one task"
            )
            problems.append(f"--actions {action} is not supported here: {why}.")
    if problems:
        raise BadJob(problems)
    return wanted


def _usual_parallel(job: JobSpec) -> int:
    """Return the number of parallel runs: half the number of cores, or a quarter for programs that use TensorFlow."""
    from clusterkit.check.imports import imports_tensorflow, program_files, program_of

    is_costly = imports_tensorflow(program_files(*program_of(job)))
    return max(1, len(os.sched_getaffinity(0)) // (4 if is_costly else 2))
