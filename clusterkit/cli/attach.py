"""`clusterkit attach`."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import click

from clusterkit.cli.errors import exit_on_error
from clusterkit.cli.options import display_options
from clusterkit.cli.params import run_argument
from clusterkit.cli.terminal import echo, use_color

if TYPE_CHECKING:
    from clusterkit.cli.watching import LiveConsole


@click.command("attach")
@run_argument
@click.option("-n", "--tail", type=click.IntRange(min=0), default=0, metavar="N", help="Show the last N lines first.")
@display_options(collects=False)
def command(
    run: str | None, tail: int, only: tuple[str, ...], all_output: bool, log_level: str, quiet: bool, color: bool | None
) -> None:
    """Show a live run as `up` does until it ends, and exit with its exit code.

    Ctrl-C detaches; the run continues.
    """
    from clusterkit.cli.watching import LiveConsole
    from clusterkit.client.store import RunStore
    from clusterkit.views.console import Show
    from clusterkit.views.narrate import Level

    show = Show(tasks=not quiet, only=frozenset(only), noise=all_output, color=use_color(color))
    level = Level.WARNING if quiet else Level[log_level.upper()]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with exit_on_error():
        watched = LiveConsole(RunStore().choose(run, finished=False), show, level, tail)
    sys.exit(_until_over(watched))


def _until_over(watched: LiveConsole) -> int:
    from clusterkit.client.follow import Life, follow

    try:
        for _ in follow(watched.show, Life(watched.run).is_over):
            pass
        return watched.end()
    except KeyboardInterrupt:
        watched.console.close()
        name = watched.run.run_id
        echo(f"clusterkit: the run {name} continues. Stop it with `clusterkit down {name}`.", err=True)
        return 0
