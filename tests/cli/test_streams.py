"""The standard streams: commands work where the caller has closed them, and say in a sentence that a disk is full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import clean_environment

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

FULL = "clusterkit: The output can't be written: No space left on device.\n"


def call(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell, in which `clusterkit` is this one."""
    shell = f'clusterkit() {{ "{sys.executable}" -m clusterkit "$@"; }}\n{line}'
    return subprocess.run(
        ["sh", "-c", shell],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        cwd=home.parent,
        env=clean_environment(home),
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ls >&-", 0),
        ("ls <&- >&- 2>&-", 0),
        ("completion bash >&-", 0),
        ("doctor --json >&-", 0),
        ("up /bin/true >&-", 0),
        ("up /bin/true 2>&-", 0),
        ("up -q /bin/false --restart never <&- >&- 2>&-", 1),
        ("up gone.py >&- 2>&-", 2),
        ("up gone.py 2>/dev/full", 2),
        ("up --wrokers 2>/dev/full", 2),
        ("up /bin/true >/dev/full", 0),
    ],
)
def test_a_stream_that_takes_nothing_changes_nothing(line: str, code: int, home: Path) -> None:
    """The exit code is what it is otherwise, and nothing is said about the stream."""
    ran = call(f"clusterkit {line}", home)
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("words", ["--help", "--version", "ls", "up --help", "completion bash", "config /bin/true"])
def test_an_output_that_can_not_be_written_is_one_sentence(words: str, home: Path) -> None:
    """And it is the last one: nothing fails once more when the interpreter exits."""
    ran = call(f"clusterkit {words} >/dev/full", home)
    assert (ran.returncode, ran.stderr) == (1, FULL)


def test_no_file_of_a_run_is_a_standard_stream(home: Path) -> None:
    """The descriptors that are free without them are taken by /dev/null."""
    program = "import os; print(*(os.readlink(f'/proc/{os.getppid()}/fd/{n}') for n in range(3)))"
    (home.parent / "says.py").write_text(program)
    assert call("clusterkit up --run-id one --start cold says.py <&- >&- 2>&-", home).returncode == 0
    assert (home / "runs/one/tasks/worker:0/attempt-1.log").read_text() == "/dev/null /dev/null /dev/null\n"
