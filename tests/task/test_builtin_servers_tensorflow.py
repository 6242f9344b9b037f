"""`--servers builtin` with real TensorFlow: programs with only the coordinator's code train and recover."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from clusterkit import Cluster
from clusterkit.network.virtual import why_not
from tests.support import CHILDREN, Up, wait_until

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]

COORDINATES = CHILDREN / "coordinates.py"
CORES = sorted(os.sched_getaffinity(0))
PATIENCE = 200.0
JOB = ("--workers", "2", "--ps", "1", "--servers", "builtin", "--progress-regex", r"step (\d+)")


def threads(pid: int | str) -> dict[str, list[set[int]]]:
    """A process's threads by name, each with its allowed cores."""
    found: dict[str, list[set[int]]] = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            name, places = (thread / "comm").read_text().strip(), os.sched_getaffinity(int(thread.name))
            found.setdefault(name, []).append(places)
    return found


def named_threads(pid: int | str) -> dict[str, list[set[int]]]:
    """The same, once two threads run operations: each sets its name when it first runs."""
    wait_until(lambda: len(threads(pid).get("tf_Compute", [])) > 1, 20, lambda: f"two in {threads(pid)}")
    return threads(pid)


@pytest.mark.both_starts
def test_a_coordinators_program_trains_on_cores_of_each_task_and_its_worker_comes_back(
    up: Callable[..., Up], tmp_path: Path
) -> None:
    """Every thread of TensorFlow is on its task's core, also in the second attempt; the ps is killed as well."""
    enough = tmp_path / "enough"
    run = up(*JOB, "--cpus-per-task", "1", "--restart-backoff", "0.1", COORDINATES, "500", enough)
    run.wait_for_step(100, 120)
    run.kill("worker:1")
    again = run.wait_for("Ready", task="worker:1", attempt=2)
    run.wait_for_step(200, 60, after=again["m"])
    for number, task in enumerate(("worker:0", "worker:1")):
        seen = named_threads(run.pids()[task][-1])
        own = {CORES[number % len(CORES)]}
        assert {name: places for name, places in seen.items() if any(place != own for place in places)} == {}
    run.kill("ps:0")
    run.wait_for("Exited", task="ps:0")  # so that the first coordinator can't have ended well
    enough.touch()
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    assert {task: len(pids) for task, pids in run.pids().items()} == {
        "chief:0": 2,
        "worker:0": 1,
        "worker:1": 2,
        "ps:0": 2,
    }
    assert b"weight 3.00" in run.log("chief:0", 2)


def coordinate() -> float:
    """Train; TensorFlow is imported only in the task."""
    from tests.children.coordinates import coordinate

    return float(coordinate(500))


@pytest.mark.long
def test_a_function_that_coordinates_is_called_in_the_chief_alone(home: Path) -> None:
    """Its value is returned, and servers have none; with a virtual network, if the machine supports it."""
    network: Literal["host", "virtual"] = "host" if why_not(network=True, disk=False) else "virtual"
    with Cluster(
        coordinate, workers=2, ps=1, servers="builtin", network=network, home=home, patience=PATIENCE
    ) as cluster:
        returns = cluster.wait().returns
    assert returns == {"chief:0": pytest.approx(3.0, abs=0.01)}


def compute() -> dict[str, list[set[int]]]:
    """Make TensorFlow create its threads, and return them all."""
    import tensorflow as tf

    tf.function(lambda: tf.random.normal((400, 400)) @ tf.random.normal((400, 400)))()
    return named_threads("self")


def test_tensorflow_has_as_many_threads_as_its_task_has_cores(home: Path) -> None:
    """One inside operations, named as the process, and at least two that run operations."""
    with Cluster(compute, cpus_per_task=1, home=home, patience=PATIENCE) as cluster:
        seen = cluster.wait().returns["worker:0"]
    counts = {name: len(places) for name, places in seen.items()}
    assert counts.pop("tf_Compute") == 2
    assert max(counts.values()) == 2  # the main thread, and that one
    assert [place for places in seen.values() for place in places if place != {CORES[0]}] == []
