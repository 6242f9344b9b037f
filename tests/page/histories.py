"""Histories of runs as the dashboard reads them: events with offsets and times, hand-made or random."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from clusterkit.page.journal import Happening
from clusterkit.page.model.board import map_text
from clusterkit.page.model.run_model import RunModel
from clusterkit.store.directory import RunDirectory, RunInfo
from clusterkit.store.paths import RunPaths
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task, TaskState
from tests.ledger.test_walk import Noted
from tests.machine.test_walk import STEPS

WALL = 1_795_000_000.0  # when all of them began
AFTER = WALL + 1e6  # when they are looked at


def info_of(job: JobSpec) -> RunInfo:
    """What job.json would hold."""
    endpoints = {task: f"127.0.0.1:{4000 + number}" for number, task in enumerate(job.tasks)}
    return RunInfo(run_id="r", created=WALL, endpoints=endpoints, job=job)


def stamped(events: Iterable[tuple[float, ev.Event]]) -> list[Happening]:
    """The events with offsets, ten bytes each."""
    listed = list(events)
    began = listed[0][0]
    return [Happening(10 * (n + 1), at, event, WALL + at - began) for n, (at, event) in enumerate(listed)]


def model_of(job: JobSpec, happenings: Iterable[Happening] = (), live: bool = False) -> RunModel:
    """The model after these, at once."""
    model = RunModel(RunPaths(PurePath("/runs/r")), info_of(job))
    feed(model, happenings)
    model.refresh(AFTER, live)
    return model


def feed(model: RunModel, happenings: Iterable[Happening]) -> None:
    """Have the model take them."""
    for one in happenings:
        model.take(*one)


def shown(model: RunModel) -> dict[str, object]:
    """Everything that a client has that connected just now, as JSON says it."""
    found: dict[str, object] = json.loads(map_text(model.board.all()))
    return found


def random_history(seed: int) -> tuple[JobSpec, list[Happening]]:
    """A whole run with faults, in which anything happens in any order."""
    walk = Noted(seed)
    for _ in range(STEPS):
        if not walk.finishes:
            walk.step(calm=False)
    if not walk.finishes:
        walk.handle(ev.Interrupted(15))
    while not walk.finishes:
        walk.step(calm=True)
    events = [(float(line["m"]), wire.decode_event(line)) for line in json.loads(json.dumps(walk.journal))]
    return walk.spec, stamped(events)


def written(path: Path, job: JobSpec, lines: Iterable[bytes] = ()) -> RunDirectory:
    """The directory of a run that is over, with these lines in its journal."""
    run = RunDirectory(path)
    run.make()
    run.lock_file.touch()
    run.write_info(info_of(job))
    run.journal.write_bytes(b"".join(lines))
    return run


def line(clock: float, event: ev.Event) -> bytes:
    """A line of a journal."""
    message = {"t": WALL + clock, "m": clock, **wire.encode_event(event)}
    return json.dumps(message).encode() + b"\n"


def beginning(job: JobSpec) -> Iterator[bytes]:
    """The first lines of a journal: every task runs."""
    yield line(0.0, ev.Began())
    for number, task in enumerate(job.tasks):
        yield line(0.1, ev.Changed(task, 1, TaskState.STARTING))
        yield line(0.2, ev.Spawned(task, 1, f"pid {900_000 + number}"))
        yield line(0.2, ev.Changed(task, 1, TaskState.RUNNING))


def progress(task: Task, count: int, every: float = 0.01, begin: float = 1.0) -> Iterator[bytes]:
    """Reports of steps 0, 1, 2 …"""
    return (line(begin + every * step, ev.Progressed(task, 1, step, {"loss": 1 / (step + 1)})) for step in range(count))
