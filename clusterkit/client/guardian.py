"""The guardian of a live run, which ends it when its supervisor does not answer."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from clusterkit.client.directory import RunDirectory
from clusterkit.system import procfs
from clusterkit.words.errors import CannotLook

APART = 0.1  # seconds between two signals, which would be one otherwise


def signal_guardian(run: RunDirectory, at_once: bool) -> bool:
    """Have the guardian end a run, as SIGTERM does; `at_once`, as two Ctrl-C do. Return whether it was found."""
    with suppress(CannotLook, OSError):
        if (guardian := _guardian_of(run)) is not None:
            os.kill(guardian, signal.SIGINT if at_once else signal.SIGTERM)
            if at_once:
                time.sleep(APART)
                os.kill(guardian, signal.SIGINT)
            return True
    return False


def _guardian_of(run: RunDirectory) -> int | None:
    """The guardian's pid: the parent of the process that has the run's lock, if both are in this pid namespace."""
    info = run.info()
    if info is None or str(run.lock_file.resolve()) not in procfs.links(info.pid):
        return None
    guardian = procfs.parent(info.pid)
    if guardian is None or guardian <= 1:
        return None
    argv = procfs.argv_of(guardian)  # the supervisor's, of which it is a fork, unless a warm server has made both
    return guardian if argv == procfs.argv_of(info.pid) or "guardian" in argv else None
