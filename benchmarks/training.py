"""The scenarios of undisturbed training."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from benchmarks import notes, ours, usage
from benchmarks.children import Launcher, call, launched
from benchmarks.jobs import PROGRAMS, TrainingJob, as_honcho, as_mpr, as_script, as_up, mwms_job, ps_job
from benchmarks.scenario import Competitor, Figures, Scenario

STEPS = 200
STEADY_STEPS = 2000
WINDOW = 20.0  # seconds for which the supervisor is watched
FOREVER = ("--steps", "1000000", "--checkpoint-every", "1000000")
LONG = 150.0  # seconds in which anything of TensorFlow has to be over


def ps_scenario() -> Scenario:
    """The parameter-server job from its start to its end."""
    job = ps_job("--steps", str(STEPS))
    competitors: dict[str, Competitor] = {
        "clusterkit": lambda place: _to_end(as_up(job, place), place),
        "cold": lambda place: _to_end(as_up(job, place, start="cold"), place),
        "shell": lambda place: _to_end(as_script(job, place), place),
        "honcho": lambda place: _to_end(as_honcho(job, place), place),
        "mpr": lambda place: _to_end(as_mpr(job, place), place),
        "warmed": lambda place: _warmed(job, place),
    }
    return Scenario("ps", competitors)


def mwms_scenario() -> Scenario:
    """Eight workers: their first step, what they hold in memory, and what runs beside them."""
    job = mwms_job(8, *FOREVER)
    return Scenario(
        "mwms8",
        {
            "clusterkit": lambda place: _eight(as_up(job, place), place, watched=True),
            "cold": lambda place: _eight(as_up(job, place, start="cold"), place),
            "shell": lambda place: _eight(as_script(job, place), place),
            "honcho": lambda place: _eight(as_honcho(job, place), place),
            "mpr": lambda place: _eight(as_mpr(job, place), place),
        },
    )


def steady_scenarios() -> list[Scenario]:
    """Steps a second once training is under way: with a checkpoint every 250 steps, and without."""
    steps = ("--steps", str(STEADY_STEPS))
    saving, bare = ps_job(*steps), ps_job(*steps, "--checkpoint-every", "1000000")
    managed = replace(saving, program=str(PROGRAMS / "ps_manager.py"))
    return [
        Scenario(
            "steady",
            {
                "clusterkit": lambda place: _rate_and_held(as_up(saving, place), place),
                "without": lambda place: _rate(as_up(bare, place), place),
                "shell": lambda place: _rate_and_held(as_script(managed, place), place),
            },
        ),
        Scenario(
            "steady-bare",
            {
                "clusterkit": lambda place: _rate(as_up(bare, place), place),
                "shell": lambda place: _rate(as_script(bare, place), place),
            },
        ),
    ]


def _to_end(argv: list[str], place: Path) -> Figures:
    with launched(argv, place, LONG, ours.env(place)) as launcher:
        ended = launcher.wait_for_exit()
        step = notes.first(place, "step")
        assert step is not None, launcher.end_of_output()
        return {"end": ended - launcher.began, "first": step.at - launcher.began}


def _warmed(job: TrainingJob, place: Path) -> Figures:
    call(ours.warm("start"), place, LONG, ours.env(place))
    return _to_end(as_up(job, place), place)


def _rate(argv: list[str], place: Path) -> Figures:
    with launched(argv, place, LONG, ours.env(place)) as launcher:
        launcher.wait_for_exit()
    return {"rate": notes.rate(place)}


def _rate_and_held(argv: list[str], place: Path) -> Figures:
    return {**_rate(argv, place), "held": notes.held(place)}


def _eight(argv: list[str], place: Path, watched: bool = False) -> Figures:
    with launched(argv, place, LONG, ours.env(place)) as launcher:
        launcher.wait_for(lambda: notes.first(place, "step") is not None, "the first step", pause=0.05)
        first = notes.first(place, "step")
        assert first is not None
        time.sleep(3)  # what is allocated in the first steps
        everything, tasks = usage.tree(launcher.pid), usage.tree(*notes.pids(place))
        figures = {"first": first.at - launcher.began, "pss": usage.pss(everything)}
        figures["beside"] = usage.pss(everything - tasks)
        return {**figures, **(_supervision(launcher, place) if watched else {})}


def _supervision(launcher: Launcher, place: Path) -> Figures:
    """Resident memory of the supervisor and of its guardian, and the processor time of both, in percent of a core."""
    supervisor = ours.supervisor(place)
    assert supervisor is not None
    both = (supervisor, launcher.pid)
    before, began = [usage.cpu(pid) or 0.0 for pid in both], time.monotonic()
    time.sleep(WINDOW)
    after, took = [usage.cpu(pid) or 0.0 for pid in both], time.monotonic() - began
    return {
        "supervisor": usage.rss(supervisor),
        "guardian": usage.rss(launcher.pid),
        "cpu": 100 * (sum(after) - sum(before)) / took,
    }
