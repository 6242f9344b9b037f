"""A command on a job, `[OPTIONS] PROGRAM [ARGS]...`, that recognizes the options of other launchers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import click

from clusterkit.cli.help import Command
from clusterkit.cli.terminal import is_screen, say

USUAL_FILE = "job.toml"
USUAL_OPTIONS = "file module workers ps evaluator env restart_budget resume fault dashboard"


class JobCommand(Command):
    """Also accepts a job file in place of the program; without a program, reads ./job.toml. Both print a message."""

    usual = frozenset(USUAL_OPTIONS.split())
    allow_interspersed_args = False  # options after the program are the program's own

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            args = self._with_file(ctx, args)
        rest = super().parse_args(ctx, args)
        program: tuple[str, ...] = ctx.params.get("program") or ()
        if program[1:2] == ("--",) and program[0].endswith(".py"):  # other launchers separate arguments with `--`
            ctx.params["program"] = (program[0], *program[2:])
        is_bare = all(ctx.params.get(name) in (None, ()) for name in ("program", "module", "file"))
        if not ctx.resilient_parsing and ctx.obj is None and is_bare and Path(USUAL_FILE).is_file():
            ctx.params["file"] = USUAL_FILE if _is_wanted(ctx) else None
        return rest

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
        """Return the error; if options of another launcher precede the program, with an explanation of each."""
        from clusterkit.job.other_launchers import hint_for  # imported here, for errors only

        own = {name for param in self.params for name in (*param.opts, *param.secondary_opts)}
        before = takewhile(lambda word: word != "--" and not word.endswith(".py"), args)
        names = dict.fromkeys(word.partition("=")[0] for word in before if word.startswith("-"))
        found = {name: why for name in names if name not in own and (why := hint_for(name, own))}
        if not any(name.startswith(error.option_name) for name in found):
            return error
        told = "\n".join(f"No such option {name!r}. {why}" for name, why in found.items())
        return click.NoSuchOption(error.option_name, told, ctx=ctx)


def _is_wanted(ctx: click.Context) -> bool:
    """Whether to read ./job.toml: ask the user on a terminal; otherwise print a message and return True."""
    if sys.stdin is not None and sys.stdin.isatty() and is_screen(sys.stderr):
        return click.confirm(f"No program is given. Read {USUAL_FILE}?", default=True, err=True)
    say(f"No program is given, so {USUAL_FILE} is read: clusterkit {ctx.info_name} -f {USUAL_FILE}")
    return True
