"""Runs as a client sees them: which one is meant, what its files tell, and when it is over."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from clusterkit.client.rundir import all_runs, find_run, is_live, runs_dir
from clusterkit.client.store import JOB, RESULT, read_json
from clusterkit.words.errors import BadJob, ClusterkitError

STARTING = 60.0  # seconds for which a directory without a lock may be that of a run that is about to begin


class NoSuchRun(ClusterkitError):
    """There is no run that could be meant."""


def choose(prefix: str | None, finished: bool) -> Path:
    """The run whose id begins with `prefix`; without one the newest live run, or else, if `finished`, the newest.

    Raises NoSuchRun.
    """
    if prefix is not None:
        try:
            return find_run(prefix)
        except BadJob as error:
            raise NoSuchRun(str(error)) from None
    runs = list(all_runs())
    live = [run for run in runs if is_live(run)]
    if live or (finished and runs):
        return newest_first(live or runs)[0]
    if finished:
        raise NoSuchRun(f"There is no run in {runs_dir()}.")
    raise NoSuchRun("No run is live. Name one, or see `clusterkit ls`.")


def newest_first(runs: Iterable[Path]) -> list[Path]:
    """In the order in which people look for them."""
    return sorted(runs, key=lambda run: (created(run), run.name), reverse=True)


def created(run: Path) -> float:
    """When the run was made, in wall time; of a run that did not get so far, when its directory last changed."""
    try:
        return float(read_json(run / JOB)["created"])
    except (ValueError, KeyError, TypeError):
        return changed(run)


def changed(run: Path) -> float:
    """When something last happened in the run, in wall time."""
    for name in (RESULT, "journal.jsonl", "."):
        try:
            return (run / name).stat().st_mtime
        except OSError:
            continue
    return 0.0


def is_starting(run: Path) -> bool:
    """Whether the directory may be that of a run that begins just now."""
    return not (run / "lock").exists() and time.time() - changed(run) < STARTING


class Life:
    """The life of a run: a thread that waits for the lock of its supervisor. Costs the supervisor nothing."""

    def __init__(self, run: Path) -> None:
        self._over = threading.Event()
        # A daemon: a command that ends before the run does not wait for it.
        threading.Thread(target=self._wait, args=(run,), name="life", daemon=True).start()

    def is_over(self, timeout: float | None = None) -> bool:
        """Whether the run is over, `timeout` seconds from now or sooner. What it wrote before is in its files then."""
        return self._over.wait(timeout)

    def _wait(self, run: Path) -> None:
        try:
            descriptor = os.open(run / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self._over.set()
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)
            self._over.set()
