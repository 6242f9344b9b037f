"""Steps read from the log: whatever tasks write and users ask for, the thread that moves the logs lives on."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from clusterkit.backends.local.step_reader import SEARCH_LIMIT, StepReader
from clusterkit.job.step_regex import LONGEST, problem_of, step_in
from clusterkit.words.events import Crashed, Impaired, Progressed
from tests.histories import task

WORKER = task("worker:1")
LONG = b"The quick brown fox jumps over the lazy dog and then over the fence of the neighbour too\n"


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
    match = re.search(regex, line[:LONGEST])
    assert (None if match is None else step_in(match.groups())) == step


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


Posted = Progressed | Impaired | Crashed


@contextmanager
def reading(regex: str, posted: list[Posted]) -> Iterator[StepReader]:
    """A reader of steps, whose thread and process are ended afterwards."""
    reader = StepReader(regex, posted.append, every=0.0)
    reader.start()
    try:
        yield reader
    finally:
        reader.close()


@pytest.mark.process
@pytest.mark.timeout(30)
def test_every_kind_of_output_is_read() -> None:
    """Steps out of whole and half lines; the newest is posted at the end."""
    posted: list[Posted] = []
    with reading(r"step (\d+)|epoch (\d+)", posted) as reader:
        for chunk in (b"epoch 3\nst", b"ep 4\n", b"\xff\x00step " + b"9" * 5000 + b"\n", b"step 5", b""):
            reader.feed(WORKER, 1, chunk)
        assert posted == [Progressed(WORKER, 1, step) for step in (3, 4, 5)]


@pytest.mark.process
@pytest.mark.timeout(30)
def test_more_than_any_pipe_holds_is_read() -> None:
    """Also as the groups of the matches, whatever they hold."""
    posted: list[Posted] = []
    with reading(r"(\S*) step (\d+)", posted) as reader:
        reader.feed(WORKER, 1, b"".join(b"%s step %d\n" % (b"x" * 900, step) for step in range(3000)))
        reader.feed(WORKER, 1, b"")
    assert posted == [Progressed(WORKER, 1, 2999)]


@pytest.mark.process
@pytest.mark.timeout(30)
@pytest.mark.parametrize("regex", [r"(\w+\s?)*step (\d+)$", r"(?:(?=(\w+))\1\s?|\w+)*step (\d+)$"])
def test_a_search_that_takes_forever_delays_nobody_and_is_the_last_one(regex: str) -> None:
    """The output goes on at once; one event names the task and the expression, and says that no steps are seen."""
    posted: list[Posted] = []
    with reading(regex, posted) as reader:
        began = time.monotonic()
        for _ in range(5):
            reader.feed(WORKER, 1, LONG)
        assert time.monotonic() - began < SEARCH_LIMIT / 2
        reader.feed(WORKER, 1, b"")
        reader.feed(WORKER, 2, b"step 2\n")
        reader.feed(WORKER, 2, b"")
    [told] = posted
    assert isinstance(told, Impaired)
    assert told.ends_steps
    assert "worker:1" in told.what
    assert regex in told.what


@pytest.mark.process
@pytest.mark.timeout(30)
def test_a_search_whose_process_is_killed_is_the_last_one() -> None:
    """That is told as what it is, and not as an expression that is too slow."""
    posted: list[Posted] = []
    with reading(r"step (\d+)", posted) as reader:
        reader.feed(WORKER, 1, b"step 1\n")
        reader.feed(WORKER, 1, b"")
        assert reader._searcher._process is not None
        reader._searcher._process.kill()
        reader.feed(WORKER, 2, b"step 2\n")
        reader.feed(WORKER, 2, b"")
    [step, told] = posted
    assert step == Progressed(WORKER, 1, 1)
    assert isinstance(told, Impaired)
    assert "was killed" in told.what
