"""Steps read from the log: whatever tasks write and users ask for, the thread that moves the logs lives on."""

from __future__ import annotations

import re
import time

import pytest

from clusterkit.backends.local import logs
from clusterkit.backends.local.logs import StepReader
from clusterkit.job.step_regex import problem_of, step_in
from clusterkit.words.events import Impaired, Progressed
from tests.histories import task

WORKER = task("worker:1")


@pytest.mark.parametrize(
    ("regex", "line", "step"),
    [
        (r"step (\d+)", "step 17: loss 0.3", 17),
        (r"step (\d+)|epoch (\d+)", "epoch 3", 3),
        (r"step (\d+)|epoch (\d+)", "step 4", 4),
        (r"(step|epoch) (\d+)", "epoch 3", 3),
        (r"step (\d+)?", "step", None),
        (r"step (\w+)", "step two", None),
        (r"step (\w+)", "step 0x1f", None),
        (r"step (\S+)", "step ²", None),
        (r"step (\S+)", "step -3", None),
        (r"step (\d+)", "step 9223372036854775807", (1 << 63) - 1),
        (r"step (\d+)", "step 9223372036854775808", None),
        (r"step (\d+)", "step " + "9" * 900, None),
        (r"step (\d+)", "step " + "9" * 5000, None),
        (r"step (\d+)", " " * 5000 + "step 7", None),
        (r"step (\d+)", "step \ud800", None),
        (r"step (\d+)", "step ٣", 3),
    ],
)
def test_the_step_is_the_first_group_that_matched_a_number(regex: str, line: str, step: int | None) -> None:
    """What is no number, or larger than a step can be, is left out."""
    assert step_in(re.compile(regex), line) == step


@pytest.mark.parametrize(
    "regex",
    [
        r"(\d)", r"()(\d)", r"(.*)", r"(\S+)", r"(\w+)", r"([^ ]+)", r"([0-9]{1,5})",
        r"(?P<n>\d+)/\d+", r"(0|[1-9]\d*)",
        r"step (\d+)(?:,\d+)*", r"(?:\S+ )*(\d+)", r"(\d+)?", r"(?i)STEP[ =:]+(\d+)", r"(?:\[\w+\] )*step (\d+)",
        r"((?:\d)+)", r"(?:a{1,3})*(\d+)", r"(?<=step )(\d+)", r"(?>\d+) (\d+)", r"(x)?(?(1)y|z) (\d+)",
        "(" * 90 + r"\d" + ")" * 90,
    ],
)  # fmt: skip
def test_a_regular_expression_that_can_find_a_step_is_taken(regex: str) -> None:
    """Also where nobody would write it so."""
    assert problem_of(regex) is None


@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("step", "has no group"),
        ("(?:step) 1", "has no group"),
        ("(step)", "has no group that can match a number"),
        ("()", "has no group that can match a number"),
        (r"(\D+)", "has no group that can match a number"),
        (r"step (\s+) \d", "has no group that can match a number"),
        ("([a-z]+)([xyz])", "has no group that can match a number"),
        (r"(step \d+)", "has no group that can match a number"),
        ("(step|epoch) [0-9]", "has no group that can match a number"),
        ("step (", "is not a regular expression"),
        ("(" * 30_000 + r"\d" + ")" * 30_000, "is not a regular expression"),
        (r"(\d{99999999999999999999})", "is not a regular expression"),
    ],
)
def test_one_that_can_not_is_refused_before_anything_starts(regex: str, problem: str) -> None:
    """A job whose steps are never seen is found out at once, not after an hour."""
    assert problem in str(problem_of(regex))


def test_every_kind_of_output_is_read() -> None:
    """Steps out of whole and half lines; the newest is posted at the end."""
    posted: list[Progressed | Impaired] = []
    reader = StepReader(r"step (\d+)|epoch (\d+)", posted.append, every=0.0)
    for chunk in (b"epoch 3\nst", b"ep 4\n", b"\xff\x00step " + b"9" * 5000 + b"\n", b"step 5", b""):
        reader.feed(WORKER, 1, chunk)
    assert posted == [Progressed(WORKER, 1, step) for step in (3, 4, 5)]


def test_a_search_that_takes_too_long_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A regular expression of the user's own can hold up the supervisor once, and that is told."""
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    posted: list[Progressed | Impaired] = []
    reader = StepReader(r"step (\d+)", posted.append, every=0.0)
    for _ in range(5):
        reader.feed(WORKER, 1, b"step 1\nstep 2\n")
    told = [event for event in posted if isinstance(event, Impaired)]
    assert len(told) == 1
    assert "worker:1" in told[0].what
    assert posted.count(Progressed(WORKER, 1, 1)) == 1
    assert logs.SEARCH_LIMIT < 3
