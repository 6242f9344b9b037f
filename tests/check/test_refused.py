"""A program with a line at which every run fails is not started: every door says why, and nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import clusterkit
from clusterkit.job.options import GivenOptions
from clusterkit.supervisor.prepare import prepare
from clusterkit.words.errors import BadJob
from tests.commands import Clusterkit

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]
MISSPELLED = "print('begins', flush=True)\nprnt('ends')\n"
WHY = ":2: The name prnt is not defined anywhere, so every run fails at this line. Did you mean print?"
ANYWAY = "With --no-check, it is started anyway."


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program with a misspelled name."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(MISSPELLED)
    return path


@pytest.mark.parametrize("command", [("up",), ("up", "-d"), ("exam",), ("chaos", "--runs", "1"), ("config",)])
def test_no_command_starts_it(ck: Clusterkit, program: Path, command: tuple[str, ...]) -> None:
    """Exit code 2, the line, and the way around; there is no run."""
    answer = ck(*command, "--workers", "2", program, code=2)
    assert f"{program}{WHY}" in answer.err
    assert ANYWAY in answer.err
    assert "begins" not in answer.out
    assert not list((ck.home / "runs").glob("*/job.json"))


def test_all_failures_are_told_at_once_in_the_order_of_the_lines(ck: Clusterkit, program: Path) -> None:
    """With those of the modules that the program imports."""
    program.write_text("import nothing_of_this_name\nimport helper\nprnt(1)\n")
    (program.parent / "helper.py").write_text("x = 1\nlenght(x)\n")
    told = [line for line in ck("up", program, code=2).err.splitlines() if "every run fails" in line]
    assert [line.split(": ")[1].rpartition("/")[2] for line in told] == ["helper.py:2", "train.py:1", "train.py:3"]


def test_it_is_started_anyway(ck: Clusterkit, program: Path) -> None:
    """With --no-check: it runs until it fails."""
    answer = ck("up", "--no-check", "--restart", "never", "--start", "cold", program, code=1)
    assert "begins" in answer.out + answer.err
    assert "NameError" in answer.out + answer.err


def test_a_job_file_can_turn_the_check_off(ck: Clusterkit, program: Path) -> None:
    """As for every option."""
    file = program.with_name("job.toml")
    file.write_text(f'program = "{program}"\ncheck = false\nrestart = "never"\nstart = "cold"\n')
    assert "begins" in (answer := ck("up", "-f", file, code=1)).out + answer.err


def test_python_is_told_as_well(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BadJob, with each problem."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path / "home"))
    with pytest.raises(BadJob) as refused:
        clusterkit.Cluster(str(program), workers=2)
    assert refused.value.problems == (f"train.py{WHY}", ANYWAY)


@pytest.mark.parametrize(
    "text",
    [
        "if chance:\n    prnt(1)\n",  # perhaps no run comes here
        "try:\n    prnt(1)\nexcept NameError:\n    pass\n",
        "def f():\n    prnt(1)\n",
        "exit(0)\nprnt(1)\n",
    ],
)
def test_what_may_succeed_is_started(program: Path, text: str) -> None:
    """A warning of `check` stops nobody."""
    program.write_text(f"import random\nchance = random.random() < 2\n{text}")
    prepare(GivenOptions({"program": str(program)}))


def test_a_check_that_fails_stops_nobody(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a file that can't be read, or one that is too large to be checked at the start."""
    program.write_text(MISSPELLED + "x = 1\n" * 50_000)
    prepare(GivenOptions({"program": str(program)}))
    program.write_text(MISSPELLED)
    monkeypatch.setattr("clusterkit.check.reading.follow", lambda *args, **more: 1 / 0)
    prepare(GivenOptions({"program": str(program)}))
    if os.getuid() != 0:
        program.chmod(0)
        prepare(GivenOptions({"program": str(program)}))
