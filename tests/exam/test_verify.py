"""`up --verify`: a right program is verified once, a flawed one ends with exit code 3, or does not begin."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.environment import clean_environment
from tests.support import CHILDREN

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]
PROGRAM = CHILDREN / "verified.py"


def up(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a job of two workers, in a directory and with the state directory below it."""
    return subprocess.run(
        [sys.executable, "-m", "clusterkit", "up", "--workers=2", *words],
        env=clean_environment(place / "home"), cwd=place,
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


def runs(place: Path) -> list[Path]:
    """The directories of the runs that are left, by age."""
    return sorted((place / "home" / "runs").glob("[!.]*"))


def verification(run: Path) -> dict[str, Any]:
    """The verdict in a run's result.json."""
    found: dict[str, Any] = json.loads((run / "result.json").read_text())["verification"]
    return found


def test_a_right_program_is_verified_once(tmp_path: Path) -> None:
    """Nothing is left of the verification, and the second job takes its verdict."""
    first = up(tmp_path, "--verify", str(PROGRAM))
    assert first.returncode == 0, first.stdout + first.stderr
    assert "verifying the first 5 steps" in first.stderr
    assert first.stdout.count("verified: 5 steps equal to one process\n") == 2, first.stdout  # said, and in the report
    (run,) = runs(tmp_path)
    assert verification(run)["equality"] == "equal"
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    assert [one["event"] for one in events].count("Verified") == 1
    again = up(tmp_path, "--verify=required", str(PROGRAM))
    assert again.returncode == 0
    assert "verifying" not in again.stderr
    assert "verified: 5 steps equal to one process (found earlier)" in again.stdout


def test_a_flawed_program(tmp_path: Path) -> None:
    """The job goes on and ends with exit code 3; with `required` it does not begin, and no file is written."""
    refused = up(tmp_path, "--verify", "required:3", str(PROGRAM), "local_mean")
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert "The job does not begin" in refused.stderr
    assert "The gradients are 2 times too large with 2 workers" in refused.stderr
    line = next(number for number, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "model.fit" in text)
    assert f"The first step is made at verified.py, line {line}." in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert not runs(tmp_path)
    went_on = up(tmp_path, "--verify", "3", str(PROGRAM), "local_mean")
    assert went_on.returncode == 3, went_on.stdout + went_on.stderr
    (run,) = runs(tmp_path)
    assert verification(run)["equality"] == "different"
    assert "the first 3 steps differ from those of one process (found earlier)" in went_on.stdout
    assert "! run" in went_on.stdout


def test_parameter_servers_are_not_comparable(tmp_path: Path) -> None:
    """So the job does not begin if it is required."""
    done = up(tmp_path, "--ps=1", "--no-check", "--verify=required", str(PROGRAM))
    assert done.returncode == 3
    assert "not comparable with one process, since parameter servers take updates as they come" in done.stderr
    assert not runs(tmp_path)
