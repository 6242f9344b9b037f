"""Tells what an interpreter is and what is installed for it, as a line of JSON; imports none of it.

    python census.py {"modules": [...], "beside": DIRECTORY or null, "roots": [...], "tensorflows": [...]}

Run by path with the tasks' interpreter: standard library only. `roots` are the beginnings of the names of the
distributions whose requirements are looked at.
"""

from __future__ import annotations

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # this file's directory

import importlib.util
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from typing import Any


def main() -> None:
    """See the module's docstring."""
    options = json.loads(sys.argv[1])
    if options["beside"] is not None and not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, options["beside"])
    first, all_versions = installed()
    packages = {name: found.version for name, found in first.items()}
    told = {
        "version": sys.version_info[:3],
        "implementation": sys.implementation.name,
        "libc": platform.libc_ver()[0],
        "arch": platform.machine() if sys.maxsize > 1 << 32 else "32-bit",
        "packages": packages,
        "twice": {name: versions for name, versions in all_versions.items() if len(versions) > 1},
        "modules": dict(modules(options["modules"])),
        **requirements(first, options["roots"], options["tensorflows"]),
    }
    print(json.dumps(told))


def installed() -> tuple[dict[str, Distribution], dict[str, list[str]]]:
    """The distribution that counts for each name, and every version that is there, also in other directories."""
    first: dict[str, Distribution] = {}
    versions: dict[str, list[str]] = {}
    places = set()
    for found in distributions():
        name, place = found.metadata["Name"], str(getattr(found, "_path", id(found)))
        if not name or not found.version or place in places:  # what an interrupted installation leaves
            continue
        places.add(place)
        key = normal(name)
        first.setdefault(key, found)
        if found.version not in versions.setdefault(key, []):
            versions[key].append(found.version)
    return first, versions


def normal(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def modules(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Those that can be imported, and their files; none for a directory without an `__init__.py`."""
    for name in names:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is not None:
            yield name, os.path.realpath(spec.origin) if spec.has_location and spec.origin else ""


def requirements(first: Mapping[str, Distribution], roots: Sequence[str], tensorflows: Sequence[str]) -> dict[str, Any]:
    """`unmet`: what those packages require and do not have; `checked` is false where that can't be told."""
    try:
        # TensorFlow requires it, so where there is something to look at it is there, and knows its own markers.
        from packaging.requirements import Requirement
    except ImportError:
        return {"unmet": [], "checked": False}
    stands_for = next((name for name in tensorflows if name in first), "tensorflow")  # tensorflow-cpu is one, too
    unmet = []
    for of, found in sorted(first.items()):
        for text in found.requires or () if of.startswith(tuple(roots)) else ():
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            name = normal(wanted.name)
            there = first.get(stands_for if name == "tensorflow" else name)
            version = None if there is None else there.version
            if version is None or not wanted.specifier.contains(version, prereleases=True):
                unmet.append({"of": of, "name": name, "wanted": str(wanted.specifier), "has": version})
    return {"unmet": unmet, "checked": True}


if __name__ == "__main__":
    main()
