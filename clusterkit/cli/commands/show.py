"""`clusterkit show` and `compare`: show how a run ended, and show runs side by side."""

from __future__ import annotations

from dataclasses import replace

import click

from clusterkit.cli.addressing import LIVE_OR_NEWEST, OnRun, RunId, choose
from clusterkit.cli.help import Command, json_option, option
from clusterkit.cli.snapshot import RunSnapshot
from clusterkit.cli.terminal import echo, echo_json, say, terminal_width, use_color
from clusterkit.ledger.takeover import account_of, result_of
from clusterkit.store.examined import examined_cells
from clusterkit.store.journal import JournalReader
from clusterkit.store.store import RunStore
from clusterkit.store.usage import UsageReader
from clusterkit.text.printable import printable
from clusterkit.views.comparison import compared, comparison
from clusterkit.views.goodput import goodput_lines, startup_lines, straggler_lines
from clusterkit.views.listing import tasks_table
from clusterkit.views.naming import measured
from clusterkit.views.patches import patches_data, patches_text
from clusterkit.views.recoveries import recovery_lines
from clusterkit.views.report import report
from clusterkit.views.step_use import StepUse, step_lines, step_use
from clusterkit.views.timeline import timeline, timeline_text
from clusterkit.words import wire
from clusterkit.words.account import Account
from clusterkit.words.examined import ExaminedCell
from clusterkit.words.outcome import RunResult
from clusterkit.words.secrets import without_secrets


@click.command(
    "show",
    cls=OnRun,
    usual=LIVE_OR_NEWEST,
    examples=[
        ("show", "The newest run."),
        ("show 20261122-080115", "The run whose id begins like this."),
        ("show --patches", "What was changed in its tasks."),
    ],
)
@json_option
@option("--startup", is_flag=True, help="Show how each task got to its first step, and what that step waited for.")
@option("--patches", is_flag=True, help="Show what clusterkit's patches changed in each task, and why.")
def show(run: str | None, as_json: bool, startup: bool, patches: bool) -> None:
    """Show how a run ended: result, cause, tasks, recoveries, goodput and timeline; or show a live run so far."""
    look = RunSnapshot(choose(run, finished=True))
    if patches:
        _show_patches(look, as_json)
        return
    result = None if look.live else result_of(look.run)
    recovered = account_of(look.run)
    events = JournalReader(look.run).events()
    examined = examined_cells(look.run)
    lines, use = list(timeline(events)), step_use(recovered.goodput, events, UsageReader(look.run.usage).new())
    if as_json:
        word, text = look.activity
        echo_json(
            {
                "run_id": look.run.run_id,
                "state": look.state,
                "now": word,
                "text": text,
                **look.advice(),
                "job": wire.encode(without_secrets(look.info.job)) if look.info else None,
                "result": None if result is None else wire.encode(result),
                "exam": [wire.encode(cell) for cell in examined],
                "tasks": look.rows(None),
                **wire.encode(recovered),
                "step_use": None if use is None else wire.encode(use),
                "timeline": [{"seconds": round(seconds, 3), "text": text} for seconds, text in lines],
            }
        )
        return
    if startup:
        _show_startup(recovered)
        return
    color = use_color(None)
    echo(_head(look, result, recovered, use, color), nl=False, color=color)
    for cell in examined:
        echo(_exam_lines(cell))
    if lines:
        echo("\nTimeline\n" + timeline_text(lines, terminal_width()), nl=False)


def _head(look: RunSnapshot, result: RunResult | None, recovered: Account, use: StepUse | None, color: bool) -> str:
    """Return the report of a finished run. For any other run, return its tasks, and its recoveries so far."""
    if result is not None:
        return report(result, look.run, color, recovered=recovered, use=use)
    word, text = look.activity
    width = terminal_width()
    so_far = [] if recovered.goodput is None else goodput_lines(recovered.goodput, width)
    slow = [*step_lines(use, width), *straggler_lines(recovered.stragglers)]
    metrics = [f"  metrics: {measured(look.status.metrics)}"] if look.status.metrics else []
    table = "".join(f"{line}\n" for line in [*metrics, *recovery_lines(recovered, width), *so_far, *slow])
    head = f"The run {look.run.run_id} is {word}: {text} Everything of it is in {look.run.path}"
    head = "\n".join([head, *look.advice_lines(width)])
    return f"{head}\n{tasks_table(look.rows(None), width)}{table}"


def _exam_lines(cell: ExaminedCell) -> str:
    """Return what the exam says of the run, and the command that examines the cell again if the cell failed."""
    told = [f"  Exam {cell.exam}: {cell.text}"]
    if cell.has_failed:
        told.append(f"      {cell.command}")
    return "\n".join(map(printable, told))


def _show_patches(look: RunSnapshot, as_json: bool) -> None:
    if as_json:
        echo_json(patches_data(look.attempts))
    else:
        echo(patches_text(look.attempts, terminal_width()), nl=False)


def _show_startup(recovered: Account) -> None:
    if recovered.startup is None:
        echo("The result of this run was written by a version that did not record its start-up.")
    else:
        echo("\n".join(startup_lines(recovered.startup, terminal_width())))


@click.command(
    "compare",
    cls=Command,
    examples=[
        ("compare", "The last two runs of the same program."),
        ("compare 20261122-080115 20261122-091500", ""),
    ],
)
@click.argument("runs", nargs=-1, type=RunId(), metavar="[RUN]...")
@option("--metric", metavar="NAME", help="The metric to show by step.", show_default="loss")
@json_option
def compare(runs: tuple[str, ...], metric: str | None, as_json: bool) -> None:
    """Compare runs, finished or live: options, speed, goodput, and a metric by step, side by side.

    A run is given by its id. A program stands for its newest run: compare slow.py fast.py. By default, the last two
    runs of the same program are compared.
    """
    from clusterkit.job.options import texts_of

    found = []
    store = RunStore()
    chosen = [*map(store.find_or_newest, dict.fromkeys(runs))]
    for look in map(RunSnapshot, chosen or store.last_two()):
        job, events = look.info.job if look.info else None, JournalReader(look.run).events(clock="m")
        one = compared(look.run.run_id, look.state, job, events)
        found.append(one if job is None else replace(one, options=texts_of(job), args=job.program.args))
    if not runs:
        say(f"The last two runs of {found[1].options['program']} are compared.")
    if as_json:
        echo_json([wire.encode(run) for run in found])
    else:
        echo(comparison(found, metric, terminal_width()), nl=False)
