"""Campaigns over a program that behaves as a TensorFlow job does, without TensorFlow."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterkit.words.grammar import parse_fault
from clusterkit.words.model import number_of
from tests.commands import ROLES, Clusterkit
from tests.support import CHILDREN, Command, Up, wait_until

pytestmark = pytest.mark.process

MIMIC = CHILDREN / "mimic.py"
SHAPES: dict[str, tuple[str, ...]] = {"ps": ("--workers", "2", "--ps", "1"), "gang": ("--workers", "3"), "alone": ()}
QUICK = ("--restart-backoff", "0.1", "--grace-period", "2s")
SHORT = ("--steps", "40", "--every", "10")
VARIABLE = "MODE=fast"
Start = Callable[..., Command]


def campaign(ck: Clusterkit, *args: str | Path, code: int = 0) -> dict[str, Any]:
    """Run a campaign to its end; what it printed as JSON."""
    answer = ck("chaos", "--json", "--parallel", "4", *QUICK, *args, code=code, deadline=110)
    told: dict[str, Any] = json.loads(answer.out)
    if VARIABLE in args:  # what is printed can be pasted; what is stored has no values that may be secret
        assert (f"--env={VARIABLE}" in answer.err) == bool(failing(told))
        assert VARIABLE not in answer.out
    assert all(f"run {run['run']} failed" in answer.err for run in told["runs"] if run["violations"])
    assert f"{told['passed']} of {number_of('run', len(told['runs']))} passed" in answer.err
    return told


def failing(told: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs that violate something."""
    return [run for run in told["runs"] if run["violations"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "runs"),
    [*(("ps", 3), ("gang", 2), ("alone", 2)), *(pytest.param(shape, 6, marks=pytest.mark.long) for shape in SHAPES)],
)
def test_a_campaign_passes(ck: Clusterkit, shape: str, runs: int) -> None:
    """Every run recovers, and nothing of it stays but what was asked for."""
    told = campaign(ck, "--runs", str(runs), "--seed", "20", *SHAPES[shape], MIMIC, *SHORT)
    assert failing(told) == []
    assert (told["passed"], told["failed"], len(told["runs"])) == (runs, 0, runs)
    assert told["baseline"]["last_step"] == 40
    assert told["baseline"]["checkpoints"] == [10, 20, 30, 40]
    assert told["baseline"]["metrics"]["accuracy"] == 1.0
    assert sum(row["injected"] for row in told["actions"]) >= runs
    assert all(row["recovered"] == row["injected"] for row in told["actions"])
    assert list((ck.home / "runs").iterdir()) == []
    check_record(ck, told)


def check_record(ck: Clusterkit, told: dict[str, Any]) -> None:
    """The campaign's record has all that was printed, and the campaign is listed until it is removed."""
    name = told["campaign"]
    written = json.loads((ck.home / "campaigns" / f"{name}.json").read_text())
    assert {key: value for key, value in written.items() if key in told} == told
    assert (written["state"], written["running"]) == ("failed" if told["failed"] else "passed", [])
    (row,) = ck.json("ls", "--campaigns")
    assert (row["campaign"], row["state"], row["runs"]) == (name, written["state"], len(told["runs"]))
    assert ck("prune", "--keep", "1").out == ""
    assert ck("rm", "--prefix", name[:-2]).out == f"{name}\n"
    assert ck("ls", "--campaigns", "-q").out == ""
    again = shlex.split(written["command"])
    assert again[:2] == ["clusterkit", "chaos"]
    assert f"--runs={told['asked_for']}" in again


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["--forget-restore", pytest.param("--checkpoint-in-place", marks=pytest.mark.long)])
def test_a_planted_bug_is_found_and_shrunk_to_one_fault(
    ck: Clusterkit, up: Callable[..., Up], tmp_path: Path, bug: str
) -> None:
    """Within 20 runs; the command that is printed for it does it again."""
    told = campaign(
        ck, "--runs", "20", "--seed", "1", "--fail-fast", "--shrink", "1", "--actions", "kill,term",
        "--env", VARIABLE, *SHAPES["ps"], MIMIC, *SHORT, bug, "--save-time", "0.1", code=1,
    )  # fmt: skip
    shrunk = [run["shrunk"] for run in failing(told) if run["shrunk"]]
    assert len(shrunk) == 1
    assert len(shrunk[0]["faults"]) == 1
    culprit = parse_fault(shrunk[0]["faults"][0])
    assert {str(target) for target in culprit.targets} <= {"chief:0", "ps:0"}
    assert shrunk[0]["violations"]
    assert all(Path(run["directory"], "journal.jsonl").exists() for run in failing(told))
    if bug == "--forget-restore":  # a death in the midst of a write needs some luck
        assert "although the checkpoint" in again(up, shrunk[0]["replay"], tmp_path / "died")


def again(up: Callable[..., Up], command: str, gate: Path) -> str:
    """Type a command that clusterkit has printed; what it prints. The last step waits until the fault has come."""
    words = [word for word in shlex.split(command) if word != "--env=MODE"]  # which this shell does not have
    assert words[:2] == ["clusterkit", "up"]
    run = up("--run-id", "again", *words[2:], "--gate", f"40:{gate}")
    run.wait_for("Exited")
    gate.touch()
    run.wait(60)
    return run.output


@pytest.mark.slow
def test_the_same_seed_is_the_same_campaign(ck: Clusterkit) -> None:
    """What is drawn from the job, the baseline and the seed; times of the baseline differ, so none are drawn here."""

    def schedules() -> list[Any]:
        told = campaign(ck, "--runs", "3", "--seed", "5", *SHAPES["alone"], MIMIC, *SHORT)
        return [(run["seed"], [fault.partition(" @ ")[0] for fault in run["faults"]]) for run in told["runs"]]

    assert schedules() == schedules()


@pytest.mark.slow
def test_runs_share_no_checkpoints(ck: Clusterkit, tmp_path: Path) -> None:
    """Where the user has a place for them, each run has one in it; those of runs that passed go with them."""
    places = ("--checkpoint-dir", tmp_path / "saved", "--run-id", "mine", "--keep")
    told = campaign(ck, "--runs", "2", "--actions", "kill", *places, *SHAPES["alone"], MIMIC, *SHORT)
    assert {path.name for path in (tmp_path / "saved").iterdir()} == {"mine-baseline", "mine-1", "mine-2"}
    assert {path.name for path in (ck.home / "runs").iterdir()} == {"mine-baseline", "mine-1", "mine-2"}
    assert failing(told) == []
    kept = ("--checkpoint-dir", tmp_path / "others")
    campaign(ck, "--runs", "1", "--actions", "kill", *kept, *SHAPES["alone"], MIMIC, *SHORT)
    assert list((tmp_path / "others").iterdir()) == []


@pytest.mark.slow
def test_a_job_that_fails_by_itself_has_no_campaign(ck: Clusterkit) -> None:
    """There is nothing to compare with; its directory stays."""
    told = ck("chaos", "--runs", "2", "--restart", "never", ROLES, "--fail", "worker:0:1:3:5", code=1)
    assert "The job fails even without faults: worker:0 exited with code 5" in told.out
    assert [path.name.endswith("-baseline") for path in (ck.home / "runs").iterdir()] == [True]
    (record,) = (ck.home / "campaigns").glob("*")
    assert "exited with code 5" in json.loads(record.read_text())["problem"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--actions", "kill,explode"), "there is no action 'explode'"),
        (("--actions", "partition"), "--actions partition is not supported here: it needs --network virtual"),
        (("--hosts", "2", "--actions", "disk-full"), "disk-full is not supported here: it is for tasks on one machine"),
        (("--rate", "0.5"), "0.5 is not in the range"),
        (("--workers", "-1"), "--workers is -1"),
        (("--fault", "kill ps:0"), "the job has no task ps:0"),
        (("--run-id", "x" * 41), "--run-id has 41 letters"),
        (("--watch",), "--watch is not for series of runs"),
    ],
)
def test_what_cannot_be_is_refused(ck: Clusterkit, args: tuple[str, ...], sentence: str) -> None:
    """Before anything is started."""
    assert sentence in ck("chaos", *args, MIMIC, code=2).err
    assert not (ck.home / "runs").exists()


@pytest.mark.parametrize("left", ["mine-baseline", "mine-2", "mine-2-shrink-1"])
def test_a_run_of_others_is_not_taken_for_one_of_the_campaign(ck: Clusterkit, left: str) -> None:
    """Neither judged nor removed: nothing is started, and the message names the run."""
    (ck.home / "runs" / left).mkdir(parents=True)
    told = ck("chaos", "--run-id", "mine", "--runs", "3", MIMIC, *SHORT, code=2).err
    assert f"The campaign mine would use ids that runs already have: {left}." in told
    assert [path.name for path in (ck.home / "runs").iterdir()] == [left]
    assert not (ck.home / "campaigns").exists()


@pytest.mark.slow
def test_a_run_that_cannot_be_started_ends_the_campaign_in_order(
    ck: Clusterkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here for want of a place for temporary files: a sentence, the summary, and a record that says why."""
    temporary, removes = tmp_path / "temporary", tmp_path / "removes.py"
    temporary.mkdir()
    removes.write_text(f"import shutil\nshutil.rmtree({str(temporary)!r}, ignore_errors=True)\n")
    monkeypatch.setenv("TMPDIR", str(temporary))
    words = ("--runs", "3", "--parallel", "1", "--actions", "kill", *QUICK)
    answer = ck("chaos", "--run-id", "mine", *words, removes, code=1)
    why = "The run mine-1 can't be started: No such file or directory."
    assert f"clusterkit: The campaign can't continue. {why}" in answer.err
    assert "0 of 0 runs passed (3 were asked for)" in answer.out
    written = json.loads((ck.home / "campaigns" / "mine.json").read_text())
    assert (written["state"], written["problem"]) == ("failed", why)


@pytest.mark.slow
def test_without_json_everything_is_on_standard_output(ck: Clusterkit) -> None:
    """As people read it."""
    answer = ck("chaos", "--runs", "1", "--actions", "kill", *QUICK, MIMIC, *SHORT)
    assert "1 of 1 run passed" in answer.out
    assert answer.err == ""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_every_run_and_prints_what_there_is(clusterkit: Start, home: Path, number: int) -> None:
    """Once; the summary says that it was cut short."""
    command = clusterkit("chaos", "--runs", "50", "--parallel", "2", *QUICK, MIMIC, "--steps", "30")
    wait_until(lambda: "✔ run" in command.output, 60, lambda: f"the first run: {command.output}")
    os.kill(command.process.pid, number)
    assert command.wait(30) == 128 + number
    assert " passed (50 were asked for)" in command.output
    assert "Traceback" not in command.output
    runs = [*(home / "runs").iterdir()]
    assert [run for run in runs if not (run / "result.json").exists()] == []
    (record,) = (home / "campaigns").glob("*")
    written = json.loads(record.read_text())
    assert written["state"] == "stopped"
    interrupted = [one["directory"] for one in written["interrupted"]]
    assert sorted(interrupted) == sorted(map(str, runs)), "what was running is kept, and nothing else"
    for one in written["interrupted"]:
        assert f"– run {one['run']} was interrupted after " in command.output
        assert f"  its directory: {one['directory']}\n" in command.output


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", ["ps", "gang"])
def test_five_hundred_runs_pass(ck: Clusterkit, shape: str) -> None:
    """The long one, of each shape, with any seed."""
    job: tuple[str | Path, ...] = (*QUICK, *SHAPES[shape], MIMIC, *SHORT)
    done = ck("chaos", "--runs", "500", "--parallel", "4", *job, deadline=3500)
    print(done.out)
    assert "500 of 500 runs passed" in done.out
