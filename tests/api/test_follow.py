"""Following a journal, looking for events in it, and what it tells of a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterkit.api.result import read_result
from clusterkit.api.tasks import Attempt, TaskHistory, Wanted, matcher, told
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import Exit, Failure, RunResult, RunState

ONE, TWO = Task(TaskType.WORKER, 1), Task(TaskType.WORKER, 2)
SPAWNED = ev.Spawned(ONE, 1, "pid 77")


def line(event: ev.Event) -> bytes:
    """An event as the journal has it."""
    return json.dumps({"t": 0.0, "m": 0.0, **wire.encode_event(event)}).encode() + b"\n"


def test_a_history_gives_each_whole_line_once(tmp_path: Path) -> None:
    """Before there is a file, nothing; half a line, when it is whole."""
    run = RunDirectory(tmp_path)
    journal, history = run.journal, JournalReader(run)
    assert [event for _, event in history.events()] == []
    first, second = line(ev.Began()), line(SPAWNED)
    journal.write_bytes(first + second[:10])
    assert [event for _, event in history.events()] == [ev.Began()]
    assert [event for _, event in history.events()] == []
    journal.write_bytes(first + second)
    assert [event for _, event in history.events()] == [SPAWNED]


@pytest.mark.parametrize(
    ("wanted", "fields", "fits"),
    [
        ("Spawned", {}, True),
        (ev.Spawned, {"task": "worker:1", "attempt": 1}, True),
        (ev.Spawned, {"task": ONE}, True),
        (ev.Spawned, {"task": TWO}, False),
        (ev.Exited, {}, False),
        (lambda event: event.pid > 50, {}, True),
        (lambda event: True, {"task": "worker:2"}, False),
        (lambda event: True, {"step": 3}, False),
    ],
)
def test_an_event_is_found_by_kind_and_fields(wanted: Wanted, fields: dict[str, Any], fits: bool) -> None:
    """By class, name or function; a task as it is written everywhere."""
    assert matcher(wanted, fields)(SPAWNED) is fits


@pytest.mark.parametrize(
    ("wanted", "fields", "problem"),
    [
        ("Spawn", {}, r"no event 'Spawn'. Did you mean Spawned\?"),
        (ev.Spawned, {"step": 1}, "Spawned has no 'step'. It has task,"),
    ],
)
def test_what_can_never_be_found_is_a_type_error(wanted: Wanted, fields: dict[str, Any], problem: str) -> None:
    """A wait for it would only be over at its deadline."""
    with pytest.raises(TypeError, match=problem):
        matcher(wanted, fields)


def test_what_is_looked_for_is_told() -> None:
    """For the message of the exception."""
    assert told(ev.Spawned, {"task": "worker:1"}) == "Spawned with task=worker:1"


def test_the_attempts_of_a_task_are_those_of_the_journal(tmp_path: Path) -> None:
    """Each with its pid, its end and its last step; other tasks' are left out."""
    killed = Exit(signal=9)
    events: list[ev.Event] = [
        SPAWNED, ev.Spawned(TWO, 1, "pid 78"), ev.Progressed(ONE, 1, 5), ev.Progressed(TWO, 1, 9),
        ev.Exited(ONE, 1, killed), ev.AttemptEnded(ONE, 1, 0.0, 1.0, killed, 5, 5, None, None, fault=7),
        ev.SpawnFailed(ONE, 2, "no memory"),
        ev.AttemptEnded(ONE, 2, 1.0, 1.0, Exit(error="no memory"), None, None, None, None),
        ev.Spawned(ONE, 3, "pid 79"), ev.Progressed(ONE, 1, 6),
    ]  # fmt: skip
    run = RunDirectory(tmp_path)
    run.journal.write_bytes(b"".join(map(line, events)))
    history = TaskHistory(run)
    assert history.attempts(ONE) == (
        Attempt(1, 77, killed, 6, fault=7), Attempt(2, None, Exit(error="no memory")), Attempt(3, 79),
    )  # fmt: skip


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Every field of it."""
    failure = Failure(ONE, 2, Exit(code=1), 9.0, ("x",), "ValueError: x")
    written = RunResult(RunState.FAILED, 1, "why", failure, (failure,), (), 1, 5, 9.0, same=(failure,), repeated=True)
    (tmp_path / "result.json").write_text(json.dumps(wire.encode(written)))
    assert read_result(RunDirectory(tmp_path), 1) == written


@pytest.mark.parametrize("text", [None, "{", '{"state": "failed", "exit_code": 1, "reason": "killed"}'])
def test_a_run_without_a_whole_result_has_failed(tmp_path: Path, text: str | None) -> None:
    """Where the supervisor was killed, its guardian writes three lines, or nobody writes any."""
    if text is not None:
        (tmp_path / "result.json").write_text(text)
    result = read_result(RunDirectory(tmp_path), 137)
    assert result.state is RunState.FAILED
    assert result.reason in ("killed", "the run ended with code 137 and left no result")
