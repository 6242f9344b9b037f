"""`clusterkit logs` and `events`: the output of a run's tasks, and the run's journal."""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, suppress
from itertools import islice
from typing import Any

import click

from clusterkit.cli.addressing import LIVE_OR_NEWEST, OnTasks, choose, end_waiter, tasks_shown
from clusterkit.cli.help import Parsed, json_option, option
from clusterkit.cli.terminal import color_option, echo, say, use_color
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalLine, JournalReader, follow
from clusterkit.text import durations
from clusterkit.text.spelling import listed
from clusterkit.views.loglines import LogLine, LogText, moment
from clusterkit.words.model import Task

BATCH = 2000  # lines printed in one write


def _since(text: str) -> float:
    """Return the wall-clock time that a text means: `30s` (30 seconds ago), or a time such as `2024-01-31T12:00:00`."""
    with suppress(ValueError):
        return time.time() - durations.seconds(text)
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise ValueError(
            f"{text!r} is neither a duration such as 30s nor a time such as 2024-01-31T12:00:00."
        ) from None


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{text!r:.200} is not a regular expression: {error}.") from None


@click.command(
    "logs",
    cls=OnTasks,
    usual=LIVE_OR_NEWEST,
    examples=(
        ("logs worker:1", "What one task wrote."),
        ("logs -f -n 20 ps worker:0", "The last 20 lines of some tasks, and new lines."),
        ("logs 2026 --grep loss --since 5m", "In the run whose id begins with 2026."),
    ),
)
@option("-f", "--follow", is_flag=True, help="Follow the run until it ends; implies --merge.")
@option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only the output of this attempt.")
@option("--since", type=Parsed("time", _since), help="Only output since this time, or from this period, such as 30s.")
@option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines, of each task or merged.")
@option("--grep", type=Parsed("RE", _pattern), help="Only lines that match this regular expression.")
@option("-t", "--timestamps", is_flag=True, help="Show the time of each line.")
@option("--all-output", is_flag=True, help="Show TensorFlow's noise, too, as --grep and --json do.")
@option("--merge", is_flag=True, help="Show the lines of all tasks in chronological order.")
@color_option
@json_option
def logs(
    run: str | None, follow: bool, tasks: tuple[str, ...], attempt: int | None, since: float | None, tail: int | None,
    grep: re.Pattern[str] | None, timestamps: bool, all_output: bool, merge: bool, color: bool | None, as_json: bool,
) -> None:  # fmt: skip
    """Show the output of a run's tasks."""
    from clusterkit.cli.log_reader import LogReader

    chosen = choose(run, finished=True)
    shown = tasks_shown(chosen, tasks)
    if attempt is not None and not follow:
        _tell_missing_attempt(chosen, shown, attempt)
    colored = use_color(color)
    text = LogText(shown, colored, timestamps, as_json)
    reader = LogReader(chosen, tasks, attempt, since, tail, grep, not (all_output or as_json))
    with closing(reader.arrivals):
        for lines in reader.follow() if follow else _batches(reader.lines_so_far(merge)):
            if joined := "".join(map(text.text, lines)):
                echo(joined, nl=False, color=colored)
    if reader.hides:
        say("TensorFlow's noise is hidden. Show it with --all-output.")


def _tell_missing_attempt(run: RunDirectory, tasks: Collection[Task], attempt: int) -> None:
    """Print a line if none of the tasks has had this attempt, since no output would look like a silent task."""
    newest = max((number for task, number, _ in run.logs() if task in tasks), default=0)
    if attempt > newest:
        had = f"the newest is attempt {newest}" if newest else "nothing was started"
        say(f"the run {run.run_id} has no attempt {attempt} of {listed(tasks)}: {had}.")


def _batches(lines: Iterator[LogLine]) -> Iterator[list[LogLine]]:
    while batch := list(islice(lines, BATCH)):
        yield batch


@click.command(
    "events",
    cls=OnTasks,
    usual=LIVE_OR_NEWEST,
    examples=[("events -f", "Follow the newest run."), ("events worker:1", "What concerns one task.")],
)
@option("-f", "--follow", "following", is_flag=True, help="Follow the run until it ends.")
@json_option
def events(run: str | None, following: bool, tasks: tuple[str, ...], as_json: bool) -> None:
    """Show a run's journal: its events and decisions. With TASKs, show only what concerns these tasks."""
    chosen = choose(run, finished=True)
    names = {str(task) for task in tasks_shown(chosen, tasks)} if tasks else None
    journal = JournalReader(chosen)
    for entries in follow(journal.new, end_waiter(chosen).is_over) if following else [journal.new()]:
        _print(entries, names, as_json)


def _print(entries: Iterable[JournalLine], names: set[str] | None, as_json: bool) -> None:
    lines = [_line(entry, as_json) for entry in entries if names is None or _concerns(entry.message) & names]
    if text := "".join(f"{line}\n" for line in lines if line is not None):
        echo(text, nl=False)


def _line(entry: JournalLine, as_json: bool) -> str | None:
    from clusterkit.views.timeline import any_sentence

    if as_json:
        return json.dumps(entry.message)
    if (stamped := entry.event()) is None or (text := any_sentence(stamped[1])) is None:
        return None
    return f"{moment(stamped[0])} {text}"


def _concerns(message: dict[str, Any]) -> set[str]:
    """Return the names of the tasks that an event concerns."""
    failure, tasks = message.get("failure"), message.get("tasks")
    names = [message.get("task"), failure.get("task") if isinstance(failure, dict) else None]
    return {name for name in [*names, *(tasks if isinstance(tasks, list) else ())] if isinstance(name, str)}
