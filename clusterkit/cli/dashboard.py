"""`clusterkit dashboard`."""

from __future__ import annotations

import signal

import click

from clusterkit.cli.addressing import OnRun, choose
from clusterkit.cli.help import option
from clusterkit.cli.terminal import echo, exit_on_error


@click.command(
    "dashboard",
    cls=OnRun,
    usual="the list of all runs",
    examples=(("dashboard", "All runs."), ("dashboard --control 2026", "One run, which the page can act on.")),
)
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port to listen on.",
    show_default="a free port",
)
@option("--control", is_flag=True, help="Let the page act on runs: kill, pause, restart, break and end them.")
def command(run: str | None, port: int, control: bool) -> None:
    """Show live and finished runs in a browser until Ctrl-C is pressed.

    It listens on 127.0.0.1 only. Whoever opens the page needs the token in the address that is printed.
    """
    from clusterkit.job.preflight import dashboard_problems
    from clusterkit.store.store import RunStore
    from clusterkit.words.errors import ClusterkitError

    with exit_on_error():
        chosen = None if run is None else choose(run, finished=True)
        if problems := dashboard_problems():
            raise ClusterkitError(problems[0])
        from clusterkit.page.serve import PageServer

        server = PageServer(RunStore(), control, port)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # until uvicorn installs its own handlers
            signal.signal(number, lambda number, frame: server.end())
        what = "all runs" if chosen is None else f"the run {chosen.run_id}"
        place = "/" if chosen is None else f"/run/{chosen.run_id}"
        echo(f"The dashboard shows {what} until Ctrl-C is pressed: {server.address(place)}")
        server.run()
