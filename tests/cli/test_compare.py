"""`compare`: runs side by side, whether they are over or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import JOB, ROLES, Clusterkit, wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_a_finished_run_beside_a_live_one(ck: Clusterkit, tmp_path: Path) -> None:
    """As JSON and as a table; a run that is named twice has one column."""
    ck("up", "--run-id", "over", *JOB, ROLES, "--steps", "20")
    live = ck.up("--run-id", "live", *JOB, ROLES, "--steps", "20", "--until", tmp_path / "go")
    wait_for(live, "Progressed", task="chief:0", step=19)
    first, second = ck.json("compare", "over", "live")
    assert (first["run_id"], first["state"], first["steps"]) == ("over", "succeeded", 20)
    assert (second["run_id"], second["state"], second["steps"]) == ("live", "running", 19)
    assert first["metrics"]["loss"]["20"] == 1 / 20
    assert second["metrics"]["loss"]["19"] == 1 / 19
    rows = [line.split() for line in ck("compare", "over", "live", "over").out.splitlines()]
    assert rows[0] == ["over", "live"]
    assert rows[1] == ["arguments", "-", "--until", str(tmp_path / "go")]
    assert rows[2] == ["state", "succeeded", "running"]
    assert rows[-1] == ["last", "loss", "0.05", "at", "20", "0.05263", "at", "19"]
    assert ck("compare", "over", "--metric", "auc").out.splitlines()[-1].split() == ["last", "loss", "0.05"]


def test_without_runs_the_last_two_of_the_same_program(ck: Clusterkit, tmp_path: Path) -> None:
    """It says which; options and arguments in which they differ come first. Runs without steps do not count."""
    other = tmp_path / "other.py"
    other.write_text("")
    assert "No program has made steps in two runs of" in ck("compare", code=2).err
    ck("up", "--run-id", "b", *JOB, ROLES, "--steps", "2")
    ck("up", "--run-id", "other", other)
    ck("up", "--run-id", "part", other)
    assert "No program has made steps in two runs of" in ck("compare", code=2).err
    ck("up", "--run-id", "a", *JOB, "--grace-period", "3s", ROLES, "--steps=3", "--step-time", "0.01")
    assert [run["run_id"] for run in ck.json("compare")] == ["b", "a"]
    ck("up", "--run-id", "newest", *JOB, "--env", "SECRET_TOKEN=abc", ROLES, "--steps", "2")
    said = ck("compare")
    assert said.err == f"clusterkit: The last two runs of {ROLES} are compared.\n"
    assert "abc" not in said.out
    assert [run["run_id"] for run in ck.json("compare")] == ["a", "newest"]
    assert [run["run_id"] for run in ck.json("compare", "other.py", "roles.py")] == ["part", "newest"]
    rows = [line.split() for line in ck("compare", "b", "a").out.splitlines()]
    assert rows[0] == ["b", "a"]
    assert rows[1] == ["--grace-period", "-", "3s"]
    assert rows[2] == ["arguments", "--steps", "2", "--steps=3", "--step-time", "0.01"]
    assert rows[3][0] == "state"


def test_a_run_that_does_not_exist(ck: Clusterkit) -> None:
    """It is named, and nothing is shown."""
    answer = ck("compare", "none", code=2)
    assert (answer.out, "none" in answer.err) == ("", True)
