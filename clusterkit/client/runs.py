"""Runs as a client sees them: which one is meant, what its files tell, and when it is over."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from clusterkit.client.rundir import all_runs, find_run, is_live, runs_dir
from clusterkit.words import wire
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.model import JobSpec, Task
from clusterkit.words.outcome import RunResult

STARTING = 60.0  # seconds for which a directory without a lock may be that of a run that is about to begin
# What a result lacks that the guardian wrote in the place of a supervisor that was killed.
_BARE: dict[str, Any] = {
    "cause": None, "collateral": [], "attempts": [], "restarts": 0, "last_step": None, "duration": 0.0
}  # fmt: skip


class NoSuchRun(ClusterkitError):
    """There is no run that could be meant."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What job.json holds for a client. `created` is wall time."""

    job: JobSpec
    created: float
    endpoints: dict[Task, str]


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
        return float(json.loads((run / "job.json").read_text())["created"])
    except (OSError, ValueError, KeyError, TypeError):
        return changed(run)


def changed(run: Path) -> float:
    """When something last happened in the run, in wall time."""
    for name in ("result.json", "journal.jsonl", "."):
        try:
            return (run / name).stat().st_mtime
        except OSError:
            continue
    return 0.0


def job_of(run: Path) -> RunInfo | None:
    """What was asked for; None where the run ended before it was written."""
    try:
        message = json.loads((run / "job.json").read_text())
        endpoints = {Task.parse(name): str(endpoint) for name, endpoint in message["endpoints"].items()}
        return RunInfo(wire.decode(JobSpec, message["job"]), float(message["created"]), endpoints)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def result_of(run: Path) -> RunResult | None:
    """How the run ended; None where it goes on, or nobody was left to write it."""
    try:
        message = json.loads((run / "result.json").read_text())
        known = {field.name for field in fields(RunResult)}  # it says more than the result, and a newer one may too
        told = {name: value for name, value in {**_BARE, **message}.items() if name in known}
        result: RunResult = wire.decode(RunResult, told)
        return result
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


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
