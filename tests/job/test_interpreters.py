"""Interpreters and packages that are only looked for: nothing is started, and only what is certain is told."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.job import interpreters
from clusterkit.job.preflight import interpreter_problems
from clusterkit.words.job import Debugging, Setup
from clusterkit.words.model import TaskType
from tests.histories import job


def environment(place: Path, settings: str = "home = /usr/bin\ninclude-system-site-packages = false\n") -> Path:
    """A virtual environment; its interpreter, which ends with an error where it is started."""
    (place / "bin").mkdir(parents=True)
    (place / "lib/python3.12/site-packages").mkdir(parents=True)
    (place / "pyvenv.cfg").write_text(settings)
    python = place / "bin/python"
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    return python


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts a process fails."""

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a process is started")

    monkeypatch.setattr(subprocess, "Popen", refuse)


def test_where_a_package_is_found(tmp_path: Path) -> None:
    """In the environment, through a .pth file, and in PYTHONPATH."""
    python = environment(tmp_path / "venv")
    site = tmp_path / "venv/lib/python3.12/site-packages"
    assert not interpreters.may_import("tf_keras", str(python), {})
    (site / "tf_keras-2.21.dist-info").mkdir()
    assert interpreters.may_import("tf_keras", str(python), {})
    (tmp_path / "more/debugpy").mkdir(parents=True)
    assert not interpreters.may_import("debugpy", str(python), {})
    assert interpreters.may_import("debugpy", str(python), {"PYTHONPATH": f":{tmp_path / 'more'}"})
    (site / "more.pth").write_text(f"import os; os._exit(1)\n# {tmp_path}\n{tmp_path / 'more'}\n")
    assert interpreters.may_import("debugpy", str(python), {})


@pytest.mark.parametrize("settings", ["include-system-site-packages = true\n", "include-system-site-packages=TRUE\n"])
def test_what_an_environment_shares_is_unknown(tmp_path: Path, settings: str) -> None:
    """So nothing is said."""
    assert interpreters.may_import("tf_keras", str(environment(tmp_path / "venv", settings)), {})


def test_an_interpreter_outside_of_an_environment_is_unknown(tmp_path: Path) -> None:
    """As one of the system."""
    python = environment(tmp_path / "usr")
    (tmp_path / "usr/pyvenv.cfg").unlink()
    assert interpreters.may_import("tf_keras", str(python), {})


def test_clusterkits_own_interpreter(tmp_path: Path) -> None:
    """Its packages are known."""
    assert interpreters.may_import("click", None, {})
    assert not interpreters.may_import("no_such_package", None, {"PYTHONPATH": str(tmp_path)})
    (tmp_path / "no_such_package.py").touch()
    assert interpreters.may_import("no_such_package", None, {"PYTHONPATH": str(tmp_path)})


@pytest.mark.timeout(20)
def test_whatever_lies_in_an_environment(tmp_path: Path) -> None:
    """Named pipes hold nobody up, and any bytes are an answer."""
    python = environment(tmp_path / "venv")
    site = tmp_path / "venv/lib/python3.12/site-packages"
    os.mkfifo(site / "a.pth")
    assert not interpreters.may_import("debugpy", str(python), {})
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(200):
        (site / "b.pth").write_bytes(chance.randbytes(chance.randrange(200)) + b"\n" + chance.randbytes(20))
        (tmp_path / "venv/pyvenv.cfg").write_bytes(chance.randbytes(chance.randrange(100)))
        assert interpreters.may_import("debugpy", str(python), {"PYTHONPATH": "\x01:/dev/null"}) in (True, False)
    (tmp_path / "venv/pyvenv.cfg").unlink()
    os.mkfifo(tmp_path / "venv/pyvenv.cfg")
    assert interpreters.may_import("debugpy", str(python), {})


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ("/no/python", "No such file or directory"),
        ("no-such-python", "No such file or directory"),
        ("a\0b", "a name can't contain a NUL character"),
        (sys.executable, None),
        ("sh", None),
    ],
)
def test_why_an_interpreter_is_not_found(python: str, why: str | None) -> None:
    """In the words that a start would have."""
    assert interpreters.why_not_found(python) == why


def test_a_file_that_can_not_be_executed(tmp_path: Path) -> None:
    """It is there, but no program."""
    (tmp_path / "python").touch()
    assert interpreters.why_not_found(str(tmp_path / "python")) == "Permission denied"


def test_a_job_is_checked_without_a_start(tmp_path: Path) -> None:
    """What is missing is told all the same."""
    python = str(environment(tmp_path / "venv"))
    setup = Setup(python=python, env={"PYTHONPATH": str(tmp_path)})
    setups = {TaskType.PS: Setup(python="/no/python")}
    one = replace(job(2, ps=1), setup=setup, setups=setups, debug=Debugging(editors=("worker:0",)))
    problems = interpreter_problems(one, starts=False)
    assert any("/no/python does not start: No such file or directory" in problem for problem in problems)
    assert any(f"--debugpy needs debugpy, which the interpreter {python} lacks" in problem for problem in problems)
