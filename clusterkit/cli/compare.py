"""`clusterkit compare`."""

from __future__ import annotations

from dataclasses import replace

import click

from clusterkit.cli.addressing import RunId
from clusterkit.cli.help import Command, json_option, option
from clusterkit.cli.terminal import echo, echo_json, exit_on_error, say, terminal_width


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
def command(runs: tuple[str, ...], metric: str | None, as_json: bool) -> None:
    """Compare runs, finished or live: options, speed, goodput, and a metric by step, side by side.

    A run is given by its id, or as the newest run of a program: compare slow.py fast.py. By default, the last two runs
    of the same program.
    """
    from clusterkit.cli.snapshot import RunSnapshot
    from clusterkit.job.options import texts_of
    from clusterkit.store.journal import JournalReader
    from clusterkit.store.store import RunStore
    from clusterkit.views.comparison import compared, comparison
    from clusterkit.words import wire

    found = []
    with exit_on_error():
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
