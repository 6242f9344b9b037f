"""`clusterkit attach`."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import click

from clusterkit.cli.addressing import OnTasks, choose
from clusterkit.cli.errors import exit_on_error
from clusterkit.cli.help import option
from clusterkit.cli.options import display_options
from clusterkit.cli.params import tasks_shown
from clusterkit.cli.terminal import echo, status_group, use_color

if TYPE_CHECKING:
    from clusterkit.cli.watching import LiveConsole


@click.command(
    "attach",
    cls=OnTasks,
    examples=(
        ("attach", "Show the newest live run."),
        ("attach -n 20 worker:1", "Show one task, and its last 20 lines first."),
    ),
)
@option("-n", "--tail", type=click.IntRange(min=0), default=0, metavar="N", help="Show the last N lines first.")
@display_options
def command(
    run: str | None, tasks: tuple[str, ...], tail: int, all_output: bool, log_level: str, quiet: bool,
    color: bool | None,
) -> None:  # fmt: skip
    """Show a live run as `up` does until it ends, and exit with its exit code.

    With TASKs, only their output is shown. Ctrl-C detaches; the run continues.
    """
    from clusterkit.cli.watching import LiveConsole
    from clusterkit.views.console import Show
    from clusterkit.views.narrate import Level

    level = Level.WARNING if quiet else Level[log_level.upper()]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with exit_on_error():
        chosen = choose(run, finished=False)
        only = frozenset(map(str, tasks_shown(chosen, tasks))) if tasks else frozenset[str]()
        show = Show(tasks=not quiet, only=only, noise=all_output, color=use_color(color), group=status_group(quiet))
        watched = LiveConsole(chosen, show, level, tail)
    sys.exit(_until_over(watched))


def _until_over(watched: LiveConsole) -> int:
    from clusterkit.cli.elsewhere import life_of
    from clusterkit.client.follow import follow

    try:
        for _ in follow(watched.show, life_of(watched.run).is_over):
            pass
        return watched.end()
    except KeyboardInterrupt:
        watched.console.close()
        name = watched.run.run_id
        echo(f"clusterkit: the run {name} continues. Stop it with `clusterkit down {name}`.", err=True)
        return 0
