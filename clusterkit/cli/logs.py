"""`clusterkit logs`."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from clusterkit.cli.addressing import LIVE_OR_NEWEST, OnTasks, choose
from clusterkit.cli.help import option
from clusterkit.cli.params import json_option, tasks_shown
from clusterkit.cli.terminal import color_option, echo, exit_on_error, say, use_color
from clusterkit.text import durations

if TYPE_CHECKING:
    from clusterkit.views.loglines import LogLine

BATCH = 2000  # lines printed in one write


class Since(click.ParamType[float]):
    """A wall time, written `30s` (ago) or `2024-01-31T12:00:00`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return time.time() - durations.seconds(value)
        except ValueError:
            pass
        try:
            return datetime.datetime.fromisoformat(value).timestamp()
        except ValueError:
            self.fail(
                f"{value!r} is neither a duration such as 30s nor a time such as 2024-01-31T12:00:00.", param, ctx
            )


class Pattern(click.ParamType[re.Pattern[str]]):
    """A regular expression."""

    name = "regex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> re.Pattern[str]:
        try:
            return re.compile(value)
        except (re.error, RecursionError, OverflowError) as error:
            self.fail(f"{value!r:.200} is not a regular expression: {error}.", param, ctx)


@click.command(
    "logs",
    cls=OnTasks,
    usual=LIVE_OR_NEWEST,
    examples=(
        ("logs worker:1", "What one task wrote."),
        ("logs -f -n 20 ps worker:0", "The last 20 lines of some tasks, and what follows."),
        ("logs 2026 --grep loss --since 5m", "In the run whose id begins with 2026."),
    ),
)
@option("-f", "--follow", is_flag=True, help="Follow the run until it ends; implies --merge.")
@option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only the output of this attempt.")
@option("--since", type=Since(), help="Only output since then: 30s ago, or a time.")
@option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines, of each task or merged.")
@option("--grep", type=Pattern(), metavar="RE", help="Only lines that match this regular expression.")
@option("-t", "--timestamps", is_flag=True, help="Show the time of each line.")
@option("--all-output", is_flag=True, help="Show TensorFlow's noise, too, as --grep and --json do.")
@option("--merge", is_flag=True, help="Show the lines of all tasks in the order of time.")
@color_option
@json_option
def command(
    run: str | None, follow: bool, tasks: tuple[str, ...], attempt: int | None, since: float | None, tail: int | None,
    grep: re.Pattern[str] | None, timestamps: bool, all_output: bool, merge: bool, color: bool | None, as_json: bool,
) -> None:  # fmt: skip
    """Show the output of a run's tasks."""
    from clusterkit.cli.log_reader import LogReader, LogSelection
    from clusterkit.views.loglines import LogText

    with exit_on_error():
        chosen = choose(run, finished=True)
        shown = tasks_shown(chosen, tasks)
    colored = use_color(color)
    text = LogText(shown, colored, timestamps, as_json)
    reader = LogReader(chosen, LogSelection(tasks, attempt, since, tail, grep, not (all_output or as_json)))
    with closing(reader.arrivals):
        for lines in reader.follow() if follow else _batches(reader.lines_so_far(merge)):
            if joined := "".join(map(text.text, lines)):
                echo(joined, nl=False, color=colored)
    if reader.hides:
        say("TensorFlow's noise is hidden. Show it with --all-output.")


def _batches(lines: Iterator[LogLine]) -> Iterator[list[LogLine]]:
    while batch := list(islice(lines, BATCH)):
        yield batch
