"""`clusterkit ps`."""

from __future__ import annotations

import click

from clusterkit.cli.addressing import OnRun, choose
from clusterkit.cli.params import echo_json, json_option
from clusterkit.cli.terminal import echo, exit_on_error, terminal_width


@click.command("ps", cls=OnRun, examples=[("ps", ""), ("ps --json", "For scripts.")])
@json_option
def command(run: str | None, as_json: bool) -> None:
    """List the tasks of a run. CPU is the average over the attempt; `top` shows the current use."""
    from clusterkit.cli.snapshot import RunSnapshot
    from clusterkit.system.procfs import Meter
    from clusterkit.views.listing import tasks_table

    with exit_on_error():
        look = RunSnapshot(choose(run, finished=False))
        rows = look.rows(Meter() if look.live else None)
        dashboard = look.run.dashboard_address() if look.live else None
    word, text = look.activity
    if as_json:
        now = {"state": look.state, "now": word, "text": text, **look.advice(), "metrics": look.status.metrics}
        echo_json({"run_id": look.run.run_id, **now, "dashboard": dashboard, "tasks": rows})
        return
    echo(tasks_table(rows, terminal_width()), nl=False)
    echo("\n".join([f"{word.capitalize()}: {text}", *look.advice_lines(terminal_width())]))
    if dashboard is not None:
        echo(f"Dashboard: {dashboard}")
