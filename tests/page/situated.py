"""Runs in a situation, on the disk for a browser to look at: as many workers and metrics as one likes, as of now."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.words import events as ev
from clusterkit.words import wire
from tests.histories import SIGKILL, task
from tests.ledger.recovering import Told, gang
from tests.page.histories import info_of

METRICS = ("loss", "accuracy", "learning_rate", "gradient_norm", "examples_per_second")
ERROR = "ValueError: Input 0 of layer dense_7 is incompatible with the layer: expected axis -1 to have value 784"


def training(workers: int) -> Told:
    """A worker was killed and all came back; each reports five metrics."""
    told = gang(workers=workers)
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(20)
    for step in range(20, 60):
        told.run.after(0.5)
        for number in range(workers):
            one = task(f"worker:{number}")
            values = {name: 1 / (step + number + place) for place, name in enumerate(METRICS)}
            told._observe(ev.Progressed(one, told.run.attempts[str(one)], step, values), told.run.now)
    return told


def stalled(workers: int) -> Told:
    """Nobody has made a step for a minute."""
    told = training(workers)
    told.run.now += 60
    told._observe(ev.Stalled("worker:1 hangs in the kernel (D).", task("worker:1"), 60.0, {}), told.run.now)
    return told


def failed(workers: int) -> Told:
    """The budget is used up, by the same error."""
    told = training(workers)
    for _ in range(6):
        if not told.run.over:
            told.run.exits("worker:1", code=1, exception=ERROR)
            told.run.after(60)
    return told


SITUATIONS: dict[str, Callable[[int], Told]] = {"training": training, "stalled": stalled, "failed": failed}


class Held:
    """The run of a history, whose last event was just now; live while its lock is held here."""

    def __init__(self, home: Path, told: Told, name: str = "r") -> None:
        self.told = told
        self.run = RunDirectory(RunStore(home).path / name)
        self.run.make()
        self.lock = self.run.lock()
        self.began = time.time() - told.events[-1][0]
        self.run.write_info(replace(info_of(told.job), created=self.began))
        self.path = self.run.path
        self.written = 0
        self.write()

    def write(self) -> None:
        """Append what has happened since."""
        with self.run.journal.open("a") as file:
            for at, event in self.told.events[self.written :]:
                file.write(json.dumps({"t": self.began + at, "m": at, **wire.encode_event(event)}) + "\n")
        self.written = len(self.told.events)
        if self.told.run.over:
            self.run.write_result(self.told.run.result, self.told.ledger.account())
            self.end()

    def end(self) -> None:
        """Nobody writes any more."""
        if self.lock >= 0:
            os.close(self.lock)
        self.lock = -1


@contextmanager
def held(home: Path, told: Told, name: str = "r") -> Iterator[Held]:
    """Such a run, as long as the test lasts."""
    made = Held(home, told, name)
    try:
        yield made
    finally:
        made.end()
