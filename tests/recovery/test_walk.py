"""The recovery report of random histories with faults: two ways to work it out agree, whatever happens."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest

from clusterkit.machine import Machine
from clusterkit.recovery.report import RecoveryFold
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.actions import Action, Inject, Record
from clusterkit.words.recovery import RecoveryReport
from clusterkit.words.resources import Network
from tests.histories import SIGTERM, faults
from tests.journal import Line
from tests.machine.test_walk import Walk
from tests.recoveries import Account, check_same

WALKS = 480
STEPS = 200
FAULTS = (
    "kill any @ every=5s", "term any @ restart", "stop any for=3s @ every=8s", "slow any for=2s @ step=40",
    "memory any limit=1GB @ 4s", "hang-start any for=2s @ restart", "disk-full for=5s @ 10s",
    "corrupt-checkpoint @ checkpoint", "stop any @ step=60",
)  # fmt: skip
NETWORK = ("partition any for=6s @ every=15s", "reset any @ every=9s", "delay any by=1s for=2s @ step=30")


@dataclass
class Noted(Walk):
    """A walk with some faults, whose events are written down and folded."""

    journal: list[Line] = field(default_factory=list)
    fold: RecoveryFold = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        several = len(self.spec.tasks) > 1
        texts = self.random.sample(FAULTS + (NETWORK if several else ()), self.random.randrange(4))
        self.spec = replace(self.spec, faults=faults(*texts), network=Network.VIRTUAL)
        self.machine, self.fold = Machine(self.spec, self.seed), RecoveryFold(self.spec)
        for known in (self.processes, self.pending, self.events, self.journal):
            known.clear()
        self.handle(ev.Began())

    def handle(self, event: ev.Happened) -> None:
        """Write it down before what comes of it."""
        self._note(event)
        super().handle(event)

    def carry_out(self, action: Action) -> None:
        """Write decisions down, and answer what breaks things."""
        if isinstance(action, Record):
            self._note(action.event)
        elif isinstance(action, Inject):
            took = ev.FaultTook(action.number, "so", self.random.random() < 0.9)
            self.pending.append(lambda: took)
        super().carry_out(action)

    def _note(self, event: ev.Event) -> None:
        if hasattr(self, "fold"):
            self.fold.take(self.now, event)
            self.journal.append({"m": self.now, **wire.encode_event(event)})

    def check(self) -> RecoveryReport:
        """The report, held against the journal."""
        report = self.fold.report()
        journal = json.loads(json.dumps(self.journal))
        check_same(wire.encode(report), Account(wire.encode(self.spec), journal).report(), f"{self.seed}")
        return report


@pytest.mark.parametrize("block", range(4))
def test_two_ways_to_work_it_out_agree(block: int) -> None:
    """In the middle of a run and at its end."""
    seen: list[RecoveryReport] = []
    for seed in range(block * WALKS // 4, (block + 1) * WALKS // 4):
        walk = Noted(seed)
        for _ in range(STEPS):
            if not walk.finishes:
                walk.step(calm=False)
        walk.check()
        if not walk.finishes:
            walk.handle(ev.Interrupted(SIGTERM))
        while not walk.finishes:
            walk.step(calm=True)
        seen.append(walk.check())
    recoveries = [recovery for report in seen for recovery in report.recoveries]
    assert any(recovery.faults for recovery in recoveries)
    assert any(recovery.collateral and recovery.training and recovery.lost for recovery in recoveries)
    assert any(recovery.went_on for recovery in recoveries)
    assert any(fault.healed is not None and not fault.died for report in seen for fault in report.faults)
