"""Runs' metrics in the OpenMetrics text format, which Prometheus reads. Limits the number and length of labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
)
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

from clusterkit.ledger.incident import RecoveryTime
from clusterkit.ledger.ledger import Ledger
from clusterkit.page.model.entities import Entity, Goodput, Run, TaskRow
from clusterkit.text.printable import printable
from clusterkit.words.faults import FaultAction
from clusterkit.words.model import Task

CONTENT_TYPE = CONTENT_TYPE_LATEST
MOST_TASKS = 200  # the maximum number of tasks of a run that have metrics
MOST_REPORTED = 20  # the maximum number of a task's reported metrics that are exported
LONGEST_LABEL = 100  # the maximum length of a label's value, in characters
BUCKETS = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)  # seconds; bounds in the histogram of recovery times
# Values of the label `cause`: how the attempt before the restart ended.
CAUSES = ("failed", "fault", "collateral", "asked", "lost")
OTHER = "other"
STATES = (
    "starting", "running", "waiting", "stopping", "succeeded", "failed", "stopped", "timed out", "suspended", "lost",
)  # fmt: skip
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Scraped:
    """The state of a run at a scrape, that is, when Prometheus fetches the metrics.

    | field | meaning |
    | --- | --- |
    | entities | the entities of the run; their number is limited, so counters must not be computed from them |
    | now | the number of seconds since the run began |
    | journal | the size of the journal, in bytes |
    | restarts | the number of restarts of each task, for each way in which the previous attempt had ended |
    | faults | the number of injected faults for each action |
    | saved | when the newest checkpoint was completed, in seconds since the run began |
    | ended | the duration and the number of lost steps of each complete recovery |
    """

    entities: Mapping[str, Entity]
    now: float
    journal: int
    restarts: Mapping[tuple[Task, str], int] = field(default_factory=dict)
    faults: Mapping[FaultAction, int] = field(default_factory=dict)
    saved: float | None = None
    ended: Sequence[RecoveryTime] = ()

    @property
    def run(self) -> Run:
        run: Run = self.entities["run"]
        return run

    def all(self, kind: type[E]) -> list[E]:
        return [one for one in self.entities.values() if isinstance(one, kind)]

    def tasks(self) -> list[TaskRow]:
        return self.all(TaskRow)[:MOST_TASKS]


def scraped(entities: Mapping[str, Entity], now: float, journal: int, ledger: Ledger) -> Scraped:
    """Return the state of a run. The counters of `ledger` are copied, since another thread may change the ledger."""
    faults = Counter(one.event.action for one in ledger.faults.by_number.values() if one.is_certain)
    ended = tuple(ledger.incidents.ended_recoveries)
    return Scraped(entities, now, journal, dict(ledger.attempts.restarts), faults, ledger.run.saved_at, ended)


def exposition(runs: Sequence[Scraped]) -> bytes:
    """Return the response body for a scrape. The content type of the body is CONTENT_TYPE."""
    text: bytes = generate_latest(SimpleNamespace(collect=lambda: families(runs)))  # type: ignore[no-untyped-call]
    return text


def families(runs: Sequence[Scraped]) -> Iterator[Metric]:
    known = [one for one in runs if "run" in one.entities]  # leave out runs whose first event was not read yet
    for make in (_of_run, _of_tasks, _of_failures, _of_time):
        yield from make(known)


def _of_run(runs: Sequence[Scraped]) -> Iterator[Metric]:
    info = InfoMetricFamily("clusterkit_run", "What the run is.", labels=["run"])
    state = StateSetMetricFamily("clusterkit_run_state", "The phase of a live run, or how it ended.", labels=["run"])
    duration = GaugeMetricFamily(
        "clusterkit_run_duration_seconds", "Time since the run began, until its end.", labels=["run"], unit="seconds"
    )
    journal = GaugeMetricFamily("clusterkit_journal_bytes", "The size of the journal.", labels=["run"], unit="bytes")
    age = GaugeMetricFamily(
        "clusterkit_checkpoint_age_seconds", "Time since a checkpoint was complete, while the run is live.",
        labels=["run"], unit="seconds",
    )  # fmt: skip
    for one in runs:
        run, labels = one.run, [_label(one.run.id)]
        told = {"program": run.program, "shape": run.shape, "strategy": run.strategy, "network": run.network,
                "engine": run.engine}  # fmt: skip
        info.add_metric(labels, {name: _label(value) for name, value in told.items()})
        now = run.state or run.phase
        state.add_metric(labels, {name: name == now for name in STATES})
        _add(duration, labels, one.now if run.ended is None else run.ended)
        _add(journal, labels, one.journal)
        if one.saved is not None and not run.state:
            _add(age, labels, max(0.0, one.now - one.saved))
    return iter((info, state, duration, journal, age))


def _of_tasks(runs: Sequence[Scraped]) -> Iterator[Metric]:
    of = ["run", "task"]
    up = GaugeMetricFamily("clusterkit_task_ready", "1 while the task is up.", labels=of)
    step = GaugeMetricFamily("clusterkit_task_step", "The newest step that the task reported.", labels=of)
    speed = GaugeMetricFamily(
        "clusterkit_task_steps_per_second", "Steps per second of the last half minute.", labels=of
    )
    cpu = GaugeMetricFamily("clusterkit_task_cpu_cores", "Cores that the task's processes keep busy.", labels=of)
    memory = GaugeMetricFamily(
        "clusterkit_task_memory_bytes", "Memory of the task's processes.", labels=of, unit="bytes"
    )
    reported = GaugeMetricFamily(
        "clusterkit_task_reported", "The newest value of a metric that the task reports.", labels=[*of, "name"]
    )
    for one in runs:
        for row in one.tasks():
            labels = [_label(one.run.id), _label(row.task)]
            _add(up, labels, float(row.ready))
            _add(step, labels, row.step)
            _add(speed, labels, row.speed)
            _add(cpu, labels, None if row.cpu is None else row.cpu / 100)
            _add(memory, labels, row.memory)
            for name, value in _first(row.metrics):
                _add(reported, [*labels, name], value)
    return iter((up, step, speed, cpu, memory, reported))


def _of_failures(runs: Sequence[Scraped]) -> Iterator[Metric]:
    restarts = CounterMetricFamily(
        "clusterkit_restarts", "Restarts of a task, by what had ended the attempt before.",
        labels=["run", "task", "cause"],
    )  # fmt: skip
    recovery = HistogramMetricFamily(
        "clusterkit_recovery_seconds", "From a failure or an injection to the first new step.", labels=["run"],
        unit="seconds",
    )  # fmt: skip
    lost = CounterMetricFamily("clusterkit_lost_steps", "Steps that had to be computed again.", labels=["run"])
    faults = CounterMetricFamily("clusterkit_faults", "Faults that were injected.", labels=["run", "action"])
    for one in runs:
        labels = [_label(one.run.id)]
        for (task, cause), count in sorted(_restarts(one).items()):
            restarts.add_metric([*labels, _label(task), cause], count)
        times = [max(0.0, ended.seconds) for ended in one.ended]
        within = [(str(edge), sum(time <= edge for time in times)) for edge in BUCKETS]
        recovery.add_metric(labels, buckets=[*within, ("+Inf", len(times))], sum_value=sum(times))
        lost.add_metric(labels, sum(ended.lost for ended in one.ended))
        for action, count in sorted(one.faults.items()):
            faults.add_metric([*labels, action], count)
    return iter((restarts, recovery, lost, faults))


def _of_time(runs: Sequence[Scraped]) -> Iterator[Metric]:
    ratio = GaugeMetricFamily(
        "clusterkit_goodput_ratio", "The share of the run's time that was training that counted.", labels=["run"],
        unit="ratio",
    )  # fmt: skip
    parts = GaugeMetricFamily(
        "clusterkit_time_seconds", "The parts of the run's time; they add up to its duration.", labels=["run", "part"],
        unit="seconds",
    )  # fmt: skip
    for one in runs:
        for goodput in one.all(Goodput):
            labels = [_label(one.run.id)]
            _add(ratio, labels, goodput.goodput)
            for part in goodput.parts:
                _add(parts, [*labels, _label(part.name)], part.seconds)
    return iter((ratio, parts))


def _restarts(one: Scraped) -> Counter[tuple[str, str]]:
    tasks, found = {row.task for row in one.tasks()}, Counter[tuple[str, str]]()
    for (task, cause), count in one.restarts.items():
        if str(task) in tasks:
            found[str(task), cause if cause in CAUSES else OTHER] += count
    return found


def _first(metrics: Mapping[str, float | str | None]) -> Iterable[tuple[str, float]]:
    """Return the first numeric metrics. If several names are shortened to the same label, keep the first."""
    found: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and len(found) < MOST_REPORTED:
            found.setdefault(_label(name), value)
    return found.items()


def _add(family: GaugeMetricFamily, labels: Sequence[str], value: float | None) -> None:
    if value is None:
        return
    try:
        number = float(value)
    except OverflowError:
        return
    if math.isfinite(number):
        family.add_metric(labels, number)


def _label(text: str) -> str:
    """Turn a text into the value of a label. The value is short, on one line, and valid UTF-8."""
    return printable(text[:LONGEST_LABEL])
