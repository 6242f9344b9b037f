"""Options of commands: job options, made from the table of options, and display options."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from clusterkit.cli.help import DURATION, Parsed, option
from clusterkit.cli.terminal import color_in
from clusterkit.job.options import OPTIONS, GivenOptions, JobOptions, OptionEntry, OptionKind
from clusterkit.words.model import tasks_named

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
DISPLAY = "Output"  # heading of the display options in the help
PROBLEMS = "clusterkit.problems"  # key in a click context's meta; holds the problems of each option by its name


class CollectingType(click.ParamType[Any]):
    """Wraps a type so that an invalid value does not end the parsing; all problems are reported together."""

    def __init__(self, kind: click.ParamType[Any]) -> None:
        self.name = kind.name
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._kind.convert(value, param, ctx)
        except click.BadParameter as error:
            assert param is not None
            assert ctx is not None
            found = ctx.meta.setdefault(PROBLEMS, {})
            found.setdefault(param.name, []).append(f"{param.opts[-1]}: {error.message}")
            return None

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._kind.get_metavar(param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return self._kind.shell_complete(ctx, param, incomplete)


def _variable(text: str) -> tuple[str, str]:
    """Parse `NAME=VALUE`, or `NAME` to pass on its value here, which keeps the value out of the command line."""
    name, equals, value = text.partition("=")
    if not name:
        raise ValueError(f"{text!r} is not of the form NAME=VALUE or NAME.")
    if not equals and name not in os.environ:
        raise ValueError(f"There is no variable {name} here to pass on. Set it, or write {name}=VALUE.")
    return name, value if equals else os.environ[name]


_TYPES: Mapping[OptionKind, click.ParamType[Any]] = {
    OptionKind.NUMBER: click.INT,
    OptionKind.DURATION: DURATION,
    OptionKind.VARIABLES: Parsed("NAME[=VALUE]", _variable),
}
only_option = option(
    "--only",
    type=CollectingType(Parsed("task", tasks_named)),
    multiple=True,
    group=DISPLAY,
    help="Show only these tasks; the logs keep all.",
)
program_argument = click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM [ARGS]...")


def _option(entry: OptionEntry) -> Decorator:
    about = entry.about
    shown = entry.default or False
    if entry.kind is OptionKind.SWITCH:
        switch = f"{entry.flag}/--no-{entry.key}"
        return option(switch, default=None, help=about.help, show_default=shown, group=entry.group)
    kind = click.Choice(entry.choices) if entry.choices else _TYPES.get(entry.kind, click.STRING)
    names = [about.short, entry.flag] if about.short else [entry.flag]
    is_multiple = entry.kind in (OptionKind.TEXTS, OptionKind.VARIABLES)
    metavar = "N" if entry.kind is OptionKind.NUMBER else about.metavar
    return option(
        *names, type=CollectingType(kind), multiple=is_multiple, metavar=metavar, help=about.help, show_default=shown,
        group=entry.group, hidden=about.hidden,
    )  # fmt: skip


def job_options(*names: str) -> Decorator:
    """Add the job options with these names to a command; without names, all job options."""
    return _with_options([_option(OPTIONS[name]) for name in names or OPTIONS])


def display_options(command: Command) -> Command:
    """Add the display options to a command."""
    return _with_options([
        option("--all-output", is_flag=True, group=DISPLAY, help="Show TensorFlow's noise and repeated lines, too."),
        option("--log-level", type=click.Choice(["debug", "info", "warning"]), default="info",
               group=DISPLAY, help="Which of clusterkit's own messages to show."),
        option("-q", "--quiet", is_flag=True, group=DISPLAY, help="Show no task's output, only problems and the end."),
        color_in(group=DISPLAY),
    ])(command)  # fmt: skip


def _with_options(options: Sequence[Decorator]) -> Decorator:
    def add(command: Command) -> Command:
        for one in reversed(options):
            command = one(command)
        return command

    return add


def given(values: Mapping[str, object]) -> GivenOptions:
    """Return the job options among a command's parameters, with the problems that the parsing collected."""
    options = {name: value for name in OPTIONS if (value := _valid(values.get(name))) is not None}
    if "env" in options:
        options["env"] = dict(cast(tuple[tuple[str, str], ...], options["env"]))
    words = list(cast(tuple[str, ...], values.get("program", ())))
    if words and "module" not in options:
        options["program"] = words.pop(0)
    if words or "program" in options or "module" in options:
        options["args"] = words
    problems: Mapping[str, list[str]] = click.get_current_context().meta.get(PROBLEMS, {})
    return GivenOptions(cast(JobOptions, options), [*chain.from_iterable(problems.values())], frozenset(problems))


def _valid(value: object) -> object:
    """Return the valid values of an option; None without any."""
    return tuple(one for one in value if one is not None) or None if isinstance(value, tuple) else value
