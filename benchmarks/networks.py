"""The scenarios of the virtual network: steps a second over it and over the host's, with nothing impaired."""

from __future__ import annotations

from pathlib import Path

from benchmarks import notes, ours
from benchmarks.children import launched
from benchmarks.jobs import TrainingJob, as_up, mwms_job, ps_job
from benchmarks.scenario import Figures, Scenario
from benchmarks.training import LONG

WORKERS = 2
SETTLED = 100  # steps after which it is measured
STEPS = ("--steps", "1200", "--checkpoint-every", "1000000")


def ps_network_scenario() -> Scenario:
    """The parameter-server job."""
    return _scenario("ps-network", ps_job(*STEPS))


def mwms_network_scenario() -> Scenario:
    """The mirrored job."""
    return _scenario("mwms-network", mwms_job(WORKERS, *STEPS))


def _scenario(name: str, job: TrainingJob) -> Scenario:
    return Scenario(
        name,
        {
            "clusterkit": lambda place: _rate(as_up(job, place, "--network", "virtual"), place),
            "host": lambda place: _rate(as_up(job, place), place),
        },
    )


def _rate(argv: list[str], place: Path) -> Figures:
    with launched(argv, place, LONG, ours.env(place)) as launcher:
        launcher.wait_for_exit()
    return {"rate": notes.rate(place, SETTLED)}
