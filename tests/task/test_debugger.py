"""Holds of a task, and its reports about them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusterkit.backends.local.reports import parse_report
from clusterkit.store.debugging import LONGEST
from clusterkit.task import debugger
from clusterkit.task.debugger_pdb import Debugger
from clusterkit.words.model import Task, TaskType
from clusterkit.words.reports import InDebugger
from tests.support import load

TASK = Task(TaskType.WORKER, 0)
SUSPICIOUS = '\0\x01\r\n\x1b[2J\x7f\x85\u2028\u202e\ud800\udce9\U0001f600\\u0000"}'


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reports that the supervisor would read."""
    path = tmp_path / "progress"
    path.touch()
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(path))
    return path


def held_after(error: Exception, pipe: Path) -> InDebugger:
    """The report of a hold after an exception, in a frame with unusual names."""
    frame = sys._getframe()
    place = {**debugger.place_of(frame, None), "file": f"/a/{SUSPICIOUS}", "function": SUSPICIOUS}
    assert debugger.report("debugger", held=True, error=debugger.described(error), **place)
    lines = pipe.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1
    report = parse_report(TASK, lines[0])
    assert isinstance(report, InDebugger)
    return report


@pytest.mark.parametrize("text", ["", *SUSPICIOUS, SUSPICIOUS, SUSPICIOUS * 100, "\0" * 1000])
def test_a_hold_is_reported_whatever_the_exception_says(pipe: Path, text: str) -> None:
    """If the report were rejected, the task would wait and nobody would know."""
    report = held_after(ValueError(text), pipe)
    assert report.error.startswith("ValueError: ")
    assert "\0" not in report.error + report.file + report.function


def test_nul_is_shown_as_a_symbol(pipe: Path) -> None:
    """As in other messages."""
    assert held_after(ValueError("a\0b"), pipe).error == "ValueError: a␀b"


def test_a_path_is_known_in_a_directory_that_has_been_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A breakpoint needs the path, and must not raise."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert debugger.short("/some/program.py") == "/some/program.py"


def test_output_of_any_length_is_sent_in_messages_that_a_client_reads() -> None:
    """The client drops longer ones."""
    sent: list[str] = []
    debugging = Debugger(load)
    debugging.session = SimpleNamespace(send=lambda out: sent.append(out))
    text = "\U0001f600" * 3_000_000 + "\nand more\n"
    debugging.message(text)
    debugging.stdout.write("prompt")
    assert "".join(sent) == f"{text}\n"
    assert max(len(json.dumps({"out": out})) for out in sent) < LONGEST / 2
