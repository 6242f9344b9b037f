"""A program's own TF_CONFIG is ignored on request, however it is set; nothing else changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import tf_config
from tests.support import Up, load

WAYS: dict[str, Callable[[Any], object]] = {
    "item": lambda environ: environ.__setitem__("TF_CONFIG", "own"),
    "update": lambda environ: environ.update({"TF_CONFIG": "own"}),
    "update by name": lambda environ: environ.update(TF_CONFIG="own"),
    "or": lambda environ: environ.__ior__({"TF_CONFIG": "own"}),
    "del": lambda environ: environ.__delitem__("TF_CONFIG"),
    "pop": lambda environ: environ.pop("TF_CONFIG", None),
}


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A patched environment like `os.environ`, with clusterkit's TF_CONFIG."""

    class Environ(dict[str, str]):
        """Like os.environ: every method writes through these two."""

        update, pop = os._Environ.update, os._Environ.pop  # type: ignore[assignment]
        __ior__ = os._Environ.__ior__  # type: ignore[assignment]

    made = Environ(TF_CONFIG="clusterkit's", OTHER="1")
    monkeypatch.setattr(tf_config.warn_once, "__defaults__", ([],))
    tf_config.keep(SimpleNamespace(environ=made), load)
    return made


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_clusterkits_tf_config_stays(environ: Any, way: Callable[[Any], object]) -> None:
    """However the program changes it."""
    way(environ)
    assert environ["TF_CONFIG"] == "clusterkit's"


def test_the_line_that_set_it_is_named_once(environ: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """And not if the program sets the same value."""
    environ["TF_CONFIG"] = "clusterkit's"
    assert capsys.readouterr().err == ""
    environ.update(TF_CONFIG="own")
    environ["TF_CONFIG"] = "another"
    said = capsys.readouterr().err
    assert said.startswith("clusterkit: test_tf_config.py, line ")
    assert said.endswith(": the program's own TF_CONFIG is ignored (--tf-config ours).\n")
    assert said.count("\n") == 1


def test_nothing_else_changes(environ: Any) -> None:
    """Other variables, and the name of the class."""
    environ["OTHER"] = "2"
    environ.pop("OTHER")
    assert "OTHER" not in environ
    assert type(environ).__name__ == "Environ"


def test_a_child_process_gets_clusterkits_tf_config() -> None:
    """The environment of the operating system does not change either."""
    code = (
        "import os; from tests.support import load; load('task/patches/tf_config').keep(os, load)\n"
        "os.environ['TF_CONFIG'] = 'own'; os.environ['OTHER'] = '2'; print(repr(os.environ)[:8])\n"
        "os.system('echo $TF_CONFIG $OTHER')"
    )
    env = {**os.environ, "TF_CONFIG": "ours", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=30)
    assert done.stdout == "environ(\nours 2\n"


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("start", ["cold", "warm"])
def test_a_tutorials_program_runs_as_a_cluster(up: Callable[..., Up], tmp_path: Path, start: str) -> None:
    """It sets the same TF_CONFIG in each task, and each keeps its own."""
    program = tmp_path / "tutorial.py"
    program.write_text(
        "import json, os\n"
        "config = {'cluster': {'worker': ['localhost:1', 'localhost:2']}, 'task': {'type': 'worker', 'index': 0}}\n"
        "os.environ['TF_CONFIG'] = json.dumps(config)\n"
        "print('I am', json.loads(os.environ['TF_CONFIG'])['task']['index'])\n"
    )
    run = up("--workers", "2", "--start", start, "--tf-config", "ours", program)
    assert run.wait(60) == 0, run.output
    for index in range(2):
        said = run.log(f"worker:{index}").decode().splitlines()
        assert f"I am {index}" in said
        assert any("tutorial.py, line 3: the program's own TF_CONFIG is ignored" in line for line in said)
    assert json.loads((run.run / "job.json").read_text())["job"]["tf_config"] == "ours"
