"""`clusterkit events`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from clusterkit.cli.addressing import LIVE_OR_NEWEST, OnTasks, choose
from clusterkit.cli.help import option
from clusterkit.cli.params import json_option, tasks_shown
from clusterkit.cli.terminal import echo, exit_on_error

if TYPE_CHECKING:
    from clusterkit.store.journal import JournalLine


@click.command(
    "events",
    cls=OnTasks,
    usual=LIVE_OR_NEWEST,
    examples=[("events -f", "Follow the newest run."), ("events worker:1", "What concerns one task.")],
)
@option("-f", "--follow", "following", is_flag=True, help="Follow the run until it ends.")
@json_option
def command(run: str | None, following: bool, tasks: tuple[str, ...], as_json: bool) -> None:
    """Show a run's journal: its events and decisions; with TASKs, those that concern them."""
    from clusterkit.cli.addressing import end_waiter
    from clusterkit.store.journal import JournalReader, follow

    with exit_on_error():
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
    from clusterkit.views.loglines import moment
    from clusterkit.views.timeline import event_text

    if as_json:
        return json.dumps(entry.message)
    event = entry.event()
    return None if event is None else event_text(*event, moment)


def _concerns(message: dict[str, Any]) -> set[str]:
    """Return the names of the tasks that an event concerns."""
    failure, tasks = message.get("failure"), message.get("tasks")
    names = [message.get("task"), failure.get("task") if isinstance(failure, dict) else None]
    return {name for name in [*names, *(tasks if isinstance(tasks, list) else ())] if isinstance(name, str)}
