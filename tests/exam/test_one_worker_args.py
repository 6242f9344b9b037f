"""`exam --one-worker-args`: the arguments that one worker gets besides, where it is compared with several."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from clusterkit.cli.commands.exam import command
from clusterkit.exam.model import Cell, Chapter
from clusterkit.exam.runs import ExamRuns
from clusterkit.exam.setup import ExamSettings, make_examiner
from clusterkit.job.options import GivenOptions
from tests.support import CHILDREN

PROGRAM = str(CHILDREN / "roles.py")


def test_text_that_is_no_arguments_is_one_clear_error() -> None:
    """Nothing is started."""
    done = CliRunner().invoke(command, ["--one-worker-args", "--name 'a", PROGRAM])
    assert done.exit_code == 2
    assert "can't be split into arguments: no closing quotation" in done.output


@pytest.mark.parametrize(
    ("more", "args"),
    [((), None), (("--batch", "64"), ("--epochs", "2", "--batch", "64"))],
)
def test_they_follow_the_arguments_of_the_program(
    more: tuple[str, ...], args: tuple[str, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the run with one worker alone; the command that repeats a cell has them."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    options = cast(Any, {"program": PROGRAM, "args": ("--epochs", "2"), "workers": 2})
    examiner, _ = make_examiner(GivenOptions(options), ExamSettings(one_worker_args=more))
    runs = ExamRuns(examiner.trials, "exam", 7, {})
    runs.alone_args = examiner.alone_args
    alone = cast(dict[str, Any], runs.alone())
    assert alone["workers"] == 1
    assert alone.get("args") == args
    again = examiner.replay(Cell(Chapter.EQUALITY, "1-against-2"))
    assert ("'--one-worker-args=--batch 64'" in again) == bool(more)
    assert again.endswith("--epochs 2")


@pytest.mark.parametrize("quick", [False, True])
def test_the_command_that_repeats_a_cell_interrupts_at_the_same_step(
    quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quick exam interrupts earlier than a full one, and so does one cell of it."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    options = cast(Any, {"program": PROGRAM, "args": (), "workers": 2})
    examiner, _ = make_examiner(GivenOptions(options), ExamSettings(quick=quick))
    again = examiner.replay(Cell(Chapter.RESUME, "killed-between-checkpoints"))
    assert ("--quick" in again.split()) == quick
