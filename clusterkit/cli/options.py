"""Options that commands share: job options, built from the table of options, and display options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from clusterkit.cli.help import DURATION, Command, Parsed, option
from clusterkit.cli.terminal import can_ask, color_in, say
from clusterkit.job.options import OPTIONS, GivenOptions, JobOptions, OptionEntry, OptionKind
from clusterkit.system.argv import hide_in_command_line
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import tasks_named
from clusterkit.words.secrets import is_harmless, without_credentials

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]
DISPLAY = "Output"  # heading of the display options in the help
PROBLEMS = "clusterkit.problems"  # key in a click context's meta; maps an option's name to its problems
USUAL_FILE = "job.toml"
LONGEST_VALUE = 100  # characters
USUAL_OPTIONS = "file module workers ps evaluator env restart_budget resume fault dashboard"


class CollectingType(click.ParamType[Any]):
    """Wraps a type so that parsing continues after an invalid value, and all problems are reported together."""

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
    """Parse `NAME=VALUE` or `NAME`.

    The value of a `NAME` is taken from this process's environment, so that it does not appear on the command line.
    """
    name, equals, value = text.partition("=")
    if not name:
        raise ValueError(f"{text!r} is not of the form NAME=VALUE or NAME.")
    if not equals and name not in os.environ:
        raise ValueError(f"The variable {name} is not set here. Set it, or write {name}=VALUE.")
    return name, value if equals else os.environ[name]


def _request(text: str) -> str:
    """Check the value of an option such as --verify."""
    from clusterkit.words.verification import request_text  # imported here: `--help` does not need it

    return request_text({"true": "yes", "false": "no"}.get(text.lower(), text))


_TYPES: Mapping[OptionKind, click.ParamType[Any]] = {
    OptionKind.NUMBER: click.INT,
    OptionKind.DURATION: DURATION,
    OptionKind.VARIABLES: Parsed("NAME[=VALUE]", _variable),
    OptionKind.REQUEST: Parsed("request", _request),
}
only_option = option(
    "--only",
    type=CollectingType(Parsed("task", tasks_named)),
    multiple=True,
    group=DISPLAY,
    help="Show only these tasks; the logs contain all tasks.",
)
program_argument = click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM [ARGS]...")


def _option(entry: OptionEntry) -> Decorator:
    about = entry.about
    shown = entry.default or False
    if entry.kind is OptionKind.SWITCH:
        switch = f"{entry.flag}/--no-{entry.key}"
        return option(switch, default=None, help=about.help, show_default=shown, group=entry.group, hidden=about.hidden)
    kind = click.Choice(entry.choices) if entry.choices else _TYPES.get(entry.kind, click.STRING)
    names = [about.short, entry.flag] if about.short else [entry.flag]
    optional: dict[str, Any] = {"is_flag": False, "flag_value": "yes"} if entry.kind is OptionKind.REQUEST else {}
    is_multiple = entry.kind in (OptionKind.TEXTS, OptionKind.VARIABLES)
    metavar = "N" if entry.kind is OptionKind.NUMBER else about.metavar
    return option(
        *names, type=CollectingType(kind), multiple=is_multiple, metavar=metavar, help=about.help, show_default=shown,
        group=entry.group, hidden=about.hidden, **optional,
    )  # fmt: skip


def job_options(*names: str) -> Decorator:
    """Add the job options with these names to a command; without names, all job options."""
    return _with_options([_option(OPTIONS[name]) for name in names or OPTIONS])


def display_options(command: Function) -> Function:
    return _with_options([
        option("--all-output", is_flag=True, group=DISPLAY, help="Show TensorFlow's noise and repeated lines, too."),
        option("--log-level", type=click.Choice(["debug", "info", "warning"]), default="info",
               group=DISPLAY, help="Which of clusterkit's own messages to show."),
        option("-q", "--quiet", is_flag=True, group=DISPLAY, help="Show only problems and the report, no task output."),
        color_in(group=DISPLAY),
    ])(command)  # fmt: skip


def _with_options(options: Sequence[Decorator]) -> Decorator:
    def add(command: Function) -> Function:
        for one in reversed(options):
            command = one(command)
        return command

    return add


def given(values: Mapping[str, object]) -> GivenOptions:
    """Return the job options among a command's parameters, with the problems that were found in parsing."""
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
    """Return an option's value without invalid parts; None if nothing is left."""
    return tuple(one for one in value if one is not None) or None if isinstance(value, tuple) else value


class JobCommand(Command):
    """A command on a job. A job file can be given in place of the program.

    If neither is given and ./job.toml exists, the command reads this file. On a terminal, the command first asks the
    user; elsewhere, it prints a message.
    """

    usual = frozenset(USUAL_OPTIONS.split())
    allow_interspersed_args = False  # options after the program belong to the program

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = self._with_requests(ctx, args)
        if not ctx.resilient_parsing:
            args = self._with_file(ctx, args)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            _hide_values(ctx.params.get("env") or ())
        program: tuple[str, ...] = ctx.params.get("program") or ()
        if program[1:2] == ("--",) and program[0].endswith(".py"):  # other launchers separate arguments with `--`
            ctx.params["program"] = (program[0], *program[2:])
        is_bare = all(ctx.params.get(name) in (None, ()) for name in ("program", "module", "file"))
        if not ctx.resilient_parsing and ctx.obj is None and is_bare and Path(USUAL_FILE).is_file():
            ctx.params["file"] = USUAL_FILE if _is_wanted(ctx) else None
        return rest

    def _with_requests(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments, with the value of each `--verify` before the program attached to it.

        click would take the program in `--verify train.py` for the value.
        """
        requests = [entry.flag for entry in OPTIONS.values() if entry.kind is OptionKind.REQUEST]
        words = list[str]()
        rest = list(args)
        while rest:
            word = rest.pop(0)
            if word not in requests or not self._expects_option(ctx, words):
                words.append(word)
                continue
            from clusterkit.words.verification import is_request

            words.append(f"{word}={rest.pop(0) if rest and is_request(rest[0]) else 'yes'}")
        return words

    def _expects_option(self, ctx: click.Context, words: list[str]) -> bool:
        """Return whether an option can follow these arguments, which is not so after the program or after `--`."""
        try:
            given, rest, _ = self.make_parser(ctx).parse_args([*words])
        except click.UsageError:  # the last option lacks its value, or an option is unknown, which is reported later
            return False
        program = given.get("program")
        has_program = isinstance(program, tuple | list) and len(program) > 0
        return "--" not in words and not has_program and not rest

    def _with_file(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        """Return the arguments, with `-f` inserted before a job file that is given in place of the program."""
        try:
            given = self.make_parser(ctx).parse_args(list(args))[0]
        except click.NoSuchOption as error:
            raise self._with_hint(error, args, ctx) from None
        words = list(args)
        program = given["program"] if isinstance(given.get("program"), tuple | list) else ()
        if program and program[0].endswith(".toml") and "file" not in given:
            at = len(words) - len(program)
            say(f"{program[0]} is a job file: clusterkit {ctx.info_name} -f {program[0]}")
            words[at - (words[at - 1 : at] == ["--"]) : at] = ["-f"]
            return self._with_file(ctx, words)
        return words

    def _with_hint(self, error: click.NoSuchOption, args: Sequence[str], ctx: click.Context) -> click.NoSuchOption:
        """Return an error that explains other launchers' options before the program; without any, return `error`."""
        from clusterkit.job.other_launchers import hint_for  # imported here, for errors only

        own = {name for param in self.params for name in (*param.opts, *param.secondary_opts)}
        before = takewhile(lambda word: word != "--" and not word.endswith(".py"), args)
        names = dict.fromkeys(word.partition("=")[0] for word in before if word.startswith("-"))
        found = {name: why for name in names if name not in own and (why := hint_for(name, own))}
        if not any(name.startswith(error.option_name) for name in found):
            return error
        told = "\n".join(f"No such option {name!r}. {why}" for name, why in found.items())
        return click.NoSuchOption(error.option_name, told, ctx=ctx)


def _hide_values(env: Iterable[tuple[str, str] | None]) -> None:
    """Overwrite the values of `--env NAME=VALUE` in the command line of this process, and so in those of its forks."""
    known = [one for one in env if one is not None and not is_harmless(one[0])]
    for prefix in ("", "--env="):
        hide_in_command_line([f"{prefix}{name}={value}" for name, value in known], [value for _, value in known])


def _is_wanted(ctx: click.Context) -> bool:
    """Return whether to read ./job.toml. On a terminal, ask the user; otherwise, print a message and return True.

    Either way, print what the file sets: it may have come with a directory of somebody else.
    """
    if can_ask():
        if what := _what_it_sets():
            say(what)
        return click.confirm(f"No program is given. Read {USUAL_FILE}?", default=True, err=True)
    say(f"No program is given, so {USUAL_FILE} is read: clusterkit {ctx.info_name} -f {USUAL_FILE}")
    if what := _what_it_sets():
        say(what)
    return True


def _what_it_sets() -> str:
    """Return a sentence with the keys of ./job.toml and their values, without secrets."""
    from clusterkit.job.jobfile import read_job_file  # imported here, since most commands read no file

    try:
        options = read_job_file(Path(USUAL_FILE).read_text(encoding="utf-8-sig"), USUAL_FILE).options
    except (OSError, ValueError, ClusterkitError):
        return ""  # the command itself reports it
    words = list[str]()
    for table, prefix in _tables_of(options):
        words += [_key_with_value(prefix, key, value) for key, value in table.items()]
    return f"{USUAL_FILE} sets {'; '.join(words)}." if words else ""


def _tables_of(options: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    tables = options.get("task", {})
    yield {key: value for key, value in options.items() if key != "task"}, ""
    yield from ((table, f"task.{kind}.") for kind, table in tables.items())


def _key_with_value(prefix: str, key: str, value: object) -> str:
    name = f"{prefix}{key.replace('_', '-')}"
    if isinstance(value, dict):  # values of variables may be secrets
        return f"{name} {', '.join(map(str, value))}"
    if key == "args":  # arguments may be secrets, too
        return name
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    shown = re.sub(r"^(\./)+", "./", without_credentials(text))  # the file's directory is `.`
    return f"{name} = {shown[:LONGEST_VALUE]}"
