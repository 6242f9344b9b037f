"""`clusterkit events`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from clusterkit.cli.errors import exit_on_error
from clusterkit.cli.params import json_option, run_argument, task_option, tasks_shown
from clusterkit.cli.terminal import echo

LOOK_EVERY = 0.1  # seconds between two looks at the journal of a live run


@click.command("events")
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the run is over.")
@task_option
@json_option
def command(run: str | None, follow: bool, tasks: tuple[str, ...], as_json: bool) -> None:
    """Show what happened and was decided in a run: its journal. Without RUN: the newest live run, or the newest."""
    from clusterkit.client.history import History, messages
    from clusterkit.client.runs import Life, choose

    with exit_on_error():
        path = choose(run, finished=True)
        names = {str(task) for task in tasks_shown(path, tasks)} if tasks else None
    history, life = History(path), Life(path)
    over = not follow
    while True:
        _print(messages(history.lines()), names, as_json)
        if over:
            return
        over = life.is_over(LOOK_EVERY)


def _print(found: Iterable[dict[str, Any]], names: set[str] | None, as_json: bool) -> None:
    lines = [_line(message, as_json) for message in found if names is None or _concerns(message) & names]
    if text := "".join(f"{line}\n" for line in lines if line is not None):
        echo(text, nl=False)


def _line(message: dict[str, Any], as_json: bool) -> str | None:
    from clusterkit.client.history import stamped
    from clusterkit.views.loglines import moment
    from clusterkit.views.timeline import event_text

    if as_json:
        return json.dumps(message)
    event = stamped(message)
    return None if event is None else event_text(*event, moment)


def _concerns(message: dict[str, Any]) -> set[str]:
    """The tasks that an event is about."""
    failure = message.get("failure") or {}
    return {name for name in (message.get("task"), failure.get("task"), *message.get("tasks", ())) if name}
