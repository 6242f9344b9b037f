"""`clusterkit reap`."""

from __future__ import annotations

import click

from clusterkit.cli.errors import exit_on_error
from clusterkit.cli.help import Command, option
from clusterkit.cli.terminal import echo
from clusterkit.words.model import number_of


@click.command("reap", cls=Command, examples=[("reap --all", "Of every state directory.")])
@option("--all", "everywhere", is_flag=True, help="Also for runs in other state directories.")
def command(everywhere: bool) -> None:
    """Kill the processes of runs that lost their supervisor."""
    from clusterkit.client.cleaning import reap_strays

    with exit_on_error():
        counts = reap_strays(everywhere)
    for run_id, count in counts.items():
        echo(f"Ended {number_of('process', count)} of the run {run_id}.")
    if not counts:
        echo("Nothing was left behind.")
