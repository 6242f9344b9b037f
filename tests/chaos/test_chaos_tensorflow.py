"""Campaigns over the workloads, with real TensorFlow: they recover from what is done; planted bugs are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import CHILDREN, WORKLOADS, Command

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(400)]

PS = ("--workers", "2", "--ps", "1")
GANG = ("--workers", "3")
SHORT = ("--steps", "240", "--checkpoint-every", "40", "--step-time", "0.01")
JOBS: dict[str, tuple[str | Path, ...]] = {
    "ps": (*PS, WORKLOADS / "ps_train.py", *SHORT),
    "gang": (*GANG, WORKLOADS / "mwms_train.py", *SHORT),
}
LONG: dict[str, tuple[str | Path, ...]] = {
    "ps": (*PS, WORKLOADS / "ps_train.py"),
    "gang": (*GANG, WORKLOADS / "mwms_train.py"),
}
Campaign = Callable[..., dict[str, Any]]


@pytest.fixture
def campaign(clusterkit: Callable[..., Command]) -> Campaign:
    """Run a campaign to its end, which has to come with an exit code; what it printed as JSON, at the end."""

    def run(*args: str | Path, code: int = 0, deadline: float = 380) -> dict[str, Any]:
        command = clusterkit("chaos", "--json", *args)
        assert command.wait(deadline) == code, command.output[-8000:]
        told: dict[str, Any] = json.loads(command.output[command.output.rindex("\n{\n") :])
        return told

    return run


@pytest.mark.parametrize("job", ["ps", pytest.param("gang", marks=pytest.mark.long)])
def test_a_slice_of_a_campaign_passes(campaign: Campaign, home: Path, job: str) -> None:
    """Two runs of each shape, always the same ones: a death in the midst of a write, and a second one on top."""
    told = campaign("--runs", "2", "--seed", "6", "--actions", "kill,term,stop", *JOBS[job])
    assert told["passed"] == 2
    assert told["baseline"]["last_step"] == 240
    assert told["baseline"]["metrics"]["accuracy"] > 0.5
    assert sum(row["injected"] for row in told["actions"]) >= 2
    assert list((home / "runs").iterdir()) == []


def check_found(told: dict[str, Any], said: str) -> None:
    """A run failed, and was shrunk to one fault that makes it fail of that."""
    found = [run["shrunk"] for run in told["runs"] if run["violations"]]
    assert len(found[0]["faults"]) == 1
    assert said in " ".join(found[0]["violations"])


@pytest.mark.long
def test_a_workload_that_forgets_to_restore_is_found(campaign: Campaign) -> None:
    """With a seed whose first run kills the chief after a checkpoint, and does something else besides."""
    few = ("--runs", "20", "--seed", "2743", "--actions", "kill,term,stop", "--fail-fast")
    told = campaign(*few, *PS, CHILDREN / "ps_forgets.py", *SHORT, code=1)
    assert told["runs"][0]["faults"] == ["kill chief:0 @ step=80", "kill worker:0 @ step=200"]
    check_found(told, "although the checkpoint of step")


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", ["1", "2", "3"])
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("ps_forgets.py", "although the checkpoint of step"),
        ("ps_in_place.py", "with the same error and without a new step"),
    ],
)
def test_planted_bugs_are_found_with_any_seed(campaign: Campaign, program: str, said: str, seed: str) -> None:
    """Within 20 runs, with all the faults that the job can have."""
    few = ("--runs", "20", "--seed", seed, "--fail-fast")
    check_found(campaign(*few, *PS, CHILDREN / program, *SHORT, code=1, deadline=1700), said)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("job", "runs"), [("ps", 50), ("gang", 30)])
@pytest.mark.parametrize("network", ["host", "virtual"])
def test_a_campaign_passes_with_any_seed(campaign: Campaign, job: str, runs: int, network: str) -> None:
    """As a user types it, for both shapes; half of the runs with a network that can be broken."""
    told = campaign("--runs", str(runs), "--network", network, *LONG[job], deadline=3500)
    assert told["passed"] == runs
