"""`logs` and `events`, of live and of finished runs."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pytest

from tests.cli.test_ending import begun
from tests.commands import JOB, ROLES, Clusterkit, wait_for
from tests.support import CHILDREN

pytestmark = [pytest.mark.process, pytest.mark.slow]

TURNS = ("--workers", "2", CHILDREN / "turns.py")


@pytest.fixture
def turns(ck: Clusterkit) -> Clusterkit:
    """A home with a finished run in which two workers wrote twenty lines in turns, and one without an end each."""
    ck("up", "--run-id", "turns", *TURNS, "20")
    return ck


def numbers(text: str) -> list[int]:
    """The numbers of the lines."""
    return [int(number) for number in re.findall(r"line (\d+)", text)]


def test_merged_lines_are_in_the_order_in_which_they_came(turns: Clusterkit) -> None:
    """Long after the run is over, for people and as JSON."""
    assert numbers(turns("logs", "--merge").out) == list(range(20))
    lines = turns.lines("logs", "--merge")
    assert [line["line"] for line in lines[:20]] == [f"line {number}" for number in range(20)]
    assert [line["task"] for line in lines[:4]] == ["worker:0", "worker:1", "worker:0", "worker:1"]
    assert [line["t"] for line in lines] == sorted(line["t"] for line in lines)
    assert {line["line"] for line in lines[20:]} == {"no end of line worker:0", "no end of line worker:1"}


def test_without_merging_each_task_is_told_by_itself(turns: Clusterkit) -> None:
    """Task after task; --tail counts the lines of each."""
    assert numbers(turns("logs").out) == [*range(0, 20, 2), *range(1, 20, 2)]
    assert turns("logs", "--tail", "2").out.splitlines() == [
        "worker:0 │ line 18", "worker:0 │ no end of line worker:0",
        "worker:1 │ line 19", "worker:1 │ no end of line worker:1",
    ]  # fmt: skip


def test_noise_of_tensorflow_is_hidden(ck: Clusterkit, tmp_path: Path) -> None:
    """As `up` hides it, unless all is asked for, or a line by its words; a line says so."""
    program = tmp_path / "noisy.py"
    noise = [f"2026-01-01 00:00:0{number}.0: I tensorflow/core/util/x.cc:1] {number}" for number in range(9)]
    program.write_text(f"print('first', *{noise!r}, 'last', sep='\\n')\n")
    ck("up", "--run-id", "noisy", program)
    for tail in ((), ("--tail", "2")):
        shown = ck("logs", *tail)
        assert [line.partition("│ ")[2] for line in shown.out.splitlines()] == ["first", "last"]
        assert shown.err == "clusterkit: TensorFlow's noise is hidden. Show it with --all-output.\n"
    for option, count in (("--all-output",), 11), (("--grep", "x.cc"), 9), (("--json",), 11):
        whole = ck("logs", *option)
        assert (len(whole.out.splitlines()), whole.err) == (count, "")


def test_lines_are_chosen(turns: Clusterkit) -> None:
    """By task, attempt, time, number and pattern; all of it together."""
    assert numbers(turns("logs", "worker:1", "--tail", "3").out) == [17, 19]
    assert numbers(turns("logs", "--merge", "--grep", "line 1", "--tail", "2").out) == [18, 19]
    assert numbers(turns("logs", "--merge", "--tail", "6").out) == [16, 17, 18, 19]
    assert turns("logs", "--attempt", "2").out == ""
    assert turns("logs", "--since", "0s").out == ""
    assert len(numbers(turns("logs", "--since", "1h").out)) == 20
    middle = turns.lines("logs", "--merge")[10]
    since = turns("logs", "--merge", "--since", f"{stamp(middle['t'])}").out
    assert numbers(since) == list(range(10, 20))
    assert re.match(r"worker:0 │ \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S+ line 0\n", turns("logs", "-t", "--merge").out)


def stamp(at: float) -> str:
    """A wall time as `--since` takes it."""
    return datetime.datetime.fromtimestamp(at).isoformat(timespec="microseconds")


def test_following_ends_with_the_run_and_misses_nothing(ck: Clusterkit) -> None:
    """Once the run is over, it is as good as --merge."""
    ck.up("--no-wait", *TURNS, "300")
    assert numbers(ck("logs", "-f").out) == list(range(300))
    assert ck("logs", "-f", "--tail", "3").out == ck("logs", "--merge", "--tail", "3").out


def test_a_run_is_named_by_the_beginning_of_its_id(turns: Clusterkit) -> None:
    """A unique one; what could be two is refused, with both."""
    turns("up", "--run-id", "turnip", ROLES, "--steps", "1")
    assert numbers(turns("logs", "turns", "--tail", "1", "worker:0").out) == []
    assert numbers(turns("logs", "turns", "worker:0", "--tail", "2").out) == [18]
    refused = turns("logs", "turn", code=2)
    assert "matches several runs: turnip, turns" in refused.err
    assert "There is no run 'nope'" in turns("logs", "nope", code=2).err
    assert "has no task ps:0" in turns("logs", "ps:0", code=2).err


def test_events_are_followed_to_the_end(ck: Clusterkit, tmp_path: Path) -> None:
    """As sentences, and as the very lines of the journal; of one task if so asked."""
    run = ck.up(*JOB, ROLES, "--steps", "50", "--until", tmp_path / "go", "--fail", "worker:1:1:20:3")
    following = begun(ck, "events", "-f", run.name, "--json")
    assert following.stdout is not None
    with following.stdout:
        first = following.stdout.readline()
        wait_for(run, "Spawned", task="worker:1", attempt=2)
        (tmp_path / "go").touch()
        lines = [json.loads(line) for line in [first, *following.stdout]]
    assert following.wait(20) == 0
    assert [line["event"] for line in lines[:2]] == ["Began", "Changed"]
    assert lines[-1]["event"] == "Finished"
    text = ck("events", "worker:1").out
    assert "worker:1 exited with code 3 (attempt 1)." in text
    assert "worker:1 is started, attempt 2" in text
    assert "chief:0 is started" not in text
