"""Options, their types, the help, and a group that imports only the command that is used, so that `--help` is fast."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

WIDEST = 10_000  # columns; large enough that the help is always as wide as the terminal
_LONGEST = 46  # columns; the description of a longer example is on the next line

_DESTRUCTIVE = {"prune", "rm", "reap"}  # commands that are never suggested for a mistyped name
_PROGRAM = re.compile(r"\.(?:py|toml|ipynb)$|^(?:.*/)?python[\d.]*$")

EVERYTHING = "clusterkit.everything"  # key in a click context's meta; set if the complete help is requested

Examples = Sequence[tuple[str, str]]  # each example is a command line without `clusterkit`, and its description


class HelpOption(click.Option):
    """An option whose help ends with `[default: …]`, which shows the default or, if given, the text `show_default`.

    `group` is the heading under which the help lists the option.
    """

    def __init__(self, *args: Any, group: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)  # the range is shown in the error about a number that is out of range
        if isinstance(self.show_default, str):
            extra["default"] = self.show_default
        return extra


class Command(click.Command):
    """A command whose help ends with `examples`.

    If `usual` names options, `--help` omits the other options that have a group; `--help all` shows every option.
    """

    usual: frozenset[str] = frozenset()
    word = "option"

    def __init__(self, *args: Any, examples: Examples = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args in (["--help", "all"], ["-h", "all"]):
            ctx.meta[EVERYTHING] = True
            args = args[:1]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Turn clusterkit's errors into messages and exit codes."""
        try:
            return super().invoke(ctx)
        except Exception:
            from clusterkit.cli.terminal import exit_on_error  # imported late: `--help` does not need it

            with exit_on_error():
                raise

    def is_short(self, ctx: click.Context) -> bool:
        """Return whether the help omits options or commands."""
        return bool(self.usual) and EVERYTHING not in ctx.meta

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.is_short(ctx):
            super().format_help_text(ctx, formatter)
            return
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(self.get_short_help_str(WIDEST))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write options without a group below "Options", then the groups in the order of their first options."""
        groups: dict[str, list[tuple[str, str]]] = {"": []}
        short = self.is_short(ctx)
        for param in self.get_params(ctx):
            group = getattr(param, "group", "")
            if not isinstance(param, click.Option) or (short and group and param.name not in self.usual):
                continue
            if (record := param.get_help_record(ctx)) is not None:
                name = record[0].partition(" / ")[0] if short else record[0]  # without the `--no-…` form
                groups.setdefault("" if short else group, []).append((name, record[1]))
        for group, records in groups.items():
            if records:
                with formatter.section(group or "Options"):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        examples = self.examples[:2] if self.is_short(ctx) else self.examples
        if examples:
            with formatter.section("Examples"):
                formatter.write_dl([(f"clusterkit {line}", what) for line, what in examples], _LONGEST)
        if self.is_short(ctx):
            formatter.write_paragraph()
            formatter.write_text(f"Every {self.word}: {ctx.command_path} --help all")


class Group(Command, click.Group):
    """A group of commands whose help ends with `examples`."""

    word = "command"
    command_class = Command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, unless the help is short, and the commands."""
        if not self.is_short(ctx):
            click.Command.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


option = partial(click.option, cls=HelpOption, show_default=True)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Parsed(click.ParamType[Any]):
    """A parameter type that converts text with the function `parse`, which raises ValueError if the text is invalid."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _seconds(text: str) -> float:
    """Parse `10s`, `1m30s`, `7d` or a number of seconds."""
    from clusterkit.text.durations import seconds  # imported here: `--help` does not need it

    return seconds(text)


DURATION = Parsed("duration", _seconds)
port_option = option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port to listen on.",
    show_default="a free port",
)


Places = Mapping[str, tuple[str, str]]  # maps the name of a command to its module and its short help


class LazyGroup(Group):
    """A group that imports a command when the command is used. `sections` maps headings in the help to commands.

    `others` maps the names of commands in other tools to clusterkit's names. A module in `cli/commands/` defines its
    command as `command`, unless the module's name is followed by a colon and another name. `clusterkit train.py` runs
    `up`.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, Places], usual: Sequence[str], others: Mapping[str, str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._sections, self._other_names, self.usual = sections, others, frozenset(usual)
        self._modules = {name: place for places in sections.values() for name, place in places.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return None
        module, _, name = self._modules[cmd_name][0].partition(":")
        command: click.Command = getattr(
            importlib.import_module(f"clusterkit.cli.commands.{module}"), name or "command"
        )
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] in (["help"], ["version"]):  # `help`, `help up`, `help all`
            at = 1 if args[1:] == ["all"] else 2
            args = [*args[1:at], f"--{args[0]}", *args[at:]]
        typed = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            up = self.get_command(ctx, "up")
            params = up.params if up else []
            if any(error.option_name in (*param.opts, *param.secondary_opts) for param in params):
                from clusterkit.text.printable import printable

                told = f"{error.option_name} is an option of `up`: clusterkit up {' '.join(typed)}"
                raise click.NoSuchOption(error.option_name, printable(told), ctx=ctx) from None
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, *rest = args
        name = self._other_names.get(word, "up" if word not in self._modules and _PROGRAM.search(word) else word)
        if name != word and not ctx.resilient_parsing:
            from clusterkit.cli.terminal import say

            of_name = rest if word in self._other_names else args
            told = " ".join(["clusterkit", name, *of_name])
            what = f"`{word}` is called `{name}` here" if word in self._other_names else "A program is run with `up`"
            say(f"{what}: {told}")
            args = [name, *of_name]
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # suggest any command except destructive ones, imported or not
            near = self._modules.keys() - _DESTRUCTIVE
            raise click.NoSuchCommand(error.command_name, possibilities=near, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = self._sections
        if self.is_short(ctx):
            sections = {"Commands": {name: place for name, place in self._modules.items() if name in self.usual}}
        width = max(map(len, self._modules))
        for heading, places in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in places.items()])
