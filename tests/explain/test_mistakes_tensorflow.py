"""Each row's program, run as its author would: the installed TensorFlow says what the row waits for."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.explain.row import Row
from clusterkit.explain.table import TABLE
from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(150)]
Start = Callable[..., Up]

ALWAYS = 4  # rows that `make test` tries, too; the seed decides which
_SLICE = {row.id for row in random.Random(35).sample(TABLE, ALWAYS)}
_ROWS = [pytest.param(row, id=row.id, marks=() if row.id in _SLICE else pytest.mark.table) for row in TABLE]


@pytest.mark.parametrize("row", _ROWS)
def test_the_program_of_a_row_is_explained_by_it(row: Row, shared_up: Start, tmp_path: Path) -> None:
    """It is the first of the run's explanations, and the report shows it."""
    name = f"{row.id.replace('-', '_')}.py"
    program = Path(shutil.copy(CHILDREN / "mistakes" / name, tmp_path / name))
    options, arguments = split(row.example)
    usual = ("--run-id", row.id, "--restart", "never", "--grace-period", "1s", "--no-check")
    run = shared_up(*usual, *options, program, *arguments, cwd=tmp_path)
    run.wait(120)
    explanations = run.result["explanations"]
    assert explanations, run.output[-6000:]
    assert explanations[0]["row"] == row.id, run.output[-6000:]
    assert explanations[0]["means"][:30] in " ".join(run.output.split()), run.output[-6000:]


def split(example: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The options of `up` and, after a "--", the program's own arguments."""
    words = [*example]
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]
