"""Shared by many commands: types of parameters, the selection of tasks, and output as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from clusterkit.cli.addressing import ALL
from clusterkit.cli.help import option
from clusterkit.cli.terminal import echo
from clusterkit.text import durations
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import Task

if TYPE_CHECKING:
    from clusterkit.store.directory import RunDirectory


class NoSuchTask(ClusterkitError):
    """The run has no task of that name."""

    exit_code = 2


class Parsed(click.ParamType[Any]):
    """A type whose values `parse` makes of texts. It raises ValueError, with a sentence, for an invalid text."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Parsed("duration", durations.seconds)  # `10s`, `1m30s`, `7d` or a number of seconds
port_option = option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port to listen on.",
    show_default="a free port",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def echo_json(value: Any) -> None:
    """Print a JSON document, indented for human readers."""
    echo(json.dumps(value, indent=2))


def selector(names: Iterable[str]) -> Callable[[Task], bool]:
    """Return a function that tests whether the names select a task; without names, every task is selected."""
    wanted = set(names)
    return lambda task: not wanted or bool(wanted & {ALL, str(task), str(task.type)})


def tasks_shown(run: RunDirectory, names: Iterable[str]) -> list[Task]:
    """Return the named tasks of a run, for display. Raises NoSuchTask for a name that matches no task."""
    tasks = _tasks_of(run)
    for name in names:
        if not any(map(selector([name]), tasks)):
            raise NoSuchTask(f"The run {run.run_id} has no task {name}.")
    return list(filter(selector(names), tasks))


def tasks_of(run: RunDirectory, names: Iterable[str]) -> list[str]:
    """Return the named tasks of a run, for a request; an empty list for `all`. Raises NoSuchTask for unknown tasks."""
    wanted = list(dict.fromkeys(names))
    if ALL in wanted:
        return []
    tasks, found = _tasks_of(run), list[str]()
    for name in wanted:
        of_type = [str(task) for task in tasks if task.type == name]
        if not of_type and ":" not in name:
            raise NoSuchTask(f"The run {run.run_id} has no task of the type {name}.")
        if not of_type and tasks and name not in map(str, tasks):
            raise NoSuchTask(f"The run {run.run_id} has no task {name}.")
        found += of_type or [name]
    return list(dict.fromkeys(found))


def _tasks_of(run: RunDirectory) -> tuple[Task, ...]:
    info = run.info()
    return info.job.tasks if info else ()
