"""A run's events as series of scalars for TensorBoard: a pure fold over the events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clusterkit.ledger.ledger import Ledger
from clusterkit.words.events import Event, Exited, Progressed
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

EVERY = 2.0  # seconds between two samples
NO_USAGE: Mapping[Task, tuple[float, int]] = {}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A point of a series: `step` is the training step for a metric, and otherwise seconds since the run began."""

    task: Task
    tag: str
    value: float
    step: int
    at: float  # wall time


class Series:
    """Converts events to scalars, one event at a time. A restarted task continues its series."""

    def __init__(self, job: JobSpec | None) -> None:
        self._ledger = Ledger(job)
        self._status = self._ledger.run
        self._sampled = 0.0

    @property
    def pids(self) -> dict[Task, int]:
        """The process ids of the tasks that are running."""
        return self._status.pids

    def take(self, at: float, event: Event) -> Iterator[Scalar]:
        """Yield a report's metrics, after a sample of all tasks if the last one is `EVERY` seconds old.

        A sample also precedes a task's exit, so that the series has its last step.
        """
        if at - self._sampled >= EVERY or isinstance(event, Exited):
            yield from self.sample(at)
        self._ledger.take(at, event)
        if isinstance(event, Progressed):
            for name, value in event.metrics.items():
                if value is not None:
                    yield Scalar(event.task, name, value, event.step, at)

    def sample(self, at: float, usage: Mapping[Task, tuple[float, int]] = NO_USAGE) -> Iterator[Scalar]:
        """Yield each task's step, speed and `usage`: percent of one core, and bytes of memory."""
        self._sampled = at
        if self._status.began is None:
            return
        seconds = max(0, round(at - self._status.began))
        for task, of in self._status.tasks.items():
            values = {"step": of.step if of.alive else None, "steps_per_second": of.speed(at)}
            if task in usage:
                values["cpu_percent"], values["memory_bytes"] = usage[task]
            for name, value in values.items():
                if value is not None:
                    yield Scalar(task, f"task/{name}", value, seconds, at)
