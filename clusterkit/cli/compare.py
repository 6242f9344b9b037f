"""`clusterkit compare`."""

from __future__ import annotations

import click

from clusterkit.cli.addressing import RunId
from clusterkit.cli.help import Command, option
from clusterkit.cli.params import echo_json, json_option
from clusterkit.cli.terminal import echo, exit_on_error, terminal_width


@click.command("compare", cls=Command, examples=[("compare 20261122-080115 20261122-091500", "")])
@click.argument("runs", nargs=-1, required=True, type=RunId(), metavar="RUN...")
@option("--metric", metavar="NAME", help="The metric to show by step.", show_default="loss")
@json_option
def command(runs: tuple[str, ...], metric: str | None, as_json: bool) -> None:
    """Compare runs, finished or live: speed, goodput, and a metric by step, side by side."""
    from clusterkit.cli.looking import RunSnapshot
    from clusterkit.store.journal import JournalReader
    from clusterkit.store.store import RunStore
    from clusterkit.views.comparison import compared, comparison
    from clusterkit.words import wire

    found = []
    with exit_on_error():
        for look in [RunSnapshot(RunStore().find(run)) for run in dict.fromkeys(runs)]:
            events = JournalReader(look.run).events(clock="m")
            found.append(compared(look.run.run_id, look.state, look.info.job if look.info else None, events))
    if as_json:
        echo_json([wire.encode(run) for run in found])
    else:
        echo(comparison(found, metric, terminal_width()), nl=False)
