"""Series: a journal's events as TensorBoard's scalars, as histories."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.supervisor.prepare import prepare
from clusterkit.tensorboard.scalars import Scalar, ScalarConverter
from clusterkit.words import events as ev
from clusterkit.words.errors import BadJob
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import Exit
from tests.histories import job, task
from tests.support import CHILDREN

WORKER, PS = task("worker:0"), task("ps:0")
BEGAN = 1_000_000.0


def begun() -> ScalarConverter:
    """The series of a run with two running tasks."""
    series = ScalarConverter(job(workers=1, ps=1))
    series.sample(BEGAN)
    list(series.take(BEGAN, ev.Began()))
    for member in (WORKER, PS):
        start(series, BEGAN, ev.Spawned(member, 1, "pid 7"))
    return series


def start(series: ScalarConverter, at: float, event: ev.Spawned) -> None:
    """Start an attempt."""
    list(series.take(at, ev.Changed(event.task, event.attempt, TaskState.STARTING)))
    list(series.take(at, event))
    list(series.take(at, ev.Changed(event.task, event.attempt, TaskState.RUNNING)))


def points(scalars: list[Scalar]) -> list[tuple[str, str, float, int]]:
    """All but the wall time."""
    return [(str(one.task), one.tag, one.value, one.step) for one in scalars]


def test_what_a_task_reports_is_at_its_step() -> None:
    """Each metric has its own name, and non-finite values give no point."""
    series = begun()
    taken = list(series.take(BEGAN + 1, ev.Progressed(WORKER, 1, 100, {"loss": 0.5, "rate": None})))
    assert taken == [Scalar(WORKER, "loss", 0.5, 100, BEGAN + 1)]


def test_samples_are_at_seconds_since_the_run_began() -> None:
    """A sample has the step and speed of tasks that report, and the usage of each task."""
    series = begun()
    list(series.take(BEGAN + 0.5, ev.Progressed(WORKER, 1, 100)))
    list(series.take(BEGAN + 1.5, ev.Progressed(WORKER, 1, 150)))
    assert points(list(series.sample(BEGAN + 2, {WORKER: (50.0, 1000), PS: (1.0, 2000)}))) == [
        ("worker:0", "task/step", 150, 2),
        ("worker:0", "task/steps_per_second", 50.0, 2),
        ("worker:0", "task/cpu_percent", 50.0, 2),
        ("worker:0", "task/memory_bytes", 1000, 2),
        ("ps:0", "task/cpu_percent", 1.0, 2),
        ("ps:0", "task/memory_bytes", 2000, 2),
    ]


def test_a_journal_is_sampled_at_its_own_times() -> None:
    """Samples come every two seconds, and before a task's exit."""
    series = begun()
    seen = [
        point
        for second in range(1, 7)
        for point in points(list(series.take(BEGAN + second, ev.Progressed(WORKER, 1, 10 * second))))
    ]
    assert [(step, value) for _, tag, value, step in seen if tag == "task/step"] == [(2, 10), (4, 30), (6, 50)]
    last = points(list(series.take(BEGAN + 6.5, ev.Exited(WORKER, 1, Exit(code=0)))))
    assert ("worker:0", "task/step", 60, 6) in last


def test_a_restarted_task_goes_on_in_its_series() -> None:
    """There is no point while a task is down; afterwards its step stays the same until it reports."""
    series = begun()
    list(series.take(BEGAN + 1, ev.Progressed(WORKER, 1, 100)))
    list(series.take(BEGAN + 1, ev.Exited(WORKER, 1, Exit(signal=9))))
    list(series.take(BEGAN + 1, ev.Changed(WORKER, 1, TaskState.DOWN)))
    assert points(list(series.sample(BEGAN + 2))) == []
    start(series, BEGAN + 3, ev.Spawned(WORKER, 2, "pid 8"))
    assert series.status.pids == {WORKER: 8, PS: 7}
    list(series.take(BEGAN + 4, ev.Progressed(WORKER, 2, 51, {"loss": 1.0})))
    assert points(list(series.sample(BEGAN + 5))) == [("worker:0", "task/step", 51, 5)]


@pytest.mark.parametrize("found", [None, SimpleNamespace(origin=None)], ids=["nothing", "a-mere-directory"])
def test_a_job_is_refused_where_tensorboard_is_not_installed(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    """The error names the command that installs it; a directory of logs with that name does not count."""
    monkeypatch.setattr("clusterkit.job.preflight.importlib.util.find_spec", lambda name: found)
    options: JobOptions = {"program": str(CHILDREN / "reports.py"), "workers": 1}
    with pytest.raises(BadJob) as refused:
        prepare(GivenOptions({**options, "tensorboard": True}))
    assert refused.value.problems == (
        "TensorBoard is not installed beside clusterkit. Install it: pip install tensorboard",
    )
    assert not prepare(GivenOptions(options)).job.tensorboard
