"""Histories with their recovery report, which is held against another way to work it out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from clusterkit.recovery.report import RecoveryFold
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.job import JobSpec, Limits, RestartRules
from clusterkit.words.recovery import InjectedFault, Recovery, RecoveryReport
from clusterkit.words.resources import Network
from tests.histories import History, faults, job, task
from tests.recoveries import Account, check_same

UNAVAILABLE = "tensorflow.python.framework.errors_impl.UnavailableError: Socket closed"
SOON = RestartRules(backoff=1.0)


class Told:
    """A history and its report, which is held against the journal each time that it is asked for."""

    def __init__(self, spec: JobSpec, *texts: str) -> None:
        self.job = replace(spec, faults=faults(*texts), network=Network.VIRTUAL)
        self.events: list[tuple[float, ev.Event]] = []
        self.fold = RecoveryFold(self.job)
        self.run = History(self.job, observe=self._observe).begin()

    def _observe(self, event: ev.Event, now: float) -> None:
        self.events.append((now, event))
        self.fold.take(now, event)

    @property
    def report(self) -> RecoveryReport:
        """The fold's report, after the check."""
        report = self.fold.report()
        journal = [json.loads(json.dumps({"m": now, **wire.encode_event(event)})) for now, event in self.events]
        check_same(wire.encode(report), Account(wire.encode(self.job), journal).report(), "report")
        assert wire.decode(RecoveryReport, json.loads(json.dumps(wire.encode(report)))) == report
        return report

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


def ps_job(*faults: str, **more: Any) -> Told:
    """A parameter-server job at step 45, 10 s old, whose newest checkpoint is that of step 40."""
    told = Told(job(workers=2, ps=1, restart=SOON, limits=Limits(startup=0, **more)), *faults)
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
