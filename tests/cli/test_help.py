"""The help: groups of commands, examples that parse, defaults in one form, the width of the terminal."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import click
import pytest
from click.testing import CliRunner

from clusterkit import __version__
from clusterkit.cli import COMMANDS, SECTIONS, cli
from clusterkit.cli.help import EVERYTHING, Command
from clusterkit.cli.options import PROBLEMS
from clusterkit.job.options import GROUPS, OPTIONS
from clusterkit.words.grammar import parse_fault


def commands() -> Iterator[tuple[str, ...]]:
    """Every command, and every one of a group, by its words."""
    for name in COMMANDS:
        yield (name,)
        found = cli.get_command(click.Context(cli), name)
        if isinstance(found, click.Group):
            yield from ((name, sub) for sub in found.commands)


EVERY = list(commands())


def test_the_version_is_the_packages_own() -> None:
    """Whatever the distribution is called, and whether there is another of the package's name."""
    for word in ("--version", "version"):
        result = CliRunner().invoke(cli, [word])
        assert (result.output, result.exit_code) == (f"{__version__}\n", 0)


def context_of(*words: str) -> click.Context:
    """A command's context, as click makes it."""
    context = click.Context(cli, info_name="clusterkit", **cli.context_settings)
    for word in words:
        assert isinstance(context.command, click.Group)
        found = context.command.get_command(context, word)
        assert found is not None
        context = click.Context(found, parent=context, info_name=word, **found.context_settings)
    return context


def help_of(*words: str, columns: int = 80, whole: bool = True) -> str:
    """What `--help all` prints on a terminal, or `--help`."""
    context = context_of(*words)
    context.meta.update({EVERYTHING: True} if whole else {})
    with pytest.MonkeyPatch.context() as patch:  # click's CliRunner has 80 columns, always
        patch.setenv("COLUMNS", str(columns))
        return context.get_help()


def test_commands_are_in_groups() -> None:
    """In the order of the table, with one column for all groups."""
    text = help_of()
    assert [name for name in re.findall(r"^(\w+):$", text, re.M) if name in SECTIONS] == list(SECTIONS)
    rows = re.findall(r"^  ([a-z]\w+)( +)\w", text.partition("Run:\n")[2].partition("Examples:")[0], re.M)
    assert [name for name, _ in rows] == COMMANDS
    assert len({len(name) + len(space) for name, space in rows}) == 1


@pytest.mark.parametrize("words", [(), ("up",)], ids=" ".join)
def test_help_fits_a_terminal(words: tuple[str, ...]) -> None:
    """It shows what people use, and how to see the rest; `--help all` and `help` are commands like others."""
    short = help_of(*words, whole=False)
    assert len(short.splitlines()) <= 24
    *_, last = short.splitlines()
    assert last.endswith(f"{' '.join(['clusterkit', *words])} --help all")
    rows = set(re.findall(r"^  (?:(?:-\w, )?--)?[a-z][\w-]+", short, re.M))
    assert 10 <= len(rows) <= 16
    assert not [row for row in rows if row not in help_of(*words)]
    run = partial(CliRunner(env={"COLUMNS": "80"}).invoke, cli, prog_name="clusterkit")
    asked = [run([*words, "--help"]), run(["help", *words])]
    assert [result.output.split() for result in asked] == [short.split()] * 2
    assert run(["help", *words, "all"]).output.split() == help_of(*words).split()
    assert run([*words, "--help", "all"]).output.split() == help_of(*words).split()


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "up"])
def test_only_commands_with_many_options_have_more_help(name: str) -> None:
    """For the others `--help all` is the same."""
    assert (help_of(name, whole=False) != help_of(name)) == (name in ("check", "config", "manifests", "chaos", "exam"))


@pytest.mark.parametrize("words", [(), *EVERY], ids=" ".join)
def test_help_is_as_wide_as_the_terminal(words: tuple[str, ...]) -> None:
    """No line is longer than 80 columns where there are 80, and no paragraph is cut short where there are more."""
    assert max(map(len, help_of(*words).splitlines())) <= 80
    narrow, wide = help_of(*words), help_of(*words, columns=200)
    assert len(wide.splitlines()) <= len(narrow.splitlines())
    assert wide.split() == narrow.split()


def test_wide_terminals_are_used() -> None:
    """Also beyond the 80 columns that click takes by default."""
    assert max(map(len, help_of("up", columns=160).splitlines())) > 120


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_defaults_have_one_form(words: tuple[str, ...]) -> None:
    """`[default: 30]` at the end of the description, and no bounds beside it."""
    context = context_of(*words)
    records = [param.get_help_record(context) for param in context.command.params if isinstance(param, click.Option)]
    for _, description in filter(None, records):
        assert re.fullmatch(r"[^\[\]]+(  \[default: [^\[\]]+\])?", description)


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_parse(name: str) -> None:
    """Each command has some, of itself, with options, tasks and faults that it takes."""
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, Command)
    assert command.examples
    for line, _ in command.examples:
        assert line.split()[0] == name
        words = shlex.split(line.partition(" > ")[0])[1:]
        context = command.make_context(name, list(words))
        assert context.meta.get(PROBLEMS, {}) == {}
        for text in context.params.get("texts") or context.params.get("fault") or ():
            parse_fault(text)


@pytest.mark.parametrize("name", COMMANDS)
def test_n_and_json_mean_one_thing(name: str) -> None:
    """`-n` is the number of last lines, and `--json` takes no value."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for param in command.params:
        assert "-n" not in param.opts or "--tail" in param.opts
        assert "--json" not in param.opts or (isinstance(param, click.Option) and param.is_flag)


@pytest.mark.process
def test_the_list_of_commands_imports_none_of_them() -> None:
    """`clusterkit --help` is as fast with many commands as with few."""
    code = "import sys\nfrom clusterkit.cli import cli\ncli(['--help'], standalone_mode=False)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    imported = {name for name in done.stdout.split() if name.startswith("clusterkit.")}
    assert imported <= {"clusterkit.cli", "clusterkit.cli.help", "clusterkit.cli.streams"}


def test_options_of_a_job_stand_below_the_headings_of_their_groups() -> None:
    """All of them, each once; those of the command itself come first."""
    lines = help_of("up").splitlines()
    headings = [line.rstrip(":") for line in lines if re.fullmatch(r"[A-Z].*:", line)]
    assert headings == ["Options", *(group.__doc__ for group in GROUPS), "Output", "Examples"]
    assert {name for group in GROUPS for name in group.__annotations__} == OPTIONS.keys()
    shown = [line.split()[0].rstrip(",") for line in lines if line.startswith("  -")]
    assert sorted(set(shown)) == sorted(shown)
    assert "--record" not in shown, "other commands give it"
    places = [lines.index("Restarts:"), *(n for n, line in enumerate(lines) if "--restart-budget N" in line)]
    assert places == sorted(places)
