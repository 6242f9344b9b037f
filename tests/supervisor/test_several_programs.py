"""A script that trains with several programs: their steps add up, one after the other and at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.commands import Clusterkit, journal

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]
PYTHON = sys.executable
PROGRAM = """\
import sys, time
from clusterkit import training

for step in range(1, int(sys.argv[1]) + 1):
    time.sleep(float(sys.argv[2]))
    training.report(step)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the program is, and the script."""
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def script(place: Path, text: str) -> Path:
    """A script of the job."""
    path = place / "train.sh"
    path.write_text(f"#!/bin/sh\nset -e\ncd {place}\n{text}\n")
    path.chmod(0o755)
    return path


def last_step(ck: Clusterkit) -> int:
    """Of the only run."""
    [run] = (ck.home / "runs").iterdir()
    return int(journal(run, "Progressed")[-1]["step"])


def test_one_after_the_other(ck: Clusterkit, place: Path) -> None:
    """Also twice the same one."""
    ck("up", script(place, "\n".join(f"{PYTHON} train.py {steps} 0.01" for steps in (5, 5, 7))))
    assert last_step(ck) == 17


def test_at_once(ck: Clusterkit, place: Path) -> None:
    """The steps of the older one count as progress while the newer one does something else."""
    text = f"{PYTHON} train.py 25 0.2 &\nsleep 0.5\n{PYTHON} train.py 3 0.01\nwait"
    done = ck("up", "--stall-timeout", "2", "--stall-warning", "0", script(place, text), deadline=60)
    assert "No task has reported progress" not in done.out + done.err
    assert last_step(ck) == 28
