"""How help is written, and a group that imports a command only when it is used, so that `--help` is fast."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.types import OptionHelpExtra


import importlib
from collections.abc import Mapping

WIDEST = 10_000  # columns: help is as wide as the terminal
_LONGEST = 46  # columns of an example whose description stands beside it

Examples = Sequence[tuple[str, str]]  # a command line without `clusterkit`, and what it does


class Option(click.Option):
    """An option whose help ends with `[default: …]`: its default, or a description of it in `show_default`.

    `group` is the heading below which the help has it.
    """

    def __init__(self, *args: Any, group: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)  # a number that is out of range is told its range
        if isinstance(self.show_default, str):
            extra["default"] = self.show_default
        return extra


class Command(click.Command):
    """A command with `examples`, which end its help."""

    def __init__(self, *args: Any, examples: Examples = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Those without a group come first, below "Options"; the groups follow in the order of their first options."""
        groups: dict[str, list[tuple[str, str]]] = {"": []}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(param, "group", ""), []).append(record)
        for group, records in groups.items():
            if records:
                with formatter.section(group or "Options"):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl([(f"clusterkit {line}", what) for line, what in self.examples], _LONGEST)


class Group(Command, click.Group):
    """A group with `examples`."""

    format_options = click.Group.format_options  # with its commands


option = partial(click.option, cls=Option, show_default=True)


Places = Mapping[str, tuple[str, str]]  # a command's name: where it is, and its short help


class LazyGroup(Group):
    """Takes `sections`: headings of the help, each with its commands.

    A command is in its module as `command`, or under the name that follows a colon.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Places], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._at = {name: place for places in sections.values() for name, place in places.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._at:
            return None
        module, _, name = self._at[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name or "command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # click knows only commands that are imported
            raise click.NoSuchCommand(error.command_name, possibilities=self._at, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self._at))
        for heading, places in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in places.items()])
