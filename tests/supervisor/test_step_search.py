"""`--progress-regex`: an expression that takes forever holds up neither the output nor the end of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import Clusterkit

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]
FOREVER = r"(\w+\s?)*step (\d+)$"
PROGRAM = """\
import sys, time

print("the quick brown fox jumps over the lazy dog and then over the fence of the neighbour too", flush=True)
time.sleep(float(sys.argv[1]))
print("step 17", flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """One whose first line is ordinary."""
    path = tmp_path / "talks.py"
    path.write_text(PROGRAM)
    return path


def test_a_program_ends_as_ever(ck: Clusterkit, program: Path) -> None:
    """Its whole output is shown, its end is seen, and the expression is named."""
    done = ck("up", "--progress-regex", FOREVER, program, "0.1")
    assert "the quick brown fox" in done.out
    assert "step 17" in done.out
    assert f"--progress-regex '{FOREVER}' takes too long" in done.err + done.out


def test_the_timeout_is_kept(ck: Clusterkit, program: Path) -> None:
    """Although the search would have taken for years; nobody calls a program stalled whose steps are not seen."""
    limits = ("--timeout", "4", "--stall-timeout", "1.5", "--stall-warning", "1")
    done = ck("up", "--progress-regex", FOREVER, *limits, program, "60", code=124)
    assert "the quick brown fox" in done.out
    assert "No task has reported" not in done.err + done.out
