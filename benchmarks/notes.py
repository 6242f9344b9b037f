"""Notes: what the tasks of a training job say of themselves, the same under every launcher."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

CHECKPOINT = ("checkpoint begun", "checkpoint over")


@dataclass(frozen=True, slots=True)
class Note:
    """`kind` is started, ready, step, end, a phase (`checkpoint begun`, `checkpoint over`) or another report of
    clusterkit.training; `at` is monotonic time."""

    kind: str
    at: float
    task: str
    pid: int
    step: int


def notes(place: Path) -> list[Note]:
    """All so far, in the order of time."""
    try:
        lines = (place / "notes").read_bytes().split(b"\n")[:-1]
    except OSError:
        return []
    return sorted((Note(**json.loads(line)) for line in lines), key=lambda note: note.at)


def first(place: Path, kind: str, after: float = 0.0, least: int = 0) -> Note | None:
    """The first note of a kind after a time, of a process that was started after it too."""
    found = notes(place)
    new = {note.pid for note in found if note.kind == "started" and note.at > after}
    return next((n for n in found if n.kind == kind and n.at > after and n.pid in new and n.step >= least), None)


def pids(place: Path) -> list[int]:
    """The tasks, in the order in which they were started."""
    return [note.pid for note in notes(place) if note.kind == "started"]


def held(place: Path) -> float:
    """Milliseconds for which a checkpoint holds up training, the median of those after the first step."""
    found = notes(place)
    since = next(note.at for note in found if note.kind == "step")
    begun, over = ([note.at for note in found if note.kind == kind and note.at > since] for kind in CHECKPOINT)
    return statistics.median((end - start) * 1000 for start, end in zip(begun, over, strict=True))


def rate(place: Path, least: int = 0) -> float:
    """Steps a second from the first note of a step, of those that are not before `least`, to the last."""
    steps = [note for note in notes(place) if note.kind in ("step", "end") and note.step >= least]
    return (steps[-1].step - steps[0].step) / (steps[-1].at - steps[0].at)
