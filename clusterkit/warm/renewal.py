"""Renewal: what is kept of a program that has changed is dropped, so that tasks start with the new one."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from clusterkit.check.imports import program_of
from clusterkit.client.paths import RunPaths
from clusterkit.warm.choice import launch_for
from clusterkit.warm.starter import WarmStarter
from clusterkit.words.job import JobSpec


def renew(starts: WarmStarter, job: JobSpec, paths: RunPaths, files: Sequence[str]) -> None:
    """These files of the program have changed. Call it when none of its tasks runs."""
    directory = program_of(job)[1]
    changed = [directory / name for name in files]
    for file in changed:
        _forget_bytecode(file)
    starts.renew(launch_for(job, paths), changed)


def _forget_bytecode(file: Path) -> None:
    """Remove the cached bytecode of a module. Python takes it for current if size and second of the change agree."""
    for cached in glob.glob(f"{glob.escape(file.stem)}.*.pyc", root_dir=file.parent / "__pycache__"):
        with suppress(OSError):
            (file.parent / "__pycache__" / cached).unlink()
