"""Histories with their recovery report, which is held against another way to work it out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from clusterkit.ledger.ledger import Ledger, ledger_of
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.account import PER_SECOND, Goodput, InjectedFault, Recovery, RecoveryReport
from clusterkit.words.job import JobSpec, Limits, Network, RestartRules
from clusterkit.words.reports import Stage
from tests.histories import History, faults, job, task
from tests.recoveries import Account, check_same

UNAVAILABLE = "tensorflow.python.framework.errors_impl.UnavailableError: Socket closed"
SOON = RestartRules(backoff=1.0)


class Told:
    """A history and its report, which is held against the journal each time that it is asked for."""

    def __init__(self, spec: JobSpec, *texts: str) -> None:
        self.job = replace(spec, faults=faults(*texts), network=Network.VIRTUAL)
        self.events: list[tuple[float, ev.Event]] = []
        self.ledger = Ledger(self.job)
        self.run = History(self.job, observe=self._observe).begin()

    def _observe(self, event: ev.Event, now: float) -> None:
        self.events.append((now, event))
        self.ledger.add(now, event)

    @property
    def report(self) -> RecoveryReport:
        """The fold's report, after the check."""
        report = self.ledger.incidents.report()
        journal = [json.loads(json.dumps({"m": now, **wire.encode_event(event)})) for now, event in self.events]
        check_same(wire.encode(report), Account(wire.encode(self.job), journal).report(), "report")
        assert wire.decode(RecoveryReport, json.loads(json.dumps(wire.encode(report)))) == report
        return report

    @property
    def goodput(self) -> Goodput:
        """What the run's time went into so far."""
        told = self.ledger.account(self.run.now).goodput
        assert told is not None
        return told

    @property
    def parts(self) -> dict[str, float]:
        """What the run's time went into, in tenths of a second and by the parts that took any, after checks."""
        until = self.events[-1][0] if self.run.over else self.run.now
        told = self.goodput
        check_sums(told, until - self.events[0][0])
        assert (
            ledger_of(self.job, [*self.events, (until, ev.Ticked())]).account().goodput == told
        )  # however often it was asked for
        assert wire.decode(Goodput, json.loads(json.dumps(wire.encode(told)))) == told
        return {name: round(seconds, 1) for name, seconds in told.parts.items() if round(seconds, 1)}

    @property
    def most(self) -> str:
        """What cost most."""
        return self.goodput.most

    def reaches(self, name: str, stage: Stage) -> None:
        """A task has come so far in its start-up."""
        self.run.send(ev.Reached(task(name), self.run.attempts[name], stage))

    def steps(self, name: str, *steps: int, every: float = 0.1) -> None:
        """A task reports these steps, each so long after the one before it."""
        for step in steps:
            self.run.after(every)
            self.run.progresses(name, step)

    def phase(self, name: str, phase: str, seconds: float) -> None:
        """A task does something without steps."""
        for begun in (True, False):
            self.run.send(ev.PhaseChanged(task(name), self.run.attempts[name], phase, begun))
            self.run.after(seconds if begun else 0)

    def one(self) -> Recovery:
        """The only recovery."""
        (recovery,) = self.report.recoveries
        return recovery

    def fault(self) -> InjectedFault:
        """The only fault."""
        (fault,) = self.report.faults
        return fault

    def ready(self, *names: str) -> None:
        """These tasks say that their servers are up."""
        for name in names:
            self.run.send(ev.Ready(task(name), self.run.attempts[name]))


def check_sums(told: Goodput, duration: float) -> None:
    """The parts are never negative, and sum to the duration."""
    assert all(seconds >= 0 for _, seconds in told.parts.items())
    assert sum(round(seconds * PER_SECOND) for _, seconds in told.parts.items()) == round(told.duration * PER_SECOND)
    assert abs(told.duration - duration) < 2e-6
    assert told.share is None or 0 <= told.share <= 1


def ps_job(*faults: str, watch: bool = False, **more: Any) -> Told:
    """A parameter-server job at step 45, 10 s old, whose newest checkpoint is that of step 40."""
    told = Told(replace(job(workers=2, ps=1, restart=SOON, limits=Limits(startup=0, **more)), watch=watch), *faults)
    told.ready("worker:0", "worker:1", "ps:0")
    told.run.after(5)
    told.run.checkpoints("chief:0", 40)
    told.run.after(5)
    told.run.progresses("chief:0", 45)
    return told


def gang(*faults: str, workers: int = 2) -> Told:
    """A mirrored job at step 30, 10 s old."""
    told = Told(job(workers=workers, restart=SOON, limits=Limits(startup=0)), *faults)
    told.run.after(10)
    told.run.checkpoints("worker:0", 20)
    for worker in range(workers):
        told.run.progresses(f"worker:{worker}", 30)
    return told
