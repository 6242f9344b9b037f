"""Runs in every situation, read as `show`, as `ps` and as the page: the same facts, and those that are so."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from clusterkit.cli import cli
from clusterkit.page import live
from clusterkit.page.live import LiveRun
from clusterkit.page.model.overview import Overview
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.words import events as ev
from clusterkit.words.account import Account
from clusterkit.words.explanation import Explanation
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit, Failure, RunResult, RunState
from tests.histories import job, task
from tests.ledger.recovering import Told, gang
from tests.page.histories import WALL, info_of, line
from tests.page.situations import ERROR, GUIDANCE, LATER, LOG, RUNS, failed


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[float]:
    """The time that everybody sees."""
    at = [0.0]
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    monkeypatch.setattr(time, "time", lambda: at[0])
    return at


def on_disk(told: Told, live: bool) -> tuple[RunDirectory, int]:
    """The run's directory, and its lock, which is held as long as the run is live."""
    run = RunStore().run("r")
    run.make()
    lock = run.lock()
    run.write_info(info_of(told.job))
    run.journal.write_bytes(b"".join(line(at, event) for at, event in told.events))
    if told.run.over:
        run.write_result(told.run.result, told.ledger.account())
    if not live:
        os.close(lock)
    return run, lock


def command(*words: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    answer: dict[str, Any] = json.loads(CliRunner().invoke(cli, [*words, "r", "--json"], catch_exceptions=False).output)
    return answer


@pytest.mark.parametrize("made", RUNS, ids=lambda made: made.__name__)
def test_three_ways_to_read_a_run_agree(made: Callable[[], Told], now: list[float]) -> None:
    """The word, the sentence, also in the list of runs, and of each task the state, the attempt and the step."""
    live, word, parts = RUNS[made]
    told = made()
    now[0] = WALL + told.events[-1][0] + LATER
    run, lock = on_disk(told, live)
    try:
        listed, shown = command("ps"), command("show")
        page = LiveRun(run)
        page.update()
        text = CliRunner().invoke(cli, ["ps", "r"]).output
        row = Overview(RunStore()).rows()["run/r"]
    finally:
        if live:
            os.close(lock)
    board = page.model.board.entities()
    entity = board["run"]
    assert (listed["now"], listed["text"]) == (shown["now"], shown["text"]) == (entity.state or entity.now, entity.text)
    assert listed["now"] == word
    for told_elsewhere in (listed, shown):
        assert (told_elsewhere["why"], told_elsewhere["todo"]) == (entity.why, entity.todo)
        assert tuple(told_elsewhere["commands"]) == entity.commands
        assert (told_elsewhere["saved_step"], told_elsewhere["unsaved_steps"]) == (entity.saved, entity.unsaved)
    why, todo, first = GUIDANCE[made]
    assert (why in entity.why, todo in entity.todo) == (True, True), (entity.why, entity.todo)
    assert bool(entity.why) is bool(why)
    assert entity.commands[0].startswith(first)
    if word in ("stalled", "paused", "recovering"):
        assert " ".join(entity.todo.split()) in " ".join(text.split())
    assert [part for part in parts if part not in entity.text] == []
    for rows in (listed["tasks"], shown["tasks"]):
        assert {row["task"]: (row["state"], row["attempt"], row["step"]) for row in rows} == {
            one.task: (one.state, one.attempt, one.step) for key, one in board.items() if key.startswith("task/")
        }
    assert entity.text in text
    assert (row.state, row.step, row.restarts) == (word, entity.step, entity.restarts)
    assert row.text == entity.text if live else row.text in entity.text


def test_the_error_of_a_failed_run_is_on_top(now: list[float]) -> None:
    """The lines of the exception, with the program's own line, and never the reason that has no cause in it."""
    told = gang()
    failure = Failure(task("worker:1"), 1, Exit(code=1), told.run.now, LOG, ERROR, 30)
    result = RunResult(RunState.FAILED, 1, "worker:1 exited with code 1", failure, duration=12.0)
    now[0] = WALL + told.run.now + LATER
    run, lock = on_disk(told, live=False)
    run.write_result(result, Account())
    page = LiveRun(run)
    page.update()
    entity = page.model.board.get("run")
    assert entity.text == f"The run failed after 12 s: worker:1 failed: {ERROR} (attempt 1)."
    assert entity.error == ("train.py:9 in <module>: main()", ERROR)
    assert (entity.why, entity.todo) == (
        ERROR,
        "Fix the program, at train.py:9 or before it. Read the log, then resume the run:",
    )
    assert lock


def test_the_explanation_is_on_top_and_in_the_story(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written after the journal's end, so the page is not complete without it; hostile text stays text."""
    monkeypatch.setattr(live, "REFRESH_EVERY", 0.0)
    told = failed()
    now[0] = WALL + told.run.now
    run, _ = on_disk(told, live=False)
    run.result_file.unlink()
    page = LiveRun(run)
    page.update()
    assert (page.model.is_over, page.over) == (True, False)
    why = Explanation("row", task("worker:1"), "The rate is\x1b[31m negative.", "Use a positive one.")
    run.write_result(replace(told.run.result, explanations=(why,), finding=str(why)), told.ledger.account())
    page.update()
    board = page.model.board.entities()
    assert page.over
    text = "The rate is negative. Use a positive one."
    assert (board["run"].why, board["run"].todo) == (
        "The rate is negative.",
        "Use a positive one. Read the log, then resume the run:",
    )
    stories = [story for key, story in board.items() if key.startswith("story/")]
    assert [[line.text for line in story.lines if line.kind == "why"] for story in stories] == [[], [text]]
    assert stories[-1].title == f"worker:1 failed: {ERROR}"


def test_the_command_to_resume_can_be_typed(now: list[float]) -> None:
    """It has the whole command line, and no second --resume."""
    told = Told(job(workers=2, resume="older"))
    told.run.checkpoints("worker:0", 20)
    result = RunResult(RunState.FAILED, 1, "it failed", checkpoint="ckpt-20")
    now[0] = WALL + told.run.now
    run, lock = on_disk(told, live=False)
    page = LiveRun(run)
    page.update()
    rest = "--workers 2 --network virtual train.py"
    assert page.model.board.get("run").resume == f"clusterkit up --run-id r --continue {rest}"
    run.write_result(result, Account())
    page = LiveRun(run)
    page.update()
    assert page.model.board.get("run").resume == f"clusterkit up --resume r {rest}"
    assert lock


def test_hostile_texts_cannot_act(now: list[float]) -> None:
    """An exception, a verdict and a reason with escapes are shown as text."""
    told = gang()
    told._observe(ev.Stalled("\x1b[31mred\n\x00", Task.parse("worker:1"), 3.0, {}), told.run.now)
    now[0] = WALL + told.run.now + LATER
    run, lock = on_disk(told, live=True)
    page = LiveRun(run)
    page.update()
    os.close(lock)
    run_entity = page.model.board.get("run")
    assert not [c for c in f"{run_entity.text}{run_entity.why}{run_entity.todo}" if ord(c) < 32]
