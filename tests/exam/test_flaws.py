"""The exam finds each planted flaw by its name, and nothing in the same programs without it."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.environment import clean_environment
from tests.exam.flaws import FLAWS, RESUME, RIGHT, Flaw, mended
from tests.support import CHILDREN

pytestmark = pytest.mark.timeout(700)  # longer than two commands may take, which the other tests slow down
FLAWED = CHILDREN / "flawed"


def examined(
    home: Path, path: Path, *args: str, cells: tuple[str, ...], options: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Examine a program on two workers, and return the exam as JSON."""
    chosen = [f"--cell={cell}" for cell in cells]
    servers = ["--ps=1"] if path.stem == "served" else []
    command = ["exam", "--json", "--seed=7", "--workers=2", *servers, *options, *chosen, str(path), *args]
    done = subprocess.run(
        [sys.executable, "-m", "clusterkit", *command],
        env=clean_environment(home),
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == report["exit_code"]
    return report


def grade_of(report: dict[str, Any], cell: str) -> str:
    """Whether a cell passed, failed or was not reached."""
    (found,) = (one for one in report["cells"] if one["cell"] == cell)
    return str(found["grade"])


def findings(report: dict[str, Any], cell: str) -> list[dict[str, str]]:
    """What was found in a cell."""
    (found,) = (one for one in report["cells"] if one["cell"] == cell)
    assert isinstance(found["findings"], list)
    return found["findings"]


def test_each_flaw_is_one_of_its_program() -> None:
    """And each that a program has is in the table."""
    named = {(path.stem, name) for path in FLAWED.glob("*.py") for name in names_in(path)}
    assert named == {(flaw.program, flaw.name) for flaw in FLAWS}
    assert set(RIGHT) == {path.stem for path in FLAWED.glob("*.py")}
    assert len(FLAWS) >= 30


def names_in(path: Path) -> set[str]:
    """The flaws that a program compares its argument with."""
    text = path.read_text()
    groups = re.findall(r'FLAW (?:==|!=|in|not in) (\(?"[^:\n]*?"\)?)(?=[\s:),\]}]|$)', text, re.M)
    return {name for group in groups for name in re.findall(r'"(\w+)"', group)}


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_each_remedy_is_an_edit_of_its_program(flaw: Flaw) -> None:
    """Each text that it replaces is there, and the result is a program."""
    text = (FLAWED / f"{flaw.program}.py").read_text()
    for before, after in flaw.mend:
        assert before in text
        text = text.replace(before, after)
    assert mended(flaw, (FLAWED / f"{flaw.program}.py").read_text()) == text
    compile(text, flaw.name, "exec")


def find(flaw: Flaw, home: Path) -> None:
    """Assert that the exam finds a flaw, and finds nothing any more in the program to which its remedy is applied."""
    program = FLAWED / f"{flaw.program}.py"
    report = examined(home, program, flaw.name, cells=(flaw.cell,))
    found = findings(report, flaw.cell)
    assert [one["code"] for one in found][:1] == [flaw.code], json.dumps(report, indent=1)
    assert report["exit_code"] == 1
    assert flaw.remedy in found[0]["remedy"], found[0]
    better = home / program.name
    better.write_text(mended(flaw, program.read_text()))
    report = examined(home, better, flaw.name, cells=(flaw.cell,))
    assert grade_of(report, flaw.cell) == "passed", json.dumps(report, indent=1)
    assert report["exit_code"] == 0


@pytest.mark.tensorflow
def test_a_flaw_is_found(tmp_path: Path) -> None:
    """One that is drawn by chance, and it passes once it is mended."""
    seed = random.randrange(2**32)
    flaw = random.Random(seed).choice(FLAWS)
    print("seed", seed, flaw)
    find(flaw, tmp_path)


@pytest.mark.tensorflow
@pytest.mark.table
@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_each_flaw_is_found(flaw: Flaw, tmp_path: Path) -> None:
    """By the right chapter, and by its name; what the exam says about it mends it."""
    find(flaw, tmp_path)


@pytest.mark.tensorflow
@pytest.mark.long
@pytest.mark.parametrize("program", RIGHT)
def test_nothing_is_found_without_a_flaw(program: str, tmp_path: Path) -> None:
    """The same programs without an argument pass."""
    report = examined(tmp_path, FLAWED / f"{program}.py", cells=RIGHT[program])
    assert report["exit_code"] == 0, json.dumps(report, indent=1)
    assert {one["grade"] for one in report["cells"]} == {"passed"}


@pytest.mark.tensorflow
@pytest.mark.long
def test_a_table_in_the_working_directory_is_that_of_one_run(tmp_path: Path) -> None:
    """Runs side by side would mix their rows in it, so that twice the same row says nothing: they come one by one."""
    text = (FLAWED / "loop.py").read_text()
    before = 'log = os.path.join(training.checkpoint_dir(), os.pardir, "log.csv")'
    assert before in text
    program = tmp_path / "loop.py"
    program.write_text(text.replace(before, f'log = "{tmp_path}/log.csv"'))
    report = examined(tmp_path, program, "rows_logged_twice", options=("--parallel=2",), cells=(RESUME,))
    assert [one["code"] for one in findings(report, RESUME)] == ["rows-twice"], json.dumps(report, indent=1)
