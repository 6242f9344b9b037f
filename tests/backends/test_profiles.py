"""Profiles: the tasks' answers to a request, and what is asked and answered through the named pipes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from clusterkit.backends.local.backend import send_request
from clusterkit.backends.local.reports import parse_report
from clusterkit.cli.commands.stacks import Answers
from clusterkit.words.events import Exited, Profiled, Progressed
from clusterkit.words.outcome import Exit
from tests.histories import task

CHIEF, WORKER, PS = task("chief:0"), task("worker:1"), task("ps:0")


def test_each_task_answers_once_or_has_ended() -> None:
    """What belongs to another request, and what comes too late, is left out."""
    answers = Answers(2, {CHIEF, WORKER, PS})
    answers.take(Profiled(CHIEF, 1, 1, "/of-another-request"))
    answers.take(Progressed(CHIEF, 1, 5))
    answers.take(Exited(WORKER, 1, Exit(code=1)))
    answers.take(Profiled(WORKER, 1, 2, "/too-late", 5))
    answers.take(Profiled(CHIEF, 1, 2, "/chief.pb", 5))
    assert answers.waiting == {PS}
    answers.close("the run ended before that")
    assert [(str(one.task), one.path, one.why) for one in answers.in_order] == [
        ("chief:0", "/chief.pb", ""),
        ("worker:1", None, "it ended before that"),
        ("ps:0", None, "the run ended before that"),
    ]
    assert not answers.waiting


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ({"path": "/x.pb", "steps": 20, "why": ""}, Profiled(WORKER, 2, 7, "/x.pb", 20)),
        ({"path": "/x.pb", "steps": None}, Profiled(WORKER, 2, 7, "/x.pb")),
        ({"path": None, "why": "no"}, Profiled(WORKER, 2, 7, None, why="no")),
        ({"steps": "many"}, None),
        ({"request": None}, None),
    ],
)
def test_what_a_task_reports_of_its_profile(line: dict[str, object], event: Profiled | None) -> None:
    """Where it is, or why there is none; what is no such report is none."""
    message = {"kind": "profiled", "attempt": 2, "request": 7, **line}
    assert parse_report(WORKER, json.dumps(message).encode()) == event


def test_requests_go_through_a_pipe_that_somebody_has_open(tmp_path: Path) -> None:
    """Where nobody listens nothing is left in the pipe for a later attempt."""
    pipe = tmp_path / "requests"
    assert not send_request(pipe, do="profile")
    os.mkfifo(pipe)
    assert not send_request(pipe, do="profile")
    listener = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert send_request(pipe, do="profile", request=2, steps=None, seconds=2.5)
    send_request(pipe, do="end-profile", request=2)
    assert [json.loads(line) for line in os.read(listener, 4096).splitlines()] == [
        {"do": "profile", "request": 2, "steps": None, "seconds": 2.5},
        {"do": "end-profile", "request": 2},
    ]
    os.close(listener)
