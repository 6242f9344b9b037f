"""The parameters that the commands on runs share, with their completion."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from clusterkit.cli.terminal import echo
from clusterkit.words.model import Task, TaskType

if TYPE_CHECKING:
    from clusterkit.client.directory import RunDirectory

ALL = "all"
Command = Callable[..., Any]


class RunId(click.ParamType[str]):
    """A run id, or the beginning of one."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("A run id is not empty.", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from clusterkit.client.store import RunStore, newest_first

        runs = [run for run in RunStore().all() if run.run_id.startswith(incomplete)]
        return [CompletionItem(run.run_id) for run in newest_first(runs)]


class TaskName(click.ParamType[str]):
    """`worker:1`, `worker` for all of a type, or `all`."""

    name = "task"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == ALL or value in set(TaskType):
            return str(value)
        try:
            return str(Task.parse(value))
        except ValueError:
            self.fail(f"{value!r} is not a task. Write worker:1, worker for all of a type, or all.", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from clusterkit.client.store import NoSuchRun, RunStore

        try:
            tasks = _tasks_of(RunStore().choose(ctx.params.get("run"), finished=True))
        except NoSuchRun:
            tasks = ()
        names = [*map(str, tasks), *dict.fromkeys(str(task.type) for task in tasks), ALL]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


run_argument = click.argument("run", required=False, type=RunId(), metavar="[RUN]")
run_option = click.option("--run", type=RunId(), metavar="RUN", help="The run. [the newest live one]")
tasks_argument = click.argument("tasks", nargs=-1, required=True, type=TaskName(), metavar="TASK...")
task_option = click.option(
    "--task", "tasks", multiple=True, type=TaskName(), metavar="TASK", help="Only of this task, or task type."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def echo_json(value: Any) -> None:
    """Print one document, for people too."""
    echo(json.dumps(value, indent=2))


def selects(names: Iterable[str]) -> Callable[[Task], bool]:
    """Whether a task is among those named; with no name each is."""
    wanted = set(names)
    return lambda task: not wanted or bool(wanted & {ALL, str(task), str(task.type)})


def tasks_shown(run: RunDirectory, names: Iterable[str]) -> list[Task]:
    """The tasks of a run that are named, to look at. Raises ClusterkitError for a name that means none of them."""
    from clusterkit.words.errors import ClusterkitError

    tasks = _tasks_of(run)
    for name in names:
        if not any(map(selects([name]), tasks)):
            raise ClusterkitError(f"The run {run.run_id} has no task {name}.")
    return list(filter(selects(names), tasks))


def tasks_of(run: RunDirectory, names: Iterable[str]) -> list[str]:
    """The tasks of a run that are named, for a request. Raises ClusterkitError for a type of which it has none."""
    from clusterkit.words.errors import ClusterkitError

    wanted = list(dict.fromkeys(names))
    if ALL in wanted:
        return []
    tasks, found = _tasks_of(run), list[str]()
    for name in wanted:
        of_type = [str(task) for task in tasks if task.type == name]
        if not of_type and ":" not in name:
            raise ClusterkitError(f"The run {run.run_id} has no task of the type {name}.")
        found += of_type or [name]
    return list(dict.fromkeys(found))


def _tasks_of(run: RunDirectory) -> tuple[Task, ...]:
    info = run.info()
    return info.job.tasks if info else ()
