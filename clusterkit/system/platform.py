"""Describes the versions and the machine of a run, without starting a process."""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path

_NAMES = "tensorflow|tensorflow_cpu|tf_nightly|tf_nightly_cpu|keras|tf_keras"
_DISTRIBUTION = re.compile(rf"({_NAMES})-([\w.+!]+)\.dist-info")
_BUILDS = ("tensorflow_cpu", "tf_nightly", "tf_nightly_cpu")  # other distributions of TensorFlow


def platform_of(python: str | None) -> dict[str, str]:
    """Return names and versions to show. Omit packages if `python`, the tasks' interpreter, is not this interpreter."""
    found = _versions() if python is None or _is_this_one(python) else {}
    system = os.uname()
    cores, memory = len(os.sched_getaffinity(0)), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found["system"] = f"{system.sysname} {system.release} {system.machine}"
    found["machine"] = f"{cores} core{'' if cores == 1 else 's'}, {memory / 2**30:.1f} GiB of memory"
    return found


def _is_this_one(python: str) -> bool:
    # Compare paths without resolving links, since several virtual environments link to the same file.
    return Path(shutil.which(python) or python).absolute() == Path(sys.executable).absolute()


def _versions() -> dict[str, str]:
    # Read versions from the names of directories: importing importlib.metadata alone would take longer than this.
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for place in filter(None, sys.path):
        with suppress(OSError):
            for name in os.listdir(place):
                if match := _DISTRIBUTION.fullmatch(name):
                    found.setdefault("tensorflow" if match[1] in _BUILDS else match[1], match[2])
    return found
