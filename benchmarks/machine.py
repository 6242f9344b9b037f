"""The machine and the versions under which figures were measured."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("clusterkit", "tensorflow", "keras", "honcho")


def describe(torchrun: Sequence[str] | None) -> dict[str, Any]:
    """For the JSON file."""
    versions = {name: _version(name) for name in PACKAGES}
    versions["torch"] = _torch_version(torchrun)
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "load_average": os.getloadavg(),
        "versions": {"python": platform.python_version(), "kernel": platform.release(), **versions},
    }


def find_torchrun(python: str) -> list[str] | None:
    """How torchrun is started with an interpreter; None where that one has no torch."""
    if not Path(python).exists() or _torch_version([python]) is None:
        return None
    return [str(Path(python).absolute()), "-m", "torch.distributed.run"]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _torch_version(torchrun: Sequence[str] | None) -> str | None:
    if not torchrun:
        return None
    code = "from importlib import metadata; print(metadata.version('torch'))"
    asked = subprocess.run([torchrun[0], "-c", code], capture_output=True, text=True, timeout=60)
    return asked.stdout.strip() if asked.returncode == 0 else None
