"""`up --run-id X --continue`: a run whose supervisor was lost goes on under its id, as one run."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from tests.losses import lose
from tests.support import CHILDREN, Command, Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]

Start = Callable[..., Up]
Clusterkit = Callable[..., Command]
MIMIC = CHILDREN / "mimic.py"
PS = ("--workers", "2", "--ps", "1")
GANG = ("--workers", "2")
LONG = ("--steps", "400", "--step-time", "0.02", "--every", "40")
SAME = ("--run-id", "x", "--continue")


def lost(run: Up) -> None:
    """Lose a run, and wait until it is."""
    lose(run)
    run.process.wait(10)
    wait_until(lambda: not RunDirectory(run.run).is_live(), 10, "the end of the supervisor")


@pytest.mark.parametrize("shape", [PS, GANG], ids=["ps", "gang"])
def test_a_run_whose_supervisor_is_lost_goes_on_from_its_checkpoint(up: Start, shape: tuple[str, ...]) -> None:
    """Its journal goes on, attempts count on, and the result is that of one run."""
    first = up(*SAME, *shape, MIMIC, *LONG)
    first.wait_for("Checkpointed", count=2)
    lost(first)
    second = up(*SAME, *shape, MIMIC, *LONG)
    assert second.wait(60) == 0, second.output
    assert "The run continues in allocation 2." in second.output
    result = second.result
    assert (result["state"], result["last_step"]) == ("succeeded", 400)
    leader = [one for one in result["attempts"] if one["task"] in ("chief:0", "worker:0")][:2]
    assert [one["attempt"] for one in result["attempts"] if one["task"] == "worker:1"] == [1, 2]
    assert leader[0]["exit"]["lost"] or shape is PS
    assert second.events("Resumed")[-1]["step"] >= 80
    times = [event["m"] for event in second.events()]
    assert times == sorted(times)
    assert (second.run / "tasks" / "worker:1" / "attempt-1.log").exists()
    assert not second.events("RestartPlanned")
    [recovery] = json.loads((second.run / "result.json").read_text())["recoveries"]
    assert recovery["allocation"] == 2
    assert recovery["resumed_step"] >= 80


@pytest.mark.parametrize("warning", [signal.SIGURG, signal.SIGUSR1])
def test_a_run_that_is_suspended_goes_on(up: Start, warning: signal.Signals) -> None:
    """The signal says that the allocation ends: tasks are ended, and the run is not over."""
    first = up(*SAME, *GANG, MIMIC, *LONG)
    first.wait_for("Checkpointed")
    first.signal(warning)
    assert first.wait(30) == 75, first.output
    assert f"The allocation ends: the supervisor got {warning.name}. The run continues in the next one." in first.output
    assert first.result["state"] == "suspended"
    assert {one["exit"]["asked"] for one in first.result["attempts"]} == {"ended with its allocation"}
    second = up(*SAME, *GANG, MIMIC, *LONG)
    assert second.wait(60) == 0, second.output
    assert [event["allocation"] for event in second.events("Continued")] == [2]
    assert second.result["last_step"] == 400


def test_a_run_that_is_over_says_so_with_its_exit_code(up: Start) -> None:
    """Whoever starts the supervisor again and again learns the end."""
    assert up(*SAME, MIMIC, "--steps", "3").wait(30) == 0
    again = up(*SAME, MIMIC, "--steps", "3")
    assert again.wait(30) == 0
    assert again.output == "clusterkit: The run x succeeded already: worker:0 exited with code 0.\n"
    failed = up("--run-id", "y", "--continue", "--restart", "never", MIMIC, "--steps", "none")
    assert failed.wait(30) == 1
    again = up("--run-id", "y", "--continue", "--restart", "never", MIMIC, "--steps", "none")
    assert again.wait(30) == 1
    assert "The run y failed already: " in again.output


def test_a_live_run_and_another_job_are_refused(up: Start) -> None:
    """And the live one stays as it is."""
    live = up(*SAME, *GANG, MIMIC, "--steps", "100000")
    live.wait_for("Progressed")
    refused = up(*SAME, *GANG, MIMIC)
    assert refused.wait(20) == 2
    assert "The run x is still running, so it can't be continued." in refused.output
    lost(live)
    refused = up(*SAME, "--workers", "3", MIMIC)
    assert refused.wait(20) == 2
    assert "The run x has 2 workers, and not 3 workers." in refused.output
    without = up("--continue", MIMIC)
    assert without.wait(20) == 2
    assert "--continue needs --run-id" in without.output


def test_ctrl_c_ends_the_run_for_good(up: Start) -> None:
    """Also while it is being suspended."""
    run = up(*SAME, "--grace-period", "30", CHILDREN / "stubborn.py", "ignore")
    run.wait_for("Ready")
    run.signal(signal.SIGUSR1)
    run.wait_for("Stopping")
    run.signal(signal.SIGINT)
    run.wait_for("Stopping", count=2)
    run.signal(signal.SIGINT)
    assert run.wait(20) == 130, run.output
    assert run.result["state"] == "stopped"
    assert up(*SAME, CHILDREN / "stubborn.py", "ignore").wait(20) == 130


def test_hostile_leftovers_are_dealt_with(up: Start, tmp_path: Path) -> None:
    """A half line, foreign lines, a dead socket, plain files where pipes were, a damaged result."""
    first = up(*SAME, MIMIC, *LONG)
    first.wait_for("Checkpointed")
    lost(first)
    run = first.run
    (run / "result.json").write_text('{"state": "succ')
    with (run / "journal.jsonl").open("ab") as journal:
        journal.write(b'null\n{"m": "x", "event": "Began"}\n\xff\xfe\n{"t": 1e9, "m": 2, "event": "Prog')
    with (run / "tasks" / "arrivals").open("ab") as arrivals:
        arrivals.write(b"17.5 worker:0 1")
    (run / "tasks" / "worker:0" / "progress").unlink()
    (run / "tasks" / "worker:0" / "progress").write_text("not a pipe")
    (run / "tasks" / "worker:0" / "requests").unlink()
    second = up(*SAME, MIMIC, *LONG)
    assert second.wait(60) == 0, second.output
    events = JournalReader(RunDirectory(run)).events()
    assert len([event for _, event in events if type(event).__name__ == "Continued"]) == 1
    assert second.result["last_step"] == 400


def test_a_run_that_was_removed_begins_again_and_says_so(up: Start, clusterkit: Clusterkit) -> None:
    """Not without a word; nor does one of which there is no record."""
    first = up(*SAME, *GANG, MIMIC, *LONG)
    first.wait_for("Checkpointed")
    first.signal(signal.SIGUSR1)
    assert first.wait(30) == 75, first.output
    assert "There is no run x to continue, so it begins." in first.output
    kept = clusterkit("prune", "--older-than", "0s")
    assert kept.wait(20) == 0, kept.output
    assert "Kept 1 run that can be continued" in kept.output
    assert clusterkit("rm", "x").wait(20) == 1
    assert first.run.exists()
    assert clusterkit("rm", "--force", "x").wait(20) == 0
    again = up(*SAME, MIMIC, "--steps", "3")
    assert again.wait(30) == 0, again.output
    assert "The run x was removed by `clusterkit rm` at " in again.output
    assert "so it can't be continued. It begins again with attempt 1." in again.output
    over = up(*SAME, MIMIC, "--steps", "3")
    assert over.wait(30) == 0, over.output
    assert "was removed" not in over.output
