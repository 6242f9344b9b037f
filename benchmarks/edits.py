"""The scenarios in which a program is edited while it trains, beside a restart of the same job on request."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import notes, ours
from benchmarks.children import launched
from benchmarks.jobs import PROGRAMS, TrainingJob, as_up, mwms_job, ps_job
from benchmarks.scenario import Figures, Scenario
from benchmarks.training import LONG
from clusterkit.store.control import Client
from clusterkit.store.directory import RunDirectory

ARGS = ("--steps", "1000000", "--checkpoint-every", "50", "--step-time", "0.01")
STEPS = 60  # after which a checkpoint is there


def edit_scenarios() -> list[Scenario]:
    """The parameter-server job, and a gang of two: from the save, or the request, until training goes on."""
    jobs = {"edit-ps": ps_job(*ARGS), "edit-mwms": mwms_job(2, *ARGS)}
    return [_scenario(name, job) for name, job in jobs.items()]


def _scenario(name: str, job: TrainingJob) -> Scenario:
    return Scenario(
        name,
        {
            "clusterkit": lambda place: _back(job, place, _save, "--watch"),
            "restart": lambda place: _back(job, place, _ask),
            "cold": lambda place: _back(job, place, _save, "--watch", "--start", "cold"),
        },
    )


def _back(job: TrainingJob, place: Path, act: Callable[[Path], None], *flags: str) -> Figures:
    program = PROGRAMS / "stamped.py"
    shutil.copy(program, _copy(place))
    argv = [str(_copy(place)) if word == str(program) else word for word in as_up(job, place, *flags)]
    with launched(argv, place, LONG, ours.env(place)) as launcher:
        launcher.wait_for(lambda: notes.first(place, "step", least=STEPS) is not None, f"step {STEPS}", pause=0.05)
        acted = time.monotonic()
        act(place)
        launcher.wait_for(lambda: notes.first(place, "step", acted) is not None, "a step after the restart")
        step = notes.first(place, "step", acted)
        assert step is not None
        return {"back": step.at - acted}


def _copy(place: Path) -> Path:
    return place / "edited.py"


def _save(place: Path) -> None:
    with _copy(place).open("a") as file:
        file.write("# edited\n")


def _ask(place: Path) -> None:
    (run,) = (place / ours.HOME / "runs").iterdir()
    with Client(RunDirectory(run)) as client:
        client.call("restart", tasks=[])
