"""`show` of a run of an exam: it says what the exam found by the run, and what examines that again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from clusterkit.cli import cli
from clusterkit.store.examined import note_cells
from clusterkit.store.store import RunStore
from clusterkit.words.examined import ExaminedCell
from tests.page.situated import failed, held

pytestmark = pytest.mark.process
AGAIN = "clusterkit exam --cell=survival/kill/worker:0/step --workers 2 train.py"
CELLS = (
    ExaminedCell("exam-1", "repeat/unbroken", "passed", (), "clusterkit exam train.py"),
    ExaminedCell("exam-1", "survival/kill/worker:0/step", "failed", ("It did \x1b[31mnot recover.",), AGAIN),
)


def test_show_says_what_the_exam_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not offer to start the run by hand."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
    told = failed(2)
    told.job = replace(told.job, part_of="exam/exam-1")
    with held(home, told, "exam-1-step"):
        note_cells(RunStore(home).run("exam-1-step"), CELLS)
        shown = CliRunner().invoke(cli, ["show", "exam-1-step"]).output
        document = json.loads(CliRunner().invoke(cli, ["show", "--json", "exam-1-step"]).output)
    assert "\x1b" not in shown
    assert "  Exam exam-1: repeat/unbroken passed.\n" in shown
    assert f"  Exam exam-1: survival/kill/worker:0/step failed: It did not recover.\n      {AGAIN}\n" in shown
    assert [cell["grade"] for cell in document["exam"]] == ["passed", "failed"]
    assert not [command for command in document["commands"] if command.startswith("clusterkit up")]


def test_show_of_another_run_says_nothing_of_an_exam(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which has a command to start it again."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
    with held(home, failed(2), "mine"):
        assert "Exam" not in CliRunner().invoke(cli, ["show", "mine"]).output
        document = json.loads(CliRunner().invoke(cli, ["show", "--json", "mine"]).output)
    assert document["exam"] == []
    assert [command for command in document["commands"] if command.startswith("clusterkit up")]
