"""A task's reports of the stages of its start: each once, without an effect on the program."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import stages, steps
from clusterkit.task.patches.steps import Steps
from tests.support import load
from tests.task.counted import Reports


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reports]:
    """A pipe to a supervisor, and a task that has reached no stage."""
    made = Reports(tmp_path / "progress")
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setenv("CLUSTERKIT_ATTEMPT", "3")
    monkeypatch.setattr(stages, "reached", set())
    monkeypatch.setattr(steps, "steps", Steps())
    yield made
    os.close(made.fd)


def told(reports: Reports) -> list[str]:
    """The stages that have been reported."""
    found = reports.read()
    assert all((one["kind"], one["attempt"]) == ("stage", 3) for one in found)
    return [one["stage"] for one in found]


class Server:
    """TensorFlow's server, or any class with a constructor."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take anything."""


class Coordinator(Server):
    """A ClusterCoordinator."""

    def schedule(self, number: int) -> int:
        """Return what it gets."""
        return number


class CallbackList(Server):
    """Keras's."""

    def on_train_begin(self, logs: Any = None) -> str:
        """Return something."""
        return "result"


def make_coordinator() -> None:
    """Schedule three steps."""
    coordinator = Coordinator("strategy")
    assert [coordinator.schedule(number) for number in range(3)] == [0, 1, 2]


def begin_fit() -> None:
    """Begin two fits."""
    assert [CallbackList().on_train_begin() for _ in range(2)] == ["result", "result"]


@pytest.mark.parametrize(
    ("watch", "module", "use", "reached"),
    [
        (stages.watch_import, {}, lambda: None, ["imported"]),
        (stages.watch, {"Server": Server}, lambda: (Server("def"), Server()), ["serving"]),
        (stages.watch, {"CollectiveAllReduceStrategy": Server}, Server, ["connected"]),
        (stages.watch, {"ClusterCoordinator": Coordinator}, make_coordinator, ["connected", "prepared"]),
        (stages.watch, {"CallbackList": CallbackList}, begin_fit, ["prepared"]),
    ],
    ids=["import", "server", "strategy", "coordinator", "fit"],
)
def test_each_stage_is_reported_once(
    watch: Callable[..., None], module: dict[str, type], use: Callable[[], object], reached: list[str],
    reports: Reports, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The patched methods have their usual results, however often they are called."""
    for kind in module.values():  # keeps what the patch replaces
        for name in vars(kind).copy():
            if name in {"__init__", "schedule", "on_train_begin"}:
                monkeypatch.setattr(kind, name, vars(kind)[name])
    watch(SimpleNamespace(**module), load)
    use()
    assert told(reports) == reached


def test_a_fork_of_the_task_reports_nothing(reports: Reports) -> None:
    """For example a worker process of a data loader."""
    if (pid := os.fork()) == 0:
        stages.reach(load, "imported")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert told(reports) == []
    stages.reach(load, "imported")
    assert told(reports) == ["imported"]


def test_a_supervisor_that_is_gone_or_late_does_not_matter(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nobody reads, or the pipe is full or missing, the program continues at once, with no descriptor left open."""
    pipe = os.environ["CLUSTERKIT_PROGRESS"]
    assert ends_of(pipe) == 1
    filler = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(filler, bytes(1 << 16))
    except BlockingIOError:
        pass
    stages.reach(load, "imported")
    os.close(filler)
    monkeypatch.setattr(steps.steps, "path", pipe + "-that-is-not-there")
    stages.reach(load, "serving")
    monkeypatch.setattr(steps.steps, "path", None)
    stages.reach(load, "connected")
    assert ends_of(pipe) == 1


def ends_of(pipe: str) -> int:
    """The number of this process's descriptors for a pipe; pytest's worker may open others for a moment."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # such as the listing's own
            count += link.samefile(pipe)
    return count
