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
from clusterkit.page.overview import Overview
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.words import events as ev
from clusterkit.words.account import Account
from clusterkit.words.explanation import Explanation
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit, Failure, RunResult, RunState
from tests.histories import SIGKILL, job, task
from tests.ledger.recovering import Told, gang, ps_job
from tests.page.histories import WALL, info_of, line

LATER = 2.0  # seconds after the last event, when everybody looks
ERROR = "ValueError: learning rate must be positive"
LOG = ("Traceback (most recent call last):", '  File "/job/train.py", line 9, in <module>', "    main()", ERROR)


def starting() -> Told:
    """Every task is up, and there is no step."""
    told = Told(job(workers=2))
    told.ready("worker:0", "worker:1")
    return told


def training() -> Told:
    """Five steps in a second."""
    told = gang()
    told.steps("worker:0", 31, 32, 33, 34, 35, every=0.2)
    return told


def measured() -> Told:
    """The worker's runtime has seen its loss."""
    told = training()
    metrics = {"accuracy": 0.9, "loss": 0.5, "auc": None, "precision": 0.25}
    told._observe(ev.Progressed(task("worker:0"), 1, 35, metrics), told.run.now)
    return told


def quiet() -> Told:
    """Nobody has warned of a stall yet."""
    told = training()
    told._observe(ev.Ticked(), told.run.now + 9)
    return told


def stalled() -> Told:
    """No step for 60 s, for which worker:1 is blamed."""
    told = gang()
    told.run.now += 60
    told._observe(ev.Stalled("worker:1 hangs in the kernel (D).", task("worker:1"), 60.0, {}), told.run.now)
    return told


def paused() -> Told:
    """A gang waits for a paused worker."""
    told = gang()
    told._observe(ev.Paused(task("worker:1"), 1, True), told.run.now + 1)
    return told


def paused_aside() -> Told:
    """A coordinator does not wait for one."""
    told = ps_job()
    told._observe(ev.Paused(task("worker:1"), 1, True), told.run.now)
    told.steps("chief:0", 46, 47, 48)
    return told


def recovering() -> Told:
    """A worker raised an exception, and the gang restarts."""
    told = gang()
    told.run.exits("worker:1", code=1, exception=ERROR)
    told.run.after(3)
    return told


def recovered() -> Told:
    """It has made its first new step."""
    told = recovering()
    told.run.after(20)
    for worker in ("worker:0", "worker:1"):
        told.run.resumes(worker, 20, "ckpt-20")
        told.run.progresses(worker, 21)
    told.steps("worker:0", 22, 23)
    return told


def stopping() -> Told:
    """Ctrl-C."""
    told = gang()
    told._observe(ev.Stopping("it got SIGINT", tuple(told.job.tasks), 10.0, interrupted=True), told.run.now)
    return told


def finished() -> Told:
    """The chief has exited with code 0."""
    told = ps_job()
    told.run.exits("chief:0", code=0)
    told.run.after(30)
    return told


def failed() -> Told:
    """The budget is used up, by the same error."""
    told = gang()
    for _ in range(6):
        if not told.run.over:
            told.run.exits("worker:1", code=1, exception=ERROR)
            told.run.after(60)
    return told


def killed() -> Told:
    """A worker was killed with nothing to say, and restarts: no exception."""
    told = gang()
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(3)
    return told


def lost() -> Told:
    """The supervisor is gone, and nobody wrote a result."""
    return gang()


# Each with whether it is live, its word, and what its sentence has to say.
RUNS: dict[Callable[[], Told], tuple[bool, str, tuple[str, ...]]] = {
    starting: (True, "starting", ("Every task is up; no step has been reported",)),
    training: (True, "training", ("Step 35", "steps/s")),
    measured: (True, "training", ("Step 35", "steps/s, loss 0.5, accuracy 0.9, auc not a number.")),
    quiet: (True, "training", ("Step 35; no step for 11 s",)),
    stalled: (True, "stalled", ("No step for 1 min 2 s", "at step 30", "worker:1 is stuck")),
    paused: (True, "paused", ("worker:1 is paused for 2.0 s", "at step 30", "training waits")),
    paused_aside: (True, "training", ("Step 48", "worker:1 is paused or restarting; training continues")),
    recovering: (True, "recovering", (ERROR, "worker:0 and worker:1 restart (attempt 2)", "no new step for")),
    recovered: (True, "training", ("Step 23",)),
    killed: (True, "recovering", ("worker:1 was killed by SIGKILL (attempt 1)", "(attempt 2)")),
    stopping: (True, "stopping", ("The run is ending, at step 30", "worker:0 and worker:1 to end")),
    finished: (False, "succeeded", ("The run succeeded",)),
    failed: (False, "failed", ("The run failed", f"worker:1 failed: {ERROR}")),
    lost: (False, "lost", ("its supervisor ended without writing a result",)),
}

# Each with what its reason has to say, what is to be done, and the first command for that.
GUIDANCE: dict[Callable[[], Told], tuple[str, str, str]] = {
    starting: ("Nothing has failed.", "Nothing: wait", "clusterkit logs --follow r"),
    training: ("Nothing has failed.", "Nothing. To read along:", "clusterkit logs --follow r"),
    measured: ("Nothing has failed.", "Nothing.", "clusterkit logs --follow r"),
    quiet: ("Nothing has failed.", "Nothing.", "clusterkit logs --follow r"),
    stalled: ("worker:1 hangs in the kernel (D).", "Look where worker:1 hangs", "clusterkit stacks r worker:1"),
    paused: ("stopped by a command", "Let it continue:", "clusterkit unpause r worker:1"),
    paused_aside: ("stopped by a command", "Training continues", "clusterkit unpause r worker:1"),
    recovering: (f"worker:1 failed: {ERROR}", "restart 1 of 3, from ckpt-20, of step 20; 10 steps to train again", "clusterkit logs r worker:1"),
    recovered: ("1 interruption so far, 10 steps trained again", "Nothing.", "clusterkit logs --follow r"),
    killed: ("worker:1 was killed by SIGKILL.", "restart 1 of 3", "clusterkit logs r worker:1"),
    stopping: ("it got SIGINT", "wait for the tasks", "clusterkit down --kill r"),
    finished: ("Nothing failed.", "Nothing.", "clusterkit show r"),
    failed: (ERROR, "Mend the program: a restart fails the same way. Then resume it:", "clusterkit up --resume r"),
    lost: ("supervisor was killed", "Continue it:", "clusterkit up --run-id r --continue"),
}


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
        page = LiveRun(run, here=False)
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
    why, todo, first = GUIDANCE[made]
    assert (why in entity.why, todo in entity.todo) == (True, True), (entity.why, entity.todo)
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
    page = LiveRun(run, here=False)
    page.update()
    entity = page.model.board.get("run")
    assert entity.text == f"The run failed after 12 s: worker:1 failed: {ERROR} (attempt 1)."
    assert entity.error == ("train.py:9 in <module>: main()", ERROR)
    assert (entity.why, entity.todo) == (ERROR, "Mend the program, at train.py:9 or before it. Then resume it:")
    assert lock


def test_the_explanation_is_on_top_and_in_the_story(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written after the journal's end, so the page is not complete without it; hostile text stays text."""
    monkeypatch.setattr(live, "REFRESH_EVERY", 0.0)
    told = failed()
    now[0] = WALL + told.run.now
    run, _ = on_disk(told, live=False)
    run.result_file.unlink()
    page = LiveRun(run, here=False)
    page.update()
    assert (page.model.is_over, page.over) == (True, False)
    why = Explanation("row", task("worker:1"), "The rate is\x1b[31m negative.", "Use a positive one.")
    run.write_result(replace(told.run.result, explanations=(why,), finding=str(why)), told.ledger.account())
    page.update()
    board = page.model.board.entities()
    assert page.over
    text = "The rate is negative. Use a positive one."
    assert (board["run"].why, board["run"].todo) == ("The rate is negative.", "Use a positive one. Then resume it:")
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
    page = LiveRun(run, here=False)
    page.update()
    rest = "--workers 2 --network virtual train.py"
    assert page.model.board.get("run").resume == f"clusterkit up --run-id r --continue {rest}"
    run.write_result(result, Account())
    page = LiveRun(run, here=False)
    page.update()
    assert page.model.board.get("run").resume == f"clusterkit up --resume r {rest}"
    assert lock


def test_hostile_texts_cannot_act(now: list[float]) -> None:
    """An exception, a verdict and a reason with escapes are shown as text."""
    told = gang()
    told._observe(ev.Stalled("\x1b[31mred\n\x00", Task.parse("worker:1"), 3.0, {}), told.run.now)
    now[0] = WALL + told.run.now + LATER
    run, lock = on_disk(told, live=True)
    page = LiveRun(run, here=False)
    page.update()
    os.close(lock)
    run_entity = page.model.board.get("run")
    assert not [c for c in f"{run_entity.text}{run_entity.why}{run_entity.todo}" if ord(c) < 32]
