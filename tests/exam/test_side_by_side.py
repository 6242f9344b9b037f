"""A whole exam without TensorFlow: breadth first, side by side, and alone where runs disturb each other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.environment import clean_environment
from tests.support import CHILDREN

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]


def examined(home: Path, *options: str, args: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
    """Examine the program on one worker; the exam as JSON, and what it says meanwhile."""
    command = ["exam", "--json", "--quick", "--seed=7", "--workers=1", "--start=cold", *options]
    done = subprocess.run(
        [sys.executable, "-m", "clusterkit", *command, str(CHILDREN / "one_at_a_time.py"), *args],
        env=clean_environment(home),
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report, done.stderr


def unpassed(report: dict[str, Any]) -> str:
    """What a reader of a failed test wants to see."""
    return json.dumps([one for one in report["cells"] if one["grade"] != "passed"], indent=1)


def grades(report: dict[str, Any]) -> dict[str, str]:
    """The grade of each cell, in the order in which they were examined."""
    return {one["cell"]: one["grade"] for one in report["cells"]}


def test_chapters_take_turns_and_runs_serve_several_cells(tmp_path: Path) -> None:
    """What will be examined is said before, and only phases that the program has are."""
    report, said = examined(tmp_path, "--parallel=1", "--budget=180s")
    found = grades(report)
    # Without variables, there is nothing to repeat.
    assert {cell for cell, grade in found.items() if grade != "passed"} <= {"repeat/unbroken"}, unpassed(report)
    assert "A step takes " in said.splitlines()[1]
    order = list(found)
    assert order[0] == "repeat/unbroken"
    assert order.index("survival/kill/worker:0/saving-rename") < order.index("resume/stopped-between-checkpoints")
    assert "survival/kill/worker:0/evaluating" not in found
    runs = {one["cell"]: one["runs"] for one in report["cells"]}
    assert runs["resume/killed-between-checkpoints"] == runs["survival/kill/worker:0/step"]
    assert runs["resume/stopped-between-checkpoints"][0] == runs["resume/continued-by-2-workers"][0]


def test_runs_that_disturb_each_other_accuse_nobody(tmp_path: Path) -> None:
    """A program that can run once at a time is right: it is run alone, and that is noted."""
    report, _ = examined(tmp_path, "--parallel=3", "--budget=180s", args=(str(tmp_path / "own"),))
    found = grades(report)
    assert {cell for cell, grade in found.items() if grade != "passed"} <= {"repeat/unbroken"}, unpassed(report)
    notes = [note for one in report["cells"] for note in one["notes"]]
    assert any("disturb each other" in note for note in notes)
