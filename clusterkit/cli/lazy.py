"""A group that imports a command only when it is used, so that `--help` is fast."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from clusterkit.cli.help import Group

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
