"""Removal of runs that are over, with everything that is in their directories."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from clusterkit.client.reap import find_strays, reap_strays
from clusterkit.client.rundir import is_live
from clusterkit.client.runs import is_starting
from clusterkit.words.errors import ClusterkitError


class StillLive(ClusterkitError):
    """The run is not over."""


def can_go(run: Path) -> bool:
    """Whether the run is over."""
    return not is_live(run) and not is_starting(run)


def remove(run: Path) -> None:
    """Remove a run that is over. Raises StillLive and ClusterkitError."""
    if not can_go(run):
        raise StillLive(f"The run {run.name} is live. End it first: clusterkit down {run.name}")
    if run.name in find_strays():  # without its directory, what it left behind could not be told from a live run's
        reap_strays()
    with suppress(OSError):
        Path((run / "control.path").read_text()).unlink()
    try:
        shutil.rmtree(run)
    except OSError as error:
        raise ClusterkitError(f"The run {run.name} can't be removed: {error.strerror} ({error.filename}).") from None
