"""`clusterkit ls`, `ps` and `top`: tables of runs and of tasks."""

from __future__ import annotations

import json
import signal
import sys
import time
from itertools import islice

import click

from clusterkit.cli.addressing import OnRun, choose, end_waiter
from clusterkit.cli.help import DURATION, Command, json_option, option
from clusterkit.cli.snapshot import RunSnapshot
from clusterkit.cli.terminal import (
    clear_screen,
    echo,
    echo_json,
    show_frame,
    shown_address,
    terminal_width,
    without_token,
)
from clusterkit.store.journal import follow
from clusterkit.store.store import RunStore, newest_first
from clusterkit.system.meter import Meter
from clusterkit.text.printable import at_words, fitted
from clusterkit.views.listing import campaign_row, campaigns_table, runs_table, tasks_table
from clusterkit.words.errors import RunDirectoryError
from clusterkit.words.model import number_of


@click.command("ps", cls=OnRun, examples=[("ps", ""), ("ps --json", "For scripts.")])
@json_option
def ps(run: str | None, as_json: bool) -> None:
    """List the tasks of a run. CPU and memory are those of the last seconds, as the dashboard shows them."""
    look = RunSnapshot(choose(run, finished=False))
    rows = look.rows(Meter() if look.live else None, sampled=True)
    dashboard = look.run.dashboard_address() if look.live else None
    word, text = look.activity
    if as_json:
        now = {"state": look.state, "now": word, "text": text, **look.advice(), "metrics": look.status.metrics}
        address = None if dashboard is None else without_token(dashboard)
        echo_json({"run_id": look.run.run_id, **now, "dashboard": address, "tasks": rows})
        return
    echo(tasks_table(rows, terminal_width()), nl=False)
    echo("\n".join([f"{word.capitalize()}: {text}", *look.advice_lines(terminal_width())]))
    if dashboard is not None:
        echo(f"Dashboard: {shown_address(dashboard, look.run.dashboard)}")


@click.command("top", cls=OnRun, examples=[("top -i 5s", ""), ("top --count 1 --json", "One sample.")])
@option("-i", "--interval", type=DURATION, default="1s", help="Time between updates.")
@option(
    "--count", type=click.IntRange(min=1), metavar="N", help="Stop after N updates.", show_default="when the run ends"
)
@json_option
def top(run: str | None, interval: float, count: int | None, as_json: bool) -> None:
    """Show the tasks of a live run, updated continuously, until it ends or Ctrl-C is pressed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        look, meter = RunSnapshot(choose(run, finished=False)), Meter()
        looks = follow(look.refresh, end_waiter(look.run).is_over, max(interval, 0.1))
        if not as_json:
            clear_screen()
        look.rows(meter)  # the first sample, since CPU usage is measured between two samples
        for _ in islice(looks, 1, None if count is None else min(count, sys.maxsize - 1) + 1):
            rows = look.rows(meter)
            if as_json:
                echo(
                    json.dumps(
                        {"run_id": look.run.run_id, "state": look.state, "metrics": look.status.metrics, "tasks": rows}
                    )
                )
            else:
                show_frame(f"{_head(look)}\n{tasks_table(rows, terminal_width())}")
    except KeyboardInterrupt:
        return


def _head(look: RunSnapshot) -> str:
    """Return a line about the run, and the run's current activity, as `ps` prints them."""
    status = look.status
    restarts = f", {number_of('restart', status.restarts)}" if status.restarts else ""
    checkpoint = f", checkpoint of step {status.checkpoint[0]}" if status.checkpoint else ""
    head, width = f"run {look.run.run_id}: {look.state}{restarts}{checkpoint}", terminal_width()
    word, text = look.activity
    return "\n".join([head if width is None else fitted(head, width), at_words(f"{word.capitalize()}: {text}", width)])


@click.command(
    "ls",
    cls=Command,
    examples=[("ls --live", "Only the runs that are live."), ("ls --campaigns", "What `clusterkit chaos` has done.")],
)
@option("-l", "--live", is_flag=True, help="Only live runs.")
@option("--campaigns", is_flag=True, help="List campaigns instead of runs.")
@option("-q", "--quiet", is_flag=True, help="Only the ids.")
@json_option
def ls(live: bool, campaigns: bool, quiet: bool, as_json: bool) -> None:
    """List the runs, newest first."""
    from clusterkit.warm.warm_client import all_servers, description

    if campaigns:
        _list_campaigns(live, quiet, as_json)
        return
    runs = newest_first(run for run in RunStore().all() if not live or run.is_live())
    if quiet and not as_json:
        echo("".join(f"{run.run_id}\n" for run in runs), nl=False)
        return
    rows = [RunSnapshot(run).row() for run in runs]
    if as_json:
        echo_json(rows)
        return
    echo(runs_table(rows, terminal_width()), nl=False)
    if not rows:
        echo("No run is live." if live else "There is no run yet. Start one: clusterkit up PROGRAM", err=True)
    try:
        for _, server in all_servers():
            echo(f"warm server: {description(server)} (clusterkit warm stop)", err=True)
    except RunDirectoryError as error:
        echo(f"warm servers: {error}", err=True)


def _list_campaigns(live: bool, quiet: bool, as_json: bool) -> None:
    now = time.time()
    rows = [campaign_row(file, now) for file in RunStore().campaigns() if not live or file.is_live()]
    rows.sort(key=lambda row: row["age"])
    if as_json:
        echo_json(rows)
    elif quiet:
        echo("".join(f"{row['campaign']}\n" for row in rows), nl=False)
    else:
        echo(campaigns_table(rows, terminal_width()), nl=False)
