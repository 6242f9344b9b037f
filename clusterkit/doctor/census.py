"""Lists the packages that are installed for this interpreter, as a line of JSON, without importing the packages.

The tasks' interpreter runs this file by path, so the file imports only the standard library and, if it is installed,
`packaging`.
"""

from __future__ import annotations

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # this file's directory

import importlib.util
import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from typing import Any

ROOTS = ("tensorflow", "tf-", "keras", "tensorboard")  # the prefixes of packages whose requirements are checked
OWN = "tf-clusterkit"  # not checked, since tasks import only those modules that have no requirements
MODULES = ("tensorflow", "keras", "clusterkit")


def main() -> None:
    first: dict[str, Distribution] = {}
    for found in distributions():
        if found.metadata["Name"] and found.version:  # an interrupted installation may lack both
            first.setdefault(normal(found.metadata["Name"]), found)
    tensorflows = [name for name, found in first.items() if has_tensorflow(found)]
    document = {
        "version": platform.python_version(),
        "implementation": sys.implementation.name,
        "packages": {name: found.version for name, found in first.items()},
        "tensorflows": tensorflows or [name for name in first if name == "tensorflow"],
        "modules": {name: is_whole for name in MODULES if (is_whole := module(name)) is not None},
        **requirements(first, tensorflows),
    }
    print(json.dumps(document))


def normal(name: str) -> str:
    """Normalize the name of a distribution, as package indexes do."""
    return re.sub(r"[-_.]+", "-", name).lower()


def has_tensorflow(found: Distribution) -> bool:
    """Return whether this distribution contains the package `tensorflow`, as tensorflow-cpu and tf-nightly do."""
    return "\ntensorflow/__init__.py," in "\n" + (found.read_text("RECORD") or "")


def module(name: str) -> bool | None:
    """Return True if a module can be imported; False if it is a directory without `__init__.py`; None if not found."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin is not None


def requirements(first: Mapping[str, Distribution], tensorflows: Sequence[str]) -> dict[str, Any]:
    """Return `unmet`, a list of unmet requirements, and `checked`, which is False if `packaging` is not installed."""
    try:
        from packaging.requirements import Requirement  # installed with TensorFlow
    except ImportError:
        return {"unmet": [], "checked": False}

    def missing() -> Iterator[dict[str, Any]]:
        for of, found in sorted(first.items()):
            if of == OWN or (not of.startswith(ROOTS) and of not in tensorflows):
                continue
            python = found.metadata["Requires-Python"]
            for text in (*([f"Python{python}"] if python else []), *(found.requires or ())):
                wanted = Requirement(text)
                if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                    continue
                name = normal(wanted.name)
                stands_for = tensorflows[0] if name == "tensorflow" and tensorflows else name
                has = first[stands_for].version if stands_for in first else None
                has = platform.python_version() if name == "python" else has
                if has is None or not wanted.specifier.contains(has, prereleases=True):
                    yield {"of": of, "name": wanted.name, "wanted": str(wanted.specifier), "has": has}

    return {"unmet": list(missing()), "checked": True}


if __name__ == "__main__":
    main()
