"""Virtual environments, one for each TensorFlow and Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from benchmarks.matrix.versions import Combination, Version
from tests.support import ROOT

PLACE = ROOT / "build/matrix"
EXTRAS = "keras2,tensorboard,workloads"
PATIENCE = 1200.0  # seconds that an installation may take
ASK_VERSION = "import sys; print(*sys.version_info[:2])"
ASK_PACKAGES = """
import importlib.metadata as m, json
wanted = [r for r in m.requires("tensorflow") if r.split(">")[0].split("<")[0].split("=")[0].strip() == "keras"]
print(json.dumps([wanted, {n: m.version(n) for n in ("tensorflow", "keras", "tf_keras", "numpy", "protobuf")}]))
"""


def find_pythons(named: Iterable[str]) -> dict[Version, str]:
    """The interpreters that were named, or those in PATH and pyenv's, by their versions."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    usual = [f"python3.{minor}" for minor in range(11, 15)] + sorted(map(str, root.glob("versions/3.*/bin/python")))
    found: dict[Version, str] = {}
    for python in list(named) or usual:
        if shutil.which(python) is None:
            continue
        asked = subprocess.run([python, "-c", ASK_VERSION], capture_output=True, text=True)
        if asked.returncode == 0:  # pyenv has a command for each Python, also where it starts none
            major, minor = map(int, asked.stdout.split())
            found.setdefault((major, minor), python)
    return found


def python_of(one: Combination) -> Path:
    """The interpreter of its environment, whether it is there or not."""
    return PLACE / one.environment / "bin/python"


def install(one: Combination, base: str) -> dict[str, str]:
    """Make its environment, unless it is there, with the right Keras in it; return the versions of its packages."""
    python = python_of(one)
    ready = PLACE / one.environment / "ready"
    if not ready.exists():
        _run(base, "-m", "venv", "--clear", str(ready.parent))
        _pip(python, "--editable", f"{ROOT}[{EXTRAS}]", *one.requirements)
        ready.touch()
    wanted, packages = _packages(python)
    oldest = oldest_version(wanted)
    if one.oldest_keras != (packages["keras"] == oldest):
        _pip(python, *([f"keras=={oldest}"] if one.oldest_keras else ["--upgrade", "keras"]))
    return _packages(python)[1]


def remove(one: Combination) -> None:
    """Delete its environment, which takes 2 GB."""
    shutil.rmtree(PLACE / one.environment, ignore_errors=True)


def oldest_version(requirements: list[str]) -> str:
    """The least version in `keras>=3.0.0`."""
    named: list[str] = re.findall(r">=\s*([\d.]+)", " ".join(requirements))
    return max(named, key=lambda text: [*map(int, text.split("."))])


def _packages(python: Path) -> tuple[list[str], dict[str, str]]:
    asked: tuple[list[str], dict[str, str]] = json.loads(_run(str(python), "-c", ASK_PACKAGES))
    return asked


def _pip(python: Path, *words: str) -> None:
    _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
    if done.returncode:
        raise OSError(f"{' '.join(words)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout
