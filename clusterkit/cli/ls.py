"""`clusterkit ls`."""

from __future__ import annotations

import time

import click

from clusterkit.cli.help import Command, option
from clusterkit.cli.params import echo_json, json_option
from clusterkit.cli.terminal import echo, exit_on_error, terminal_width


@click.command(
    "ls",
    cls=Command,
    examples=[("ls --live", "Only the runs that are live."), ("ls --campaigns", "What `clusterkit chaos` has done.")],
)
@option("-l", "--live", is_flag=True, help="Only live runs.")
@option("--campaigns", is_flag=True, help="List campaigns in place of runs.")
@option("-q", "--quiet", is_flag=True, help="Only the ids.")
@json_option
def command(live: bool, campaigns: bool, quiet: bool, as_json: bool) -> None:
    """List the runs, the newest first."""
    from clusterkit.cli.snapshot import RunSnapshot
    from clusterkit.store.store import RunStore, newest_first
    from clusterkit.views.listing import runs_table
    from clusterkit.warm.warm_client import all_servers, description
    from clusterkit.words.errors import RunDirectoryError

    if campaigns:
        _list_campaigns(live, quiet, as_json)
        return
    with exit_on_error():
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
    from clusterkit.store.store import RunStore
    from clusterkit.views.listing import campaign_row, campaigns_table

    now = time.time()
    with exit_on_error():
        rows = [campaign_row(file, now) for file in RunStore().campaigns() if not live or file.is_live()]
    rows.sort(key=lambda row: row["age"])
    if as_json:
        echo_json(rows)
    elif quiet:
        echo("".join(f"{row['campaign']}\n" for row in rows), nl=False)
    else:
        echo(campaigns_table(rows, terminal_width()), nl=False)
