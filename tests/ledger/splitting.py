"""Runs that have trained ten steps, and whose time is then divided."""

from __future__ import annotations

from clusterkit.words.job import Limits, RestartPolicy, RestartRules
from clusterkit.words.reports import Stage
from tests.histories import SIGKILL, job
from tests.ledger.recovering import SOON, Told

NEVER = Limits(startup=0)


def one_task(*faults: str, limits: Limits = NEVER, policy: RestartPolicy = RestartPolicy.ON_FAILURE) -> Told:
    """A single process that trained ten steps of 0.1 s: 5 s of start-up, 2 s of compilation."""
    told = Told(job(workers=1, restart=RestartRules(policy, backoff=1.0), limits=limits), *faults)
    return trained(told, "worker:0")


def gang(*faults: str, limits: Limits = NEVER) -> Told:
    """Two workers that did the same; they report each step at the same moment."""
    told = Told(job(workers=2, restart=SOON, limits=limits), *faults)
    return trained(told, "worker:0")


def ps_job(*faults: str) -> Told:
    """A parameter-server job that did the same."""
    told = Told(job(workers=2, ps=1, restart=SOON, limits=NEVER), *faults)
    told.ready("worker:0", "worker:1", "ps:0")
    return trained(told, "chief:0")


def trained(told: Told, leader: str) -> Told:
    """Ten steps with a checkpoint at the eighth, after 5 s of start-up and a first step of 2.1 s: at 8 s."""
    told.run.after(5)
    told.reaches(leader, Stage.PREPARED)
    told.steps(leader, 1, every=2.1)
    told.steps(leader, *range(2, 9))
    told.run.checkpoints(leader, 8)
    told.steps(leader, 9, 10)
    return told


BEGUN = {"startup": 5.0, "compilation": 2.0, "training": 1.0}


def dies(told: Told) -> None:
    """It resumes from the eighth step."""
    told.run.exits("worker:0", signal=SIGKILL)
    told.run.after(2)
    told.run.resumes("worker:0", 8, "ckpt-8")
    told.steps("worker:0", 9, every=1)
