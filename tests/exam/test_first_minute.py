"""A short exam sees all four chapters: of README's program, and of one that is too slow to be run to its end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.environment import clean_environment
from tests.support import CHILDREN, ROOT

pytestmark = [pytest.mark.tensorflow, pytest.mark.long, pytest.mark.timeout(500)]
CHAPTERS = {"repeat", "equality", "resume", "survival"}


def examined(home: Path, program: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Examine a program on two workers; the exam as JSON, and what it says meanwhile."""
    command = ["exam", "--quick", "--json", "--seed=7", "--workers=2", *options, str(program)]
    done = subprocess.run(
        [sys.executable, "-m", "clusterkit", *command],
        env=clean_environment(home),
        capture_output=True, text=True, check=False, timeout=450,
    )  # fmt: skip
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["exit_code"] == done.returncode == 0, json.dumps(report["cells"], indent=1)
    return report, done.stderr


def passed(report: dict[str, Any]) -> list[str]:
    """The cells that have passed."""
    return [one["cell"] for one in report["cells"] if one["grade"] == "passed"]


def test_readmes_program_is_seen_whole(tmp_path: Path) -> None:
    """Twelve cells or more; here without a limit of time, since other tests may run meanwhile."""
    (program,) = re.findall(r"<!-- file train.py -->\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (tmp_path / "train.py").write_text(program)
    report, _ = examined(tmp_path / "home", tmp_path / "train.py", "--budget=400s")
    cells = passed(report)
    assert {cell.partition("/")[0] for cell in cells} == CHAPTERS
    assert len(cells) >= 12
    assert len(cells) == len(report["cells"])


def test_a_program_of_ten_minutes_is_seen_in_all_chapters(tmp_path: Path) -> None:
    """It is ended after the first checkpoint and some steps, in each run; that is said, with the pace."""
    report, said = examined(tmp_path, CHILDREN / "slow_steps.py", "--budget=120s")
    announced = re.search(r"A step takes (.*) s, and runs end after step (\d+):", said)
    assert announced is not None, said
    assert 1.9 < float(announced[1]) < 20
    assert 6 <= int(announced[2]) < 30
    assert {cell.partition("/")[0] for cell in passed(report)} == CHAPTERS
    assert {"equality/1-against-2", "resume/killed-between-checkpoints"} < set(passed(report))
    assert "survival/kill/worker:0/ending" not in passed(report)
