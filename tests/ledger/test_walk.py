"""The recovery report of random histories with faults: two ways to work it out agree, whatever happens."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace

import pytest

from clusterkit.ledger.ledger import Ledger
from clusterkit.machine.core import Machine
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.account import Account as AccountOfRun
from clusterkit.words.account import RecoveryReport
from clusterkit.words.actions import Action, Inject, Record
from clusterkit.words.job import Network
from tests.histories import SIGTERM, faults
from tests.journal import Line
from tests.ledger.recovering import check_sums
from tests.machine.test_walk import Walk
from tests.recoveries import Account, check_same

WALKS, BLOCKS = 480, 4
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
    fold: Ledger = field(init=False)
    unasked: Ledger = field(init=False)  # which makes its report at the end only

    def __post_init__(self) -> None:
        super().__post_init__()
        several = len(self.spec.tasks) > 1
        texts = self.random.sample(FAULTS + (NETWORK if several else ()), self.random.randrange(4))
        self.spec = replace(self.spec, faults=faults(*texts), network=Network.VIRTUAL)
        self.machine, self.fold = Machine(self.spec, self.seed), Ledger(self.spec)
        self.unasked = Ledger(self.spec)
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
            self.fold.add(self.now, event)
            self.unasked.add(self.now, event)
            self.journal.append({"m": self.now, **wire.encode_event(event)})

    def check(self) -> AccountOfRun:
        """The report, held against the journal."""
        told = self.fold.account(self.now)
        assert told.goodput is not None
        check_sums(told.goodput, self.now - self.journal[0]["m"])
        journal = json.loads(json.dumps(self.journal))
        report = RecoveryReport(told.recoveries, told.faults)
        check_same(wire.encode(report), Account(wire.encode(self.spec), journal).report(), f"{self.seed}")
        return told


@pytest.mark.slow
@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.long) for block in range(1, BLOCKS))])
def test_two_ways_to_work_it_out_agree(block: int) -> None:
    """In the middle of a run and at its end."""
    seen: list[AccountOfRun] = []
    asks = random.Random(block)
    for seed in range(block * WALKS // BLOCKS, (block + 1) * WALKS // BLOCKS):
        walk = Noted(seed)
        for _ in range(STEPS):
            if not walk.finishes:
                walk.step(calm=False)
                if asks.random() < 0.1:
                    walk.fold.account(walk.now)
        walk.check()
        if not walk.finishes:
            walk.handle(ev.Interrupted(SIGTERM))
        while not walk.finishes:
            walk.step(calm=True)
        seen.append(walk.check())
        assert walk.unasked.account() == walk.fold.account()
    recoveries = [recovery for report in seen for recovery in report.recoveries]
    assert any(recovery.faults for recovery in recoveries)
    assert any(recovery.collateral and recovery.training and recovery.lost for recovery in recoveries)
    assert any(recovery.went_on for recovery in recoveries)
    parts = [dict(told.goodput.parts.items()) for told in seen if told.goodput is not None]
    for name in ("startup", "training", "lost", "recovering", "stopped", "ending", "unseen"):
        assert any(one[name] for one in parts), name
    assert any(fault.healed is not None and not fault.died for report in seen for fault in report.faults)
