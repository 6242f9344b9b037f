"""The options of `up` and `config`, which are the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
from click.shell_completion import CompletionItem

from clusterkit.cli.terminal import color_option
from clusterkit.job.gathered import WRONG
from clusterkit.words import durations
from clusterkit.words.job import Network, RestartPolicy, RestartScope, Servers, StartMode
from clusterkit.words.model import Task, TaskType

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


@dataclass(frozen=True, slots=True)
class Wrong:
    """In the place of a value that can't be one: why. It is told together with whatever else is wrong with the job."""

    problem: str


class Collected(click.ParamType[Any]):
    """Another type, whose errors become values."""

    def __init__(self, kind: click.ParamType[Any]) -> None:
        self.name = kind.name
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return value if isinstance(value, Wrong) else self._kind.convert(value, param, ctx)
        except click.BadParameter as error:
            name = param.opts[-1] if param else self.name
            return Wrong(f"{name}: {error.message}")

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._kind.get_metavar(param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return self._kind.shell_complete(ctx, param, incomplete)


class JobOption(click.Option):
    """An option of a job. A wrong value does not end the reading of the command line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.is_flag:
            self.type = Collected(self.type)


class Duration(click.ParamType[float]):
    """Seconds, from `10s`, `1m30s`, `7d` or a number."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return durations.seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class EnvPair(click.ParamType[tuple[str, str]]):
    """`NAME=VALUE`, or `NAME` for the value that it has here, which no command line shows then."""

    name = "NAME[=VALUE]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name:
            self.fail(f"{value!r} is not of the form NAME=VALUE or NAME.", param, ctx)
        if not equals and name not in os.environ:
            self.fail(f"There is no variable {name} here to pass on. Set it, or write {name}=VALUE.", param, ctx)
        return name, text if equals else os.environ[name]


class TaskFilter(click.ParamType[str]):
    """`worker:1`, or `worker` for all of a type."""

    name = "task"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in set(TaskType):
            return str(value)
        try:
            return str(Task.parse(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


_option: Callable[..., Decorator] = partial(click.option, cls=JobOption)

_JOB_OPTIONS = [
    _option("-f", "--file", "job_file", metavar="JOB.TOML", help="Read the job from a file; flags override it."),
    _option("-m", "--module", metavar="NAME", help="Run a module, as `python -m NAME`, instead of PROGRAM."),
    _option("--workers", type=int, metavar="N", help="Worker tasks. [1, if no task is asked for]"),
    _option("--ps", type=int, metavar="N", help="Parameter servers; they bring the chief, which coordinates."),
    _option("--chief/--no-chief", default=None, help="A chief beside the workers; without, worker:0 is chief."),
    _option("--evaluator/--no-evaluator", default=None, help="An evaluator as a side car."),
    _option("--env", type=EnvPair(), multiple=True, help="A variable for every task; NAME alone passes it on."),
    _option("--cwd", metavar="DIR", help="The directory in which the tasks run."),
    _option("--python", metavar="PATH", help="The interpreter of the tasks. [clusterkit's own]"),
    _option(
        "--start",
        type=click.Choice([mode.value for mode in StartMode]),
        help="Fork tasks from a process that has imported TensorFlow (warm), where it is safe (auto), or not. [auto]",
    ),
    _option("--preload", multiple=True, metavar="MODULE", help="A module to import before warm starts too."),
    _option("--restart", type=click.Choice([p.value for p in RestartPolicy]), help="Restart policy. [on-failure]"),
    _option("--restart-budget", type=int, metavar="N", help="Restarts before the job is given up. [3]"),
    _option("--restart-backoff", type=Duration(), help="Before the first restart; doubles each time. [1s]"),
    _option("--restart-backoff-max", type=Duration(), help="The longest backoff. [30s]"),
    _option(
        "--restart-scope",
        type=click.Choice([scope.value for scope in RestartScope]),
        help="Which tasks restart together; auto: what the strategy needs. [auto]",
    ),
    _option("--grace-period", type=Duration(), help="From SIGTERM to SIGKILL. [10s]"),
    _option("--startup-timeout", type=Duration(), help="For all tasks to be connected; 0: no limit. [2m]"),
    _option("--stall-warning", type=Duration(), help="Without progress before a warning; 0: none. [1m]"),
    _option("--stall-timeout", type=Duration(), help="Without progress before the stuck task is killed. [off]"),
    _option("--timeout", type=Duration(), help="For the whole job; then exit code 124. [off]"),
    _option("--run-id", metavar="ID", help="A name for the run. [from the time]"),
    _option("--checkpoint-dir", metavar="DIR", help="Where the job checkpoints. [in the run directory]"),
    _option("--resume", metavar="RUN", help="Continue from the checkpoints of an earlier run."),
    _option("--fault", multiple=True, metavar="FAULT", help="Break something: 'kill worker:1 @ step=100'."),
    _option("--seed", type=click.IntRange(0, 2**64 - 1), metavar="N", help="Of what is random; replays a run."),
    _option(
        "--network",
        type=click.Choice([network.value for network in Network]),
        help="host: loopback; virtual: an address for each task, and a network that can be broken. [host]",
    ),
    _option("--pcap", metavar="FILE", help="Write what crosses the virtual network."),
    _option(
        "--servers",
        type=click.Choice([servers.value for servers in Servers]),
        help="What workers and ps of a parameter-server job run: the program, or clusterkit's own server. [program]",
    ),
    _option("--keras", type=click.Choice([2, 3]), help="The Keras that tf.keras is. [TensorFlow's default, 3]"),
    _option(
        "--keras-fix/--no-keras-fix", default=None, help="Mend Keras 3 where it can't train on several workers. [yes]"
    ),
    _option("--cpus-per-task", type=click.IntRange(1), metavar="N", help="Pin each task to cores of its own."),
    _option("--gpus-per-task", type=click.IntRange(0), metavar="N", help="GPUs that each training task gets."),
    _option("--tensorboard/--no-tensorboard", default=None, help="Run TensorBoard beside the job."),
    _option("--progress-regex", metavar="RE", help="Finds the step in the log, for programs that report none."),
]  # fmt: skip

_PROGRAM: list[Decorator] = [click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM [ARGS]...")]


def _display_options(option: Callable[..., Decorator]) -> list[Decorator]:
    return [
        option("--only", type=TaskFilter(), multiple=True, help="Show only these tasks; the logs keep everything."),
        option("--all-output", is_flag=True, help="Show TensorFlow's start-up noise too."),
        click.option("--log-level", type=click.Choice(["debug", "info", "warning"]), default="info", show_default=True,
                     help="How much clusterkit itself tells."),
        option("-q", "--quiet", is_flag=True, help="Show no task's output, only problems and the end."),
        color_option,
    ]  # fmt: skip


def job_options(command: Command) -> Command:
    """Add every option to a command, which then takes them all as keywords."""
    for option in reversed([*_JOB_OPTIONS, *_display_options(_option), *_PROGRAM]):
        command = option(command)
    return command


def options_of_job(*names: str) -> Decorator:
    """Add these options of a job, and `program`, to a command by their parameters' names; all where none is named."""

    def add(command: Command) -> Command:
        def takes_all() -> None: ...

        for option in reversed([*_JOB_OPTIONS, *_PROGRAM]):
            option(takes_all)
        every: list[click.Parameter] = vars(takes_all)["__click_params__"]
        wanted = [each for each in every if not names or each.name in names]
        vars(command).setdefault("__click_params__", []).extend(wanted)
        return command

    return add


def display_options(command: Command) -> Command:
    """Add the options that say how a run is shown."""
    for option in reversed(_display_options(click.option)):
        command = option(command)
    return command


def given(values: dict[str, Any]) -> dict[str, Any]:
    """The job's options as the rules want them: only what was given, under the flags' names.

    What is wrong with some of them is under the key WRONG.
    """
    options = {key: value for key, value in values.items() if value is not None and value != ()}
    wrong = {key: found for key, value in options.items() if (found := problems_in(value))}
    options = {key: usable(value) for key, value in options.items() if not isinstance(value, Wrong)}
    words = list(options.pop("program", ()))
    if words and "module" not in options:
        options["program"] = words.pop(0)
    if words or "program" in options or "module" in options:
        options["args"] = words
    if "env" in options:
        options["env"] = dict(options["env"])
    return {**options, WRONG: wrong} if wrong else options


def problems_in(value: Any) -> list[str]:
    """What is wrong with an option's value, or with some of its values."""
    return [one.problem for one in (value if isinstance(value, tuple) else [value]) if isinstance(one, Wrong)]


def usable(value: Any) -> Any:
    """Those values of an option that can be used."""
    return tuple(one for one in value if not isinstance(one, Wrong)) if isinstance(value, tuple) else value
