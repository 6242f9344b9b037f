"""Compares runs side by side: their options, speed, goodput, and a metric by step."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from clusterkit.ledger.ledger import ledger_of
from clusterkit.text.durations import shown
from clusterkit.views.naming import main_metric, number
from clusterkit.views.step_use import seconds_per_step
from clusterkit.views.tables import Column, table
from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

POINTS = 8  # the maximum number of steps at which the metric is shown
Curve = Mapping[int, float | None]


@dataclass(frozen=True, slots=True)
class Compared:
    """A run in a comparison. `speed` is in steps per second of training, without repeated steps.

    `metrics` maps the name of each metric to the values by step. `options` maps the names of options to values that
    differ from the defaults. `args` are the arguments of the program.
    """

    run_id: str
    state: str
    duration: float
    steps: int | None
    speed: float | None
    goodput: float | None
    metrics: Mapping[str, Curve] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    args: Sequence[str] = ()


def compared(run_id: str, state: str, job: JobSpec | None, events: Sequence[tuple[float, ev.Event]]) -> Compared:
    """Summarize a run from its events, each with a time on the run's clock. A repeated step counts once."""
    goodput = ledger_of(job, events).account().goodput
    reports = [event for _, event in events if isinstance(event, ev.Progressed)]
    steps = [event.step for event in reports if event.task.trains]
    pace = seconds_per_step(goodput, events)
    return Compared(
        run_id,
        state,
        0.0 if goodput is None else goodput.duration,
        max(steps, default=None),
        None if pace is None else 1 / pace,
        None if goodput is None else goodput.share,
        _curves(reports),
    )


def _curves(reports: Iterable[ev.Progressed]) -> Mapping[str, Curve]:
    """Return the metrics of the first task that reported metrics, sorted by step."""
    found: defaultdict[Task, defaultdict[str, dict[int, float | None]]] = defaultdict(lambda: defaultdict(dict))
    for event in reports:
        for name, value in event.metrics.items():
            found[event.task][name][event.step] = value
    first = found[min(found)] if found else {}
    return {name: dict(sorted(curve.items())) for name, curve in first.items()}


def comparison(runs: Sequence[Compared], metric: str | None, width: int | None) -> str:
    """Return a table with a column for each run.

    If `metric` is None, the table shows the loss or, if no run reported a loss, the first metric. Options and program
    arguments are shown only if they differ between the runs.
    """
    names = list(dict.fromkeys(name for run in runs for name in run.metrics))
    chosen = metric or main_metric(names)
    rows = [
        *_differences(runs),
        ("state", *(run.state for run in runs)),
        ("duration", *(shown(run.duration) for run in runs)),
        ("steps", *("-" if run.steps is None else str(run.steps) for run in runs)),
        ("steps/s", *("-" if run.speed is None else f"{run.speed:.1f}" for run in runs)),
        ("goodput", *("-" if run.goodput is None else f"{run.goodput:.0%}" for run in runs)),
    ]
    if chosen is not None:
        curves = [run.metrics.get(chosen, {}) for run in runs]
        for step in _steps_to_compare(curves):
            rows.append((f"{chosen} at {step}", *(number(curve[step]) if step in curve else "-" for curve in curves)))
    rows += [(f"last {name}", *_last([run.metrics.get(name, {}) for run in runs])) for name in names]
    return table(["", *(Column(run.run_id, right=True, least=8) for run in runs)], rows, width)


def _differences(runs: Sequence[Compared]) -> list[tuple[str, ...]]:
    names = dict.fromkeys(name for run in runs for name in run.options)
    args = [dict.fromkeys(_together(run.args)) for run in runs]
    rows = [(name, *(run.options.get(name, "-") for run in runs)) for name in names]
    rows.append(("arguments", *(" ".join(arg for arg in own if not all(arg in of for of in args)) for own in args)))
    return [(name, *(cell or "-" for cell in cells)) for name, *cells in rows if len(set(cells)) > 1]


def _together(args: Sequence[str]) -> list[str]:
    """Return the arguments, but join each option and its value to one text, such as `--rate 0.1`."""
    found: list[str] = []
    for arg in args:
        if found and not arg.startswith("-") and re.fullmatch(r"--?[A-Za-z][^\s=]*", found[-1]):
            found[-1] += f" {arg}"
        else:
            found.append(arg)
    return found


def _steps_to_compare(curves: Sequence[Curve]) -> list[int]:
    """Return up to POINTS steps, about evenly spaced, at which every run has a value that still reports values there.

    Reports are sparse, so two equal runs may have values at different steps. Each run's newest value before a step is
    not what the runs had at the same step, and would make equal runs look different.
    """
    last = max((step for curve in curves for step in curve), default=0)
    ends = sorted({round(last * part / POINTS) for part in range(1, POINTS + 1)})
    chosen = []
    for since, to in pairwise([-1, *ends]):
        within = [{step for step in curve if since < step <= to} for curve in curves]
        common = set[int].intersection(*(steps for steps in within if steps)) if any(within) else set()
        if common:
            chosen.append(max(common))
    return chosen


def _last(curves: Sequence[Curve]) -> list[str]:
    """Return the last value of each run, with its step if the runs' last values are those of different steps."""
    last = [max(curve, default=None) for curve in curves]
    differ = len({step for step in last if step is not None}) > 1
    return [
        "-" if step is None else number(curve[step]) + (f" at {step}" if differ else "")
        for step, curve in zip(last, curves, strict=True)
    ]
