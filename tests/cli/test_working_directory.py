"""The working directory: whatever modules and interpreters lie in it, clusterkit's own processes run none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import clean_environment
from tests.support import CHILDREN

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(180)]
# Modules that clusterkit imports, or that Python imports for `-c` and `-m`; `tf_keras` and `debugpy` are looked for.
MODULES = (
    *("clusterkit", "typing", "importlib", "runpy", "sitecustomize", "usercustomize", "json", "socket", "platform"),
    *("click", "tf_keras", "debugpy", "tensorflow", "psutil", "cryptography"),
)
LEAVES_A_MARK = """
import os
os.close(os.open({mark!r} + "-" + {name!r} + "-" + str(os.getpid()), os.O_CREAT | os.O_WRONLY))
"""
INTERPRETER = """#!/bin/sh
echo "$@" > {mark}-interpreter-$$
exec {python} "$@"
"""


class Trap:
    """A directory that is full of other people's modules. Whichever is run leaves a mark."""

    def __init__(self, place: Path, home: Path) -> None:
        self.place, self._home = place / "trap", home
        self._mark = place / "marks" / "mark"
        self._mark.parent.mkdir()
        self.place.mkdir()
        for name in MODULES:
            (self.place / f"{name}.py").write_text(LEAVES_A_MARK.format(mark=str(self._mark), name=name))
        python = self.place / "python"
        python.write_text(INTERPRETER.format(mark=self._mark, python=sys.executable))
        python.chmod(0o755)
        self.program = place / "program"
        self.program.mkdir()
        (self.program / "plain.py").write_bytes((CHILDREN / "plain.py").read_bytes())

    @property
    def marks(self) -> list[str]:
        """What was run."""
        return sorted(path.name for path in self._mark.parent.iterdir())

    def __call__(self, *words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command here, as the console script does: without `python -m`, which would look here itself."""
        script = "import sys; from clusterkit.__main__ import main; main()"
        return subprocess.run(
            [sys.executable, "-P", "-c", script, *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.place,
            env={**clean_environment(self._home), **env},
        )


@pytest.fixture
def trap(tmp_path: Path, home: Path) -> Trap:
    """A directory that somebody else has filled."""
    return Trap(tmp_path, home)


def test_the_trap_is_one(trap: Trap) -> None:
    """An interpreter that looks here runs what it finds."""
    code = "import typing, clusterkit"
    subprocess.run([sys.executable, "-c", code], cwd=trap.place, check=False, capture_output=True, timeout=60)
    assert trap.marks


@pytest.mark.parametrize(
    "words",
    [
        ("up", "PROGRAM"),
        ("up", "--hosts", "2", "--workers", "2", "PROGRAM"),
        ("up", "--network", "virtual", "--workers", "2", "PROGRAM"),
        ("up", "--keras", "2", "--python", sys.executable, "PROGRAM"),
        ("up", "--debugpy", "worker:0", "--python", sys.executable, "PROGRAM"),
        ("up", "-d", "PROGRAM"),
        ("doctor",),
        ("ls",),
    ],
    ids=" ".join,
)
def test_nothing_that_lies_here_is_run(trap: Trap, words: tuple[str, ...]) -> None:
    """The program lies elsewhere, so that tasks do not look here either."""
    program = trap.program / "plain.py"
    done = trap(*(program if word == "PROGRAM" else word for word in words))
    assert "Traceback" not in done.stderr, done.stderr
    assert trap.marks == [], (done.stdout, done.stderr)
    if "-d" in words:
        assert trap("wait").returncode == 0


JOB = """program = "train.py"
python = "./python"
workers = 2
keras = 2
on-end = "touch x https://user:hush@host"
[env]
PYTHONPATH = "."
PASSWORD = "hush"
"""


@pytest.mark.parametrize("command", ["check", "config", "config --tasks", "config --json"])
def test_check_and_config_start_nothing(trap: Trap, command: str) -> None:
    """Although a job file lies here, which names an interpreter, and where that looks for modules."""
    (trap.place / "job.toml").write_text(JOB)
    (trap.place / "train.py").write_text("import tensorflow\n")
    done = trap(*command.split())
    assert trap.marks == [], (done.stdout, done.stderr)
    assert done.returncode in (0, 1, 2)
    assert "No program is given, so job.toml is read" in done.stderr


def test_a_job_file_that_is_found_is_told(trap: Trap) -> None:
    """What it sets, and which code that is; no secrets."""
    (trap.place / "job.toml").write_text(JOB)
    (trap.place / "train.py").write_text("")
    done = trap("config")
    told = next(line for line in done.stderr.splitlines() if "job.toml sets" in line)
    expected = (
        "clusterkit: job.toml sets program = train.py; python = ./python; workers = 2; keras = 2; "
        "on-end = touch x https://***@host; env PYTHONPATH, PASSWORD."
    )
    assert told == expected


@pytest.mark.parametrize("text", ["", "program = 7", "[[[", "\0", "task = 3", "[task.worker]\npython = 1"])
def test_a_damaged_job_file_is_told_by_the_command(trap: Trap, text: str) -> None:
    """As ever."""
    (trap.place / "job.toml").write_text(text)
    done = trap("config")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_no_tool_of_this_directory(trap: Trap) -> None:
    """Although PATH begins with it. Namespaces are not tried."""
    tool = trap.place / "nvidia-smi"
    tool.write_text(INTERPRETER.format(mark=trap.place.parent / "marks/mark", python="true"))
    tool.chmod(0o755)
    program = trap.program / "plain.py"
    path = {"PATH": ".::/usr/bin:/bin"}
    assert trap("config", "--workers", "2", "--network", "virtual", program, **path).returncode == 0
    assert trap("config", "--workers", "2", "--gpus-per-task", "1", program, **path).returncode == 2
    assert trap("check", "--workers", "2", program, **path).returncode == 0
    assert trap.marks == []
