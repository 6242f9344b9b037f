"""The command `exam` with a program without TensorFlow: exit codes, what is printed, and Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Command, wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]
ROLES, PHASED = str(CHILDREN / "roles.py"), str(CHILDREN / "phased.py")
POWER, EXPORTING = "survival/power-failure/saving-rename", "survival/kill/worker:0/exporting"
Start = Callable[..., Command]


def test_a_cell_that_was_asked_for_and_not_reached_is_no_success(clusterkit: Start, tmp_path: Path) -> None:
    """Exit code 3, with the reason; and no check mark for chapters that were not looked at."""
    page = tmp_path / "exam.html"
    cells = [f"--cell={POWER}", f"--cell={EXPORTING}"]
    command = clusterkit("exam", "--env=MODE=fast", "--seed=7", *cells, "-o", str(page), PHASED, "8")
    assert command.wait(120) == 3, command.output
    assert re.search(f"✔ (survival/)?{POWER.removeprefix('survival/')}", command.output)
    assert f"{EXPORTING} was not reached: worker:0 never reaches the phase exporting." in command.output
    verdict = next(line for line in command.output.splitlines() if "cells passed" in line)
    assert verdict.startswith("– 1 of 3 cells passed; 2 not reached. Only 2 cells had to be examined.")
    text = page.read_text()
    assert f"clusterkit exam --cell={POWER} --cell={EXPORTING} --env=MODE=fast" in text
    assert "--run: " in text  # the dashboard's colors


def test_a_cell_that_passes(clusterkit: Start) -> None:
    """Exit code 0, as JSON; the command in it examines the same cell again."""
    command = clusterkit("exam", f"--cell={POWER}", "--json", PHASED, "8")
    assert command.wait(120) == 0, command.output
    told = json.loads(command.output[command.output.index("\n{\n") :])
    assert (told["exit_code"], told["chapters_required"]) == (0, ["survival"])
    repeat, power = told["cells"]
    assert (repeat["cell"], power["cell"]) == ("repeat/unbroken", POWER)
    assert power["grade"] == "passed"
    assert repeat["duration_seconds"] > 0
    assert f"--cell={POWER}" in power["command"]


def test_the_faults_of_a_job_file_are_left_out(clusterkit: Start, tmp_path: Path) -> None:
    """The exam injects its own. With the job's, this one could not succeed."""
    job = tmp_path / "job.toml"
    job.write_text(f'program = "{PHASED}"\nargs = ["8"]\nfault = ["kill any @ step=2"]\nrestart = "never"\n')
    command = clusterkit("exam", f"--cell={POWER}", "-f", str(job))
    assert command.wait(120) == 0, command.output


def test_an_interrupted_exam_has_no_check_mark(clusterkit: Start, home: Path) -> None:
    """Ctrl-C ends its run and says that nothing is known."""
    command = clusterkit("exam", "--workers=2", ROLES, "--steps", "100000")
    runs = home / "runs"
    wait_until(lambda: runs.is_dir() and [*runs.glob("*/journal.jsonl")], 60, lambda: command.output)
    command.signal(signal.SIGINT)
    assert command.wait(60) == 130, command.output
    assert "– Interrupted: 0 of 0 cells passed. Nothing of repeat, equality, resume and survival was" in command.output
    assert "✔" not in command.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--chapter", "resum"), "'resum' is not a chapter. Did you mean resume?"),
        (("--require", "all"), "'all' is not a chapter. The chapters are repeat, equality, resume, survival."),
        (("--cell", "resume"), "'resume' is not a cell."),
    ],
)
def test_unknown_names_are_one_clear_error(clusterkit: Start, words: tuple[str, str], said: str) -> None:
    """With exit code 2, before anything runs."""
    command = clusterkit("exam", *words, ROLES)
    assert command.wait(60) == 2
    assert said in " ".join(command.output.split())
