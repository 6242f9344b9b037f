"""Each row of the table of explanations has a program that shows it, and each such program its row."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterkit.explain.row import Row
from clusterkit.explain.table import TABLE
from tests.support import CHILDREN

MISTAKES = CHILDREN / "mistakes"
LONGEST = 40  # lines of a program


def test_each_row_has_a_program_and_each_program_a_row() -> None:
    """They have the same names."""
    programs = {path.stem.replace("_", "-") for path in MISTAKES.glob("*.py")}
    rows = {row.id for row in TABLE}
    assert rows - programs == set()
    assert programs - rows == set()


@pytest.mark.parametrize("path", sorted(MISTAKES.glob("*.py")), ids=lambda path: path.stem)
def test_a_program_is_small_and_says_what_is_wrong_with_it(path: Path) -> None:
    """At most forty lines; the first is a sentence."""
    lines = path.read_text().splitlines()
    assert len(lines) <= LONGEST
    assert lines[0].startswith('"""')
    assert len(lines[0].strip('". ')) > 10


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_a_row_says_with_which_options_its_program_shows_it(row: Row) -> None:
    """Without them, nobody can try it."""
    assert row.example
