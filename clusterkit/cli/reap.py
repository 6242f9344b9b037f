"""`clusterkit reap`."""

from __future__ import annotations

import click

from clusterkit.cli.errors import told


@click.command("reap")
def command() -> None:
    """End processes of runs whose supervisor is gone, and say which they were."""
    from clusterkit.hands.reap import reap_strays

    with told():
        counts = reap_strays()
    for run_id, count in counts.items():
        click.echo(f"Ended {count} process(es) of the run {run_id}.")
    if not counts:
        click.echo("Nothing was left behind.")
