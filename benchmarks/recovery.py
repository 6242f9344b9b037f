"""The scenarios in which a task is killed; who cannot start it again is not in them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from benchmarks import notes, ours
from benchmarks.children import Launcher, launched
from benchmarks.jobs import as_mpr, as_up, mwms_job, ps_job
from benchmarks.scenario import Figures, Scenario
from benchmarks.training import LONG

# The restart itself is measured, not the wait before it, which is there so that a program that always fails does
# not take the machine: 1 s unless one says otherwise.
SOON = ("--restart-backoff", "10ms")
GANG = 4  # workers of the gang


def worker_scenario() -> Scenario:
    """A worker of the parameter-server job: from the kill until its server is up again."""
    job = ps_job("--steps", "1000000", "--step-time", "0.01", "--checkpoint-every", "1000000")
    return Scenario(
        "ps-worker-killed",
        {
            "clusterkit": lambda place: _worker(as_up(job, place, *SOON), place),
            "cold": lambda place: _worker(as_up(job, place, *SOON, start="cold"), place),
            "mpr": lambda place: _worker(as_mpr(job, place, restart=True), place),
        },
    )


def gang_scenario() -> Scenario:
    """A worker of the mirrored job: from the kill until the new gang has done a step."""
    job = mwms_job(GANG, "--steps", "1000000", "--checkpoint-every", "50", "--step-time", "0.01")
    return Scenario(
        "mwms-worker-killed",
        {
            "clusterkit": lambda place: _gang(as_up(job, place, *SOON), place),
            "cold": lambda place: _gang(as_up(job, place, *SOON, start="cold"), place),
        },
    )


def _worker(argv: list[str], place: Path) -> Figures:
    with launched(argv, place, LONG, ours.env(place)) as launcher:
        _wait_for_steps(launcher, place, 50)
        killed = _kill(place, "worker:1")
        launcher.wait_for(lambda: notes.first(place, "ready", killed) is not None, "the server up again")
        ready = notes.first(place, "ready", killed)
        assert ready is not None
        return {"back": ready.at - killed}


def _gang(argv: list[str], place: Path) -> Figures:
    with launched(argv, place, LONG, ours.env(place)) as launcher:
        _wait_for_steps(launcher, place, 60)
        killed = _kill(place, "worker:1")
        launcher.wait_for(lambda: notes.first(place, "step", killed) is not None, "a step of the new gang")
        step = notes.first(place, "step", killed)
        assert step is not None
        return {"back": step.at - killed}


def _wait_for_steps(launcher: Launcher, place: Path, steps: int) -> None:
    launcher.wait_for(lambda: notes.first(place, "step", least=steps) is not None, f"step {steps}", pause=0.05)


def _kill(place: Path, task: str) -> float:
    pid = next(note.pid for note in notes.notes(place) if note.task == task)
    now = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return now
