"""`clusterkit top`."""

from __future__ import annotations

import json
import signal
import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from clusterkit.cli.addressing import OnRun, choose
from clusterkit.cli.help import option
from clusterkit.cli.options import Duration
from clusterkit.cli.params import json_option
from clusterkit.cli.terminal import CLEAR_SCREEN, act, echo, exit_on_error, show_frame, terminal_width
from clusterkit.text.printable import at_words, fitted
from clusterkit.words.model import number_of

if TYPE_CHECKING:
    from clusterkit.cli.snapshot import RunSnapshot


@click.command("top", cls=OnRun, examples=[("top -i 5s", ""), ("top --count 1 --json", "One sample.")])
@option("-i", "--interval", type=Duration(), default="1s", help="Time between updates.")
@option(
    "--count", type=click.IntRange(min=1), metavar="N", help="Stop after N updates.", show_default="when the run ends"
)
@json_option
def command(run: str | None, interval: float, count: int | None, as_json: bool) -> None:
    """Show the tasks of a live run, updated continuously, until it ends or Ctrl-C is pressed."""
    from clusterkit.cli.addressing import end_waiter
    from clusterkit.cli.snapshot import RunSnapshot
    from clusterkit.store.journal import follow
    from clusterkit.system.procfs import Meter
    from clusterkit.views.listing import tasks_table

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with exit_on_error():
            look, meter = RunSnapshot(choose(run, finished=False)), Meter()
        looks = follow(look.refresh, end_waiter(look.run).is_over, max(interval, 0.1))
        act(CLEAR_SCREEN if not as_json else "")
        look.rows(meter)  # CPU usage is measured from one sample to the next
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
    """A line about the run, and what it does now, with its first metrics, as `ps` says it."""
    status = look.status
    restarts = f", {number_of('restart', status.restarts)}" if status.restarts else ""
    checkpoint = f", checkpoint of step {status.checkpoint[0]}" if status.checkpoint else ""
    head, width = f"run {look.run.run_id}: {look.state}{restarts}{checkpoint}", terminal_width()
    word, text = look.activity
    return "\n".join([head if width is None else fitted(head, width), at_words(f"{word.capitalize()}: {text}", width)])
