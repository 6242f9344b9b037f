"""`make docs`: which blocks are run, and what of their output goes into the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, module_at


@pytest.fixture(scope="module")
def run() -> Any:
    """docs/run.py as a module."""
    return module_at(ROOT / "docs/run.py")


class FakePlace:
    """Prints a number of lines for each command, and runs nothing."""

    def __init__(self, work: Path, slurm: Mapping[str, str] | None = None) -> None:
        self.work, self.slurm = work, slurm
        self.ran: list[str] = []

    def run(self, command: str, env: Mapping[str, str]) -> str:
        """`first 1`, `first 2`, … for the command `first`."""
        self.ran.append(" ".join((*env.values(), command)))
        return "".join(f"{command.split()[0]} {number} \n" for number in range(1, 6))


def page(options: str, body: str) -> str:
    """A page with one block."""
    return f"Before.\n\n<!-- {options} -->\n```console\n{body}```\n\n```console\n$ not run\n```\n"


def test_only_marked_blocks_are_run(run: Any, tmp_path: Path) -> None:
    """Each command once, in order, with its continuation line; the rest of the page stays as it is."""
    place = FakePlace(tmp_path)
    text = run.rewritten(page("run", "$ first --option \\\n    more\nold output\n$ second\n"), place)
    assert place.ran == ["first --option \\\n    more", "second"]
    assert "old output" not in text
    assert text.startswith("Before.\n\n<!-- run -->\n```console\n$ first --option \\\n    more\nfirst 1\nfirst 2\n")
    assert text.endswith("second 5\n```\n\n```console\n$ not run\n```\n")


def test_what_needs_slurm_is_run_with_it_or_stays(run: Any, tmp_path: Path) -> None:
    """Its commands find Slurm's, and the others do not; without a Slurm the page keeps what an earlier run printed."""
    text = page("run on=slurm", "$ first\nold output\n") + page("run", "$ second\n")
    without, place = FakePlace(tmp_path), FakePlace(tmp_path, {"PATH": "slurm's"})
    assert "old output" in run.rewritten(text, without)
    assert without.ran == ["second"]
    assert "old output" not in run.rewritten(text, place)
    assert place.ran == ["slurm's first", "second"]


def test_a_second_run_finds_the_same_commands(run: Any, tmp_path: Path) -> None:
    """What was written into a page is replaced by what comes next."""
    once = run.rewritten(page("run keep=1,1", "$ first\n$ second\n"), FakePlace(tmp_path))
    assert run.rewritten(once, FakePlace(tmp_path)) == once


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("run keep=1,2", ["first 1", "…", "first 4", "first 5"]),
        ("run keep=3,2", ["first 1", "first 2", "first 3", "first 4", "first 5"]),
        ("run drop='[24]'", ["first 1", "first 3", "first 5"]),
        ("run drop='[24]' keep=0,1", ["…", "first 5"]),
    ],
)
def test_output_is_shortened(run: Any, tmp_path: Path, options: str, shown: list[str]) -> None:
    """An ellipsis marks what `keep` leaves out; the page itself says what `drop` does."""
    text = run.rewritten(page(options, "$ first\n"), FakePlace(tmp_path))
    assert text.partition("$ first\n")[2].partition("```")[0].splitlines() == shown


def test_a_file_is_written_and_stays_in_the_page(run: Any, tmp_path: Path) -> None:
    """The commands below it find it."""
    text = page("file job.toml", "workers = 2\n")
    assert run.rewritten(text, FakePlace(tmp_path)) == text
    assert (tmp_path / "job.toml").read_text() == "workers = 2\n"
