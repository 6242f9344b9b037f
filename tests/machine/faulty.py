"""Histories of jobs in which something is broken on purpose."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.words.actions import Record
from clusterkit.words.events import FaultHealed, FaultInjected
from clusterkit.words.job import JobSpec, Limits, Network, RestartRules
from tests.histories import BEGAN, History, faults, job


def with_faults(*texts: str, workers: int = 2, ps: int = 1, seed: int = 1, spec: JobSpec | None = None) -> History:
    """A job with these faults, not begun yet."""
    plain = spec or job(workers=workers, ps=ps, restart=RestartRules(budget=50), limits=Limits(startup=0))
    return History(replace(plain, faults=faults(*texts), network=Network.VIRTUAL), seed)


def injected(run: History) -> list[tuple[float, str, list[str]]]:
    """When, what, and into which tasks."""
    decided = [(at, action.event) for at, action in run.actions if isinstance(action, Record)]
    found = [(at, event) for at, event in decided if isinstance(event, FaultInjected)]
    return [(round(at - BEGAN, 3), event.action.value, [str(one) for one in event.tasks]) for at, event in found]


def healed(run: History) -> list[tuple[str, str]]:
    """What was healed, and why."""
    return [(event.action.value, event.why) for event in run.decided(FaultHealed)]
