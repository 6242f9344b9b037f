"""When a run is ready: histories of looks at its tasks."""

from __future__ import annotations

from typing import Any

import pytest

from clusterkit.cli.detached import Readiness, ReadinessCheck
from clusterkit.ledger.status import TaskStatus
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind, Task, TaskState
from clusterkit.words.outcome import Exit
from tests.histories import build_job

PATIENCE = 5.0
RUNS, DOWN, WAITS = TaskState.RUNNING, TaskState.DOWN, TaskState.WAITING
WELL, BADLY = Exit(code=0), Exit(code=1)


class Looking:
    """Looks at tasks, which are given as their changes; a task that is not given stays as it is."""

    def __init__(self, **counts: Any) -> None:
        self.job: JobSpec = build_job({"program": "train.py", **counts}, ProgramKind.SCRIPT)
        self.tasks = {task: TaskStatus(task) for task in self.job.tasks}
        self.readiness = Readiness(self.job, PATIENCE)

    def look(self, now: float, listening: str = "", **changes: dict[str, Any]) -> tuple[str, str, bool]:
        """The names of those that are new and of those that are silent, and whether it is over."""
        for name, change in changes.items():
            for key, value in change.items():
                setattr(self.tasks[Task.parse(name.replace("_", ":"))], key, value)
        found: ReadinessCheck = self.readiness.look(self.tasks, {*map(Task.parse, listening.split())}, now)
        return " ".join(map(str, found.new)), " ".join(map(str, found.silent)), found.over


@pytest.fixture
def two() -> Looking:
    """Two workers, which run."""
    looking = Looking(workers=2)
    assert looking.look(0.0) == ("", "", False)
    assert looking.look(1.0, worker_0={"state": RUNS}, worker_1={"state": RUNS}) == ("", "", False)
    return looking


def test_a_worker_that_is_given_up_is_not_waited_for(two: Looking) -> None:
    """The job continues without it."""
    assert two.look(2.0, "worker:1") == ("worker:1", "", False)
    assert two.look(3.0, "worker:1", worker_0={"state": DOWN, "given_up": True}) == ("", "", True)


def test_each_task_is_told_once(two: Looking) -> None:
    """When it listens, or has reported; ready are all when the last one is."""
    assert two.look(2.0, "worker:1") == ("worker:1", "", False)
    assert two.look(3.0, "worker:1", worker_0={"ready": True}) == ("worker:0", "", True)
    assert two.look(4.0, "worker:1") == ("", "", True)


def test_silent_tasks_are_waited_for_a_while(two: Looking) -> None:
    """From when each of them runs; then it is over, and they are named."""
    assert two.look(5.9) == ("", "", False)
    assert two.look(6.0) == ("", "worker:0 worker:1", True)


def test_a_silent_task_beside_a_ready_one(two: Looking) -> None:
    """Only it is named."""
    assert two.look(6.5, "worker:0") == ("worker:0", "worker:1", True)


def test_a_new_attempt_has_its_own_time(two: Looking) -> None:
    """Also if no look has seen the end of the one before it."""
    assert two.look(5.0, worker_1={"attempt": 1}) == ("", "", False)
    assert two.look(7.0, "worker:0", worker_1={"attempt": 2}) == ("worker:0", "", False)
    assert two.look(8.0, "worker:0", worker_1={"state": WAITS}) == ("", "", False)
    assert two.look(9.0, "worker:0", worker_1={"state": RUNS, "attempt": 3}) == ("", "", False)
    assert two.look(13.9, "worker:0") == ("", "", False)
    assert two.look(14.0, "worker:0") == ("", "worker:1", True)


def test_a_task_that_failed_is_waited_for(two: Looking) -> None:
    """It may be restarted; if not, the run ends."""
    assert two.look(100.0, "worker:0", worker_1={"state": DOWN, "last_exit": BADLY}) == ("worker:0", "", False)
    assert two.look(200.0, "worker:0") == ("", "", False)


def test_a_task_that_ended_well_is_not_waited_for(two: Looking) -> None:
    """It never becomes ready."""
    assert two.look(2.0, "worker:0", worker_1={"state": DOWN, "last_exit": WELL}) == ("worker:0", "", True)


def test_a_task_that_listened_and_restarts_is_not_ready(two: Looking) -> None:
    """It is told again when it is."""
    assert two.look(2.0, "worker:0") == ("worker:0", "", False)
    assert two.look(3.0, "worker:0", worker_0={"state": WAITS}) == ("", "", False)
    assert two.look(4.0, "worker:0 worker:1", worker_0={"state": RUNS}) == ("worker:0 worker:1", "", True)


def test_a_single_process_is_ready_when_it_runs() -> None:
    """Nobody connects to it."""
    looking = Looking(workers=1)
    assert looking.look(0.0) == ("", "", False)
    assert looking.look(1.0, worker_0={"state": RUNS}) == ("worker:0", "", True)


def test_nobody_waits_for_the_evaluator() -> None:
    """It waits for checkpoints itself."""
    looking = Looking(workers=1, ps=1, evaluator=True)
    running = {name: {"state": RUNS} for name in ("chief_0", "worker_0", "ps_0")}
    assert looking.look(1.0, "chief:0 worker:0 ps:0", **running) == ("chief:0 worker:0 ps:0", "", True)
