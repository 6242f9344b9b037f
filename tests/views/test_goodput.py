"""Goodput and start-up as text: one line that fits, shares that sum to 100, and what cost most."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from clusterkit.store.directory import RunDirectory
from clusterkit.text.printable import columns
from clusterkit.views.goodput import goodput_lines, percentages, startup_lines
from clusterkit.words.account import Account, ChainLink, Goodput, Startup, TaskStart
from clusterkit.words.outcome import RunResult, RunState
from clusterkit.words.reports import Stage
from tests.histories import task

MOST = "ps:0 was killed by SIGKILL at 11.8 s: 3.4 s to recover, 0.4 s of training lost"
PARTS = {
    "startup": 5_000_000, "compilation": 1_000_000, "training": 20_000_000, "lost": 400_000, "checkpointing": 200_000,
    "recovering": 3_400_000, "ending": 1_000_000,
}  # fmt: skip
SPLIT = Goodput.of(PARTS, True, "recovering", MOST)
UNSEEN = Goodput.of({"startup": 1_000_000, "unseen": 9_000_000}, False, "", "")


def test_a_line_of_shares_and_what_cost_most() -> None:
    """The largest first; training is the goodput."""
    assert goodput_lines(SPLIT, 100) == [
        "  goodput 65% · start-up 16% · recovery 11% · compilation 3% · end 3% · lost training 1%",
        f"  largest cost: {MOST}",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_it_fits(width: int) -> None:
    """Shares that have no room are left out, and the sentence has several lines."""
    assert all(columns(line) <= max(width, 13) for line in goodput_lines(SPLIT, width))


def test_a_start_up_that_cost_most_names_the_command_that_splits_it() -> None:
    """It has a table of its own."""
    lines = goodput_lines(
        Goodput.of({"startup": 5_000_000}, True, "startup", "start-up, 5.0 s before the first step"), 100
    )
    assert lines[1] == "  largest cost: start-up, 5.0 s before the first step (details: clusterkit show --startup)"


def test_a_run_whose_training_cannot_be_seen() -> None:
    """It says that, and no number."""
    assert UNSEEN.share is None
    assert goodput_lines(UNSEEN, 80) == [
        "  goodput unknown: no task reported a step · no steps seen 90% · start-up 10%"
    ]  # fmt: skip
    assert goodput_lines(Goodput()) == []


@seed(3)
@given(st.dictionaries(st.sampled_from(sorted(PARTS)), st.integers(0, 10**12)))
def test_shares_sum_to_a_hundred(parts: dict[str, int]) -> None:
    """Whatever was rounded."""
    told = percentages(Goodput.of(parts, True, "", "")) if sum(parts.values()) else []
    assert sum(share for _, share in told) == (100 if told else 0)
    assert all(share >= 0 for _, share in told)


STARTUP = Startup(
    (TaskStart(task("worker:0"), True, 0.0, 1.0, 1.25, None, 3.0, 4.0, 6.5), TaskStart(task("worker:1"))),
    (
        ChainLink(task("worker:1"), Stage.IMPORTED, 0.0, 2.5),
        ChainLink(task("worker:0"), Stage.CONNECTED, 2.5, 3.0),
        ChainLink(task("worker:0"), Stage.STEPPED, 3.0, 6.5),
    ),
)


def test_the_start_up_is_a_table_with_its_critical_chain() -> None:
    """In seconds since the run began."""
    assert startup_lines(STARTUP, 100) == [
        "task      start  process  import  port  connected  prepared  first step",
        "worker:0  0.0 s    1.0 s   1.2 s     -      3.0 s     4.0 s       6.5 s",
        "worker:1      -        -       -     -          -         -           -",
        "The first step, after 6.5 s, waited for: worker:1 its imports 2.5 s, worker:0 its connections 0.5 s,",
        "worker:0 its first step 3.5 s.",
    ]
    assert startup_lines(Startup(STARTUP.tasks), 100)[-1].startswith("No step has been reported")
    assert all(columns(line) <= 40 for line in startup_lines(STARTUP, 40))


def test_a_result_of_an_older_version_is_read(directory: RunDirectory) -> None:
    """It has recoveries, and neither goodput nor start-up."""
    account = Account(goodput=SPLIT, startup=STARTUP)
    result = RunResult(RunState.SUCCEEDED, 0, "done")
    directory.write_result(result, account)
    assert directory.account() == account
    text = directory.result_file.read_text()
    directory.result_file.write_text('{"state": "succeeded", "exit_code": 0, "reason": "done", "recoveries": []}')
    assert (directory.result(), directory.account()) == (result, Account())
    directory.result_file.write_text(text.replace('"seen": true', '"seen": "maybe"'))
    assert directory.account() is None


@pytest.fixture
def directory(tmp_path: object) -> RunDirectory:
    """The directory of a run."""
    from pathlib import Path

    run = RunDirectory(Path(str(tmp_path)) / "run")
    run.make()
    return run
