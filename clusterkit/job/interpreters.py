"""Looks for interpreters and for their packages without starting them, as `check` and `config` do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from clusterkit.system.files import read_regular

CONFIGURED = "pyvenv.cfg"  # the file that makes a directory a virtual environment
LARGEST = 1 << 20  # bytes; larger files are not read
MOST_LINES = 1000  # of a .pth file; the rest is ignored


def why_not_found(python: str) -> str | None:
    """Return why a command can't be started, as a clause; None if it is an executable file."""
    if "\0" in python:
        return "a name can't contain a NUL character"
    if shutil.which(python) is not None:
        return None
    if "/" not in python or not os.path.exists(python):
        return "No such file or directory"
    return "Permission denied"


def may_import(package: str, python: str | None, env: Mapping[str, str]) -> bool:
    """Return whether an interpreter may find a package; None is clusterkit's own interpreter.

    Only the answer False is certain. The packages of an interpreter that is in no virtual environment are not known.
    """
    places = [Path(path) for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    if python is None:
        return _is_in(package, places) or find_spec(package) is not None
    own = _directories(python)
    return own is None or _is_in(package, [*places, *own])


def _is_in(package: str, places: Sequence[Path]) -> bool:
    """Return whether one of the directories has the package, or a file that may make it importable from elsewhere."""
    for place in places:
        with suppress(OSError):
            if any(package in name for name in os.listdir(place)):
                return True
    return False


def _directories(python: str) -> list[Path] | None:
    """Return the directories in which the interpreter of a virtual environment looks for packages; None if unknown."""
    path = shutil.which(python)
    if path is None:
        return None
    root = Path(os.path.abspath(path)).parents[1]
    try:
        settings = read_regular(root / CONFIGURED, LARGEST).decode(errors="replace")
    except OSError:
        return None
    if any(_is_yes(line) for line in settings.splitlines() if line.startswith("include-system-site-packages")):
        return None
    found = [*root.glob("lib/python3*/site-packages"), *root.glob("lib64/python3*/site-packages")]
    return [*found, *(added for directory in found for added in _added(directory))] or None


def _is_yes(line: str) -> bool:
    return line.partition("=")[2].strip().lower() == "true"


def _added(directory: Path) -> Iterator[Path]:
    """Yield the directories that .pth files add. Their lines of code are not run."""
    for file in sorted(directory.glob("*.pth")):
        with suppress(OSError):
            for line in read_regular(file, LARGEST).decode(errors="replace").splitlines()[:MOST_LINES]:
                if line.strip() and "\0" not in line and not line.startswith(("#", "import ", "import\t")):
                    yield directory / line.strip()
