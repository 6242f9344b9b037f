"""What is wrong with the choice of a Keras is said before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusterkit.job.plan import DESCENDANTS
from tests.environment import clean_environment

pytestmark = [pytest.mark.process, pytest.mark.timeout(60), pytest.mark.slow]


def config(home: Path, *args: str | Path) -> subprocess.CompletedProcess[str]:
    """Show what would be started."""
    return call(home, "config", "--tasks", *args)


def call(home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "clusterkit", *map(str, words)],
        capture_output=True,
        text=True,
        env=clean_environment(home),
        cwd=home.parent,
    )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program of which nothing is wrong."""
    file = tmp_path / "train.py"
    file.write_text("print('trained')\n")
    return file


def test_keras_2_needs_tf_keras_in_the_tasks_interpreter(home: Path, program: Path, tmp_path: Path) -> None:
    """An interpreter that finds no installed packages; what to install is said."""
    bare = tmp_path / "bin/python"
    bare.parent.mkdir()
    bare.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I -S \"$@\"\n")
    bare.chmod(0o755)
    ran = call(home, "up", "--keras", "2", "--python", bare, program)
    assert ran.returncode == 2
    needs = f"--keras 2 needs tf_keras, which the interpreter {bare} lacks. Install it in TensorFlow's version"
    assert needs in ran.stderr
    assert "for example: pip install 'tf_keras==2.21.*'\n" in ran.stderr
    assert config(home, "--keras", "3", "--python", bare, program).returncode == 0
    assert config(home, "--keras", "2", "--python", bare, program).returncode == 0, "it is not started, so who knows"
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (tmp_path / "lib/python3.12/site-packages").mkdir(parents=True)
    ran = config(home, "--keras", "2", "--python", bare, program)
    assert ran.returncode == 2
    assert needs in ran.stderr, "an environment's packages are seen from outside"


def test_keras_is_chosen_once(home: Path, program: Path) -> None:
    """By the option or by TensorFlow's variable."""
    ran = config(home, "--keras", "3", "--env", "TF_USE_LEGACY_KERAS=1", program)
    assert ran.returncode == 2
    assert "env: TF_USE_LEGACY_KERAS is what --keras 3 sets. Give one of them." in ran.stderr


def test_what_is_patched_is_shown_with_the_rest(home: Path, program: Path) -> None:
    """`config` shows each task's environment."""
    usual = (
        "keras-fit,order,callbacks-apart,leader-first,sigterm,sigterm-kept,steps,stages,distribution,breakpoints,"
        "tracebacks"
    )
    assert f"CLUSTERKIT_PATCHES={usual}\n" in config(home, "--workers", "2", program).stdout
    bare = "CLUSTERKIT_PATCHES=leader-first,sigterm,steps,stages,distribution,breakpoints,tracebacks\n"
    assert bare in config(home, "--workers", "2", "--no-patches", program).stdout
    assert "TF_USE_LEGACY_KERAS=0\n" in config(home, "--keras", "3", program).stdout
    assert "PYTHONPATH=" not in config(home, "--workers", "2", program).stdout
    assert f"# PYTHONPATH={DESCENDANTS}" in config(home, "--workers", "2", "sh").stdout
