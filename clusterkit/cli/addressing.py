"""Parses the words that name a command's run and tasks, `[RUN] [TASK]...`. `--run RUN` can name the run instead.

A word in the form of a task (`worker:1`, `worker`, `all`) names a task. Any other first word names a run.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from clusterkit.cli.help import Command, HelpOption
from clusterkit.system.files import is_directory
from clusterkit.system.process import own_python
from clusterkit.text.spelling import closest
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import Task, TaskType, tasks_named

if TYPE_CHECKING:
    from clusterkit.store.directory import RunDirectory
    from clusterkit.store.journal import RunEndWaiter

ALL = "all"
LIVE_OR_NEWEST = "the newest live run, or else the newest run"
A_TASK = "worker:1, worker (all workers) or all"
FIRST = "clusterkit.run"  # key in a click context's meta; set if the first word names the run


class NoSuchTask(ClusterkitError):
    """Raised if a run has no task with the given name."""

    exit_code = 2


class RunId(click.ParamType[str]):
    """A run id, or the beginning of one."""

    name = "run"
    what = "A run id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail(f"{self.what} can't be empty.", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from clusterkit.store.store import RunStore, newest_first

        if ctx.params.get("words"):  # the run has already been given
            return []
        runs = [run for run in RunStore().all() if run.run_id.startswith(incomplete)]
        return [CompletionItem(run.run_id) for run in newest_first(runs)]


class RunOrTask(RunId):
    """A word that names a run or a task."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from clusterkit.store.store import RUN_ID

        word = str(value)
        task = as_task_name(word)
        if task is None and not RUN_ID.fullmatch(word) and not ("/" in word and is_directory(word)):
            self.fail(f"{word!r} is neither a run nor a task. A task is {A_TASK}.{_hint(word)}", param, ctx)
        return task or word

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        typed = [word for word in ctx.params.get("words") or () if as_task_name(word) is None]
        run = ctx.params.get("run") or next(iter(typed), None)
        names = [name for name in _names_in(run) if name.startswith(incomplete)]
        runs = [] if run else super().shell_complete(ctx, param, incomplete)
        return [*map(CompletionItem, names), *runs]


class OnRun(Command):
    """A command that acts on one run, which is passed as `run`. In the help, `usual` describes the default run."""

    words = "[RUN]"
    kind = RunId()

    def __init__(self, *args: Any, usual: str = "the newest live run", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        words = click.Argument(["words"], nargs=-1, type=self.kind, metavar=self.words)
        run = HelpOption(["--run"], type=RunId(), metavar="RUN", help="The run.", show_default=usual)
        self.params = [words, run, *self.params]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            self.address(ctx, list(ctx.params.pop("words")))
        return rest

    def address(self, ctx: click.Context, words: list[str]) -> None:
        """Set the command's parameters, such as `run`, from the words."""
        if words:
            self.set_run(ctx, words.pop(0))
        if words:
            ctx.fail(f"Only one run can be named. {words[0]!r} is one too many.")

    def error_hint(self, word: str) -> str:
        """Return the text to append to the error that the first word does not name a run."""
        return ""

    def set_run(self, ctx: click.Context, run: str) -> None:
        """Set the parameter `run` to the first word; fail if --run is given, too."""
        if ctx.get_parameter_source("run") is ParameterSource.COMMANDLINE:
            ctx.fail(f"The run is named twice: {run!r} and --run {ctx.params['run']}.")
        ctx.params["run"], ctx.meta[FIRST] = run, True


class OnTasks(OnRun):
    """A command that acts on tasks of one run, which are passed as `run` and `tasks`.

    If `required` is True, at least one task has to be named.
    """

    words = "[RUN] [TASK]..."
    kind = RunOrTask()

    def __init__(self, *args: Any, required: bool = False, **kwargs: Any) -> None:
        self.words = "[RUN] TASK..." if required else self.words
        super().__init__(*args, **kwargs)
        self._required = required

    def address(self, ctx: click.Context, words: list[str]) -> None:
        if words and as_task_name(words[0]) is None:
            self.set_run(ctx, words.pop(0))
        if wrong := [word for word in words if as_task_name(word) is None]:
            ctx.fail(f"{wrong[0]!r} is not a task. A task is {A_TASK}; a run goes before the tasks.{_hint(wrong[0])}")
        if self._required and not words:
            ctx.fail(f"No task is named. A task is {A_TASK}.{_hint(str(ctx.params['run'] or ''))}")
        ctx.params["tasks"] = tuple(words)

    def error_hint(self, word: str) -> str:
        return f" It is not a task either: a task is {A_TASK}.{_hint(word)}"


def as_task_name(word: str) -> str | None:
    """Return the word in standard form if it has the form of a task (`worker:1`, `worker` or `all`), else None."""
    if word == ALL:
        return word
    try:
        return tasks_named(word)
    except ValueError:
        return None


def choose(run: str | None, finished: bool) -> RunDirectory:
    """Return the run that the current command is for, as `RunStore.choose` selects it. Raises NoSuchRun."""
    from clusterkit.store.store import NoSuchRun, RunStore

    store = RunStore()
    try:
        return store.choose(run, finished)
    except NoSuchRun as error:
        context = click.get_current_context()
        if run is None or FIRST not in context.meta or not isinstance(context.command, OnRun):
            raise
        raise NoSuchRun(f"{error}{context.command.error_hint(run)}") from None


def _hint(word: str) -> str:
    """Return a question that suggests a task for a misspelled word; empty if the word resembles no task."""
    kind, index = re.fullmatch(r"(.*?)[-_.:/]?(\d*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
    close = closest(kind, TaskType)
    meant = as_task_name(f"{close}:{index}" if index else close) if close else None
    return f" Did you mean {meant}?" if meant else ""


def _names_in(run: str | None) -> list[str]:
    """Return the words that select tasks of a run: its tasks, their types, and `all`."""
    from clusterkit.store.store import NoSuchRun, RunStore

    try:
        info = RunStore().choose(run, finished=True).info()
    except NoSuchRun:
        return []
    tasks = info.job.tasks if info else ()
    return [*map(str, tasks), *dict.fromkeys(str(task.type) for task in tasks), ALL]


def live_run(run: str | None) -> RunDirectory:
    """Return the live run that the command is for. Raises ClusterkitError.

    If the run's supervisor is on another host, which an engine has allocated, run the command there and exit. No port
    is opened for this purpose: the engine starts the command, and allows only the run's user to do so.
    """
    chosen = choose(run, finished=False)
    info = chosen.info()
    if info is None or not info.allocation or info.host == socket.gethostname():
        return chosen
    from clusterkit.engines.base import engine_named

    command = own_python("-m", "clusterkit", *sys.argv[1:])
    done = engine_named(info.job.hosts.engine).run_inside(info.allocation, info.host, command)
    sys.stdout.buffer.write(done.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(done.stderr)
    sys.stderr.flush()
    sys.exit(done.returncode)


def end_waiter(run: RunDirectory) -> RunEndWaiter:
    """Return an object that waits for the end of a run, even if the run continues in another allocation of hosts."""
    from clusterkit.engines.base import continues
    from clusterkit.store.journal import RunEndWaiter

    return RunEndWaiter(run, lambda: continues(run))


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
    if info is None:  # job.json is missing or damaged
        return tuple(sorted({task for task, _, _ in run.logs()}))
    return info.job.tasks
