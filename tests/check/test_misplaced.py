"""Options of `up` after the program: which ones they are, and what is said of them, before the start and after."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from clusterkit.check.misplaced import OPTIONS_OF_UP, misplaced, refused
from clusterkit.check.unmentioned import unmentioned
from clusterkit.cli import cli
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind
from tests.histories import build_job


def test_every_option_of_up_is_known() -> None:
    """And no other; what only clusterkit itself gives is none."""
    command = cli.get_command(click.Context(cli), "up")
    assert command is not None
    shown = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    names = {name for param in shown for name in (*param.opts, *param.secondary_opts) if name.startswith("--")}
    assert names == OPTIONS_OF_UP


@pytest.mark.parametrize(
    ("args", "names"),
    [
        ([], []),
        (["--epochs", "3"], []),
        (["--workers", "2"], ["--workers"]),
        (["--workers=2", "--ps=1", "--workers=3"], ["--workers", "--ps"]),
        (["--no-chief", "--detach"], ["--no-chief", "--detach"]),
        (["workers", "-workers", "--worker", "--workersx"], []),
        (["--", "--workers", "2"], []),
    ],
)
def test_options_of_up_among_arguments(args: list[str], names: list[str]) -> None:
    """By their long names, with or without a value, up to a `--`."""
    assert misplaced(args) == names


def job_of(place: Path, text: str, *args: str, kind: ProgramKind = ProgramKind.SCRIPT) -> JobSpec:
    """A job whose program has this text and these arguments."""
    (place / "main.py").write_text(text)
    return build_job({"program": str(place / "main.py"), "args": list(args)}, kind)


SAYS = {  # a program, its arguments, and the options that are named
    "no arguments": ("pass", [], []),
    "not parsed": ("pass", ["--workers", "2"], ["--workers"]),
    "parsed": ("parser.add_argument('--workers')", ["--workers", "2"], []),
    "as absl defines it": ("flags.DEFINE_integer('grace_period', 3)", ["--grace-period=3"], []),
    "within other words": ("epsilon = steps = 'https'", ["--ps", "1"], ["--ps"]),
    "two of three": ("'--seed'", ["--ps", "1", "--workers", "2", "--seed", "3"], ["--ps and --workers"]),
    "of its own": ("pass", ["--epochs", "2"], []),
    "what holds anything": ("\x1b\udcff".encode(errors="surrogateescape").decode("latin-1"), ["--ps"], ["--ps"]),
}


@pytest.mark.parametrize("case", SAYS)
def test_what_is_said_before_the_start(case: str, tmp_path: Path) -> None:
    """Only where no text of the program mentions the option."""
    text, args, named = SAYS[case]
    said = unmentioned(job_of(tmp_path, text, *args))
    assert bool(said) == bool(named)
    assert all(f"{name} come" in str(said) for name in named)


def test_the_programs_own_modules_are_read(tmp_path: Path) -> None:
    """A parser may be in one of them."""
    (tmp_path / "options.py").write_text("parser.add_argument('--workers')\n")
    assert unmentioned(job_of(tmp_path, "import options", "--workers", "2")) is None


def test_nothing_is_said_of_what_is_no_python_program(tmp_path: Path) -> None:
    """Its options may be anywhere."""
    assert unmentioned(job_of(tmp_path, "echo", "--workers", "2", kind=ProgramKind.COMMAND)) is None


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("usage: main.py [-h]\nmain.py: error: unrecognized arguments: --workers 2", True),
        ("FATAL Flags parsing error:\n  Unknown command line flag 'workers'", True),
        ("Error: No such option '--workers'.", True),
        ("main.py: error: unrecognized arguments: --epoch 2", False),
        ("ValueError: two workers are too few", False),
        ("unrecognized arguments: x\nworkers", False),
        ("", False),
    ],
)
def test_what_is_said_after_a_failure(error: str, says: bool, tmp_path: Path) -> None:
    """Where the error is about the option."""
    said = refused(job_of(tmp_path, "pass", "--workers", "2"), error)
    assert bool(said) is says
    assert not says or "before the program: clusterkit up --workers … " in str(said)
