"""`clusterkit up train.py --workers 2`: the program gets the option, and a hint says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import Clusterkit

pytestmark = [pytest.mark.process, pytest.mark.slow]

PARSES = "import argparse\nparser = argparse.ArgumentParser()\n{}\nprint(parser.parse_args())\n"


def test_a_program_that_does_not_know_the_option(ck: Clusterkit, tmp_path: Path) -> None:
    """A line before the start, and an explanation of the failure."""
    program = tmp_path / "train.py"
    program.write_text(PARSES.format(""))
    out = ck("up", "--restart", "never", program, "--workers", "2", code=1).out
    assert out.splitlines()[0].endswith(
        f"Write options of `up` before the program: clusterkit up --workers … {program}"
    )
    assert "Why: --workers is an option of `clusterkit up`" in out


def test_a_detached_run(ck: Clusterkit, tmp_path: Path) -> None:
    """It is said where the command was typed."""
    program = tmp_path / "train.py"
    program.write_text("import time\ntime.sleep(60)\n")
    assert "before the program: clusterkit up" in ck("up", "-d", program, "--workers", "2").err


def test_a_program_that_knows_it(ck: Clusterkit, tmp_path: Path) -> None:
    """There is nothing to say."""
    program = tmp_path / "train.py"
    program.write_text(PARSES.format("parser.add_argument('--workers')"))
    out = ck("up", program, "--workers", "2").out
    assert "Namespace(workers='2')" in out
    assert "before the program" not in out
