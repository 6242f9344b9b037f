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

from clusterkit.cli.errors import exit_on_error
from clusterkit.cli.params import json_option, run_argument, task_option, tasks_shown
from clusterkit.cli.terminal import color_option, echo, use_color
from clusterkit.words import durations

if TYPE_CHECKING:
    from clusterkit.views.loglines import LogLine

BATCH = 2000  # lines that are printed at a time


class Since(click.ParamType[float]):
    """A wall time, from `30s` (ago) or `2024-01-31T12:00:00`."""

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
        except re.error as error:
            self.fail(f"{value!r} is not a regular expression: {error}.", param, ctx)


@click.command("logs")
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Follow the run until it ends; implies --merge.")
@task_option
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only the output of this attempt.")
@click.option("--since", type=Since(), help="Only output since then: 30s ago, or a time.")
@click.option(
    "-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines, of each task or merged."
)
@click.option("--grep", type=Pattern(), metavar="RE", help="Only lines that match this regular expression.")
@click.option("-t", "--timestamps", is_flag=True, help="Show the time of each line.")
@click.option("--merge", is_flag=True, help="Show the lines of all tasks in the order of time.")
@color_option
@json_option
def command(
    run: str | None, follow: bool, tasks: tuple[str, ...], attempt: int | None, since: float | None, tail: int | None,
    grep: re.Pattern[str] | None, timestamps: bool, merge: bool, color: bool | None, as_json: bool,
) -> None:  # fmt: skip
    """Show the output of a run's tasks. Without RUN: the newest live run, or else the newest."""
    from clusterkit.cli.reading import LogReader, Wanted
    from clusterkit.client.store import RunStore
    from clusterkit.views.loglines import LogText

    with exit_on_error():
        chosen = RunStore().choose(run, finished=True)
        shown = tasks_shown(chosen, tasks)
    colored = use_color(color)
    text = LogText(shown, colored, timestamps, as_json)
    reader = LogReader(chosen, Wanted(tasks, attempt, since, tail, grep))
    with closing(reader.arrivals):
        for lines in reader.followed() if follow else _batches(reader.so_far(merge)):
            if joined := "".join(map(text.text, lines)):
                echo(joined, nl=False, color=colored)


def _batches(lines: Iterator[LogLine]) -> Iterator[list[LogLine]]:
    while batch := list(islice(lines, BATCH)):
        yield batch
