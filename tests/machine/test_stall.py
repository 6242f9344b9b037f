"""Which task holds the others up, as tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.machine.monitors.stalls import activity_of, stuck_task, verdict
from clusterkit.words.events import Stalled, Vitals
from clusterkit.words.job import Limits
from clusterkit.words.model import Task
from tests.histories import History, job, task
from tests.machine.faulty import with_faults

JOIN, SERVES = Vitals(1, True, "S", "waits in ClusterCoordinator.join"), Vitals(1, True, "S", "waits in Server.join")
RUNTIME = Vitals(1, True, "S", "waits in TensorFlow's runtime")
SPINS, SLEEPS = Vitals(1, True, "R", "is at train.py:7 in spin", own=True), Vitals(1, True, "S", "sleeps", own=True)
STOPPED = Vitals(1, True, "T")


@pytest.mark.parametrize(
    ("steps", "letters", "stuck"),
    [
        ({"chief:0": 9, "worker:0": None, "ps:0": None}, {"ps:0": "T"}, ("ps:0", "is stopped (T)")),
        ({"chief:0": 9, "worker:0": 3}, {"worker:0": "S", "chief:0": "t"}, ("chief:0", "is stopped by a debugger (t)")),
        ({"chief:0": 9, "worker:0": 3}, {"chief:0": "D"}, ("chief:0", "hangs in the kernel (D)")),
        ({"chief:0": 9, "worker:0": 3}, {"chief:0": "D", "worker:0": "T"}, ("worker:0", "is stopped (T)")),
        ({"chief:0": 9, "worker:0": 3, "worker:1": 4}, {}, ("worker:0", "is the furthest behind (step 3)")),
        ({"worker:0": 3, "worker:1": 3}, {}, ("worker:0", "is at step 3")),
        ({"chief:0": None, "worker:0": None}, {"chief:0": "S"}, ("chief:0", "leads the job")),
        ({"worker:0": None, "ps:0": None}, {"ps:0": "R"}, None),
        ({}, {"ps:0": "T"}, None),
    ],
)
def test_who_is_to_blame_for_a_stall(
    steps: dict[str, int | None], letters: dict[str, str], stuck: tuple[str, str] | None
) -> None:
    """Stopped before hanging before behind before leading; only tasks that are alive."""
    vitals = {task(name): Vitals(1, True, letter) for name, letter in letters.items()}
    found = stuck_task(job(workers=2, ps=1), {task(name): step for name, step in steps.items()}, vitals)
    assert (None if found is None else (str(found[0]), found[1])) == stuck


@pytest.mark.parametrize(
    ("steps", "vitals", "said"),
    [
        ((9, 9), (RUNTIME, SPINS), "worker:1 is at train.py:7 in spin; worker:0 waits in TensorFlow's runtime"),
        ((9, None), (RUNTIME, SPINS), "worker:1 is at train.py:7 in spin; worker:0 waits in TensorFlow's runtime"),
        ((None, None), (RUNTIME, SPINS), "worker:1 is at train.py:7 in spin; worker:0 waits in TensorFlow's runtime"),
        ((9, 9), (RUNTIME, STOPPED), "worker:1 is stopped (T); worker:0 waits in TensorFlow's runtime"),
        ((9, 9), (STOPPED, SPINS), "worker:0 is stopped (T); worker:1 is at train.py:7 in spin"),
        ((9, 8), (SLEEPS, SPINS), "worker:1 is the furthest behind (step 8) and is at train.py:7 in spin; "
         "worker:0 sleeps"),
        ((9, 9), (RUNTIME, RUNTIME), "worker:0 is at step 9 and waits in TensorFlow's runtime; worker:1 waits "
         "in TensorFlow's runtime"),
        ((None, None), (RUNTIME, RUNTIME), "worker:0 leads the job and waits in TensorFlow's runtime; worker:1 "
         "waits in TensorFlow's runtime"),
    ],
)  # fmt: skip
def test_who_is_to_blame_where_stacks_tell(
    steps: tuple[int | None, int | None], vitals: tuple[Vitals, Vitals], said: str
) -> None:
    """A task in its own code is to blame before those that wait for it, and only where another one waits."""
    spec, workers = job(workers=2), (task("worker:0"), task("worker:1"))
    seen = dict(zip(workers, vitals, strict=True))
    stuck = stuck_task(spec, dict(zip(workers, steps, strict=True)), seen)
    assert stuck is not None
    assert verdict(spec, stuck, seen) == said


def test_the_servers_of_a_parameter_server_job_are_never_blamed_for_code_of_their_own() -> None:
    """They serve from other threads, whatever the main one does; and nobody is told that they wait to be asked."""
    spec = job(workers=2, ps=1)
    vitals = {task("chief:0"): JOIN, task("worker:0"): SLEEPS, task("worker:1"): SERVES, task("ps:0"): SERVES}
    stuck = stuck_task(spec, {one: 5 if str(one) == "chief:0" else None for one in vitals}, vitals)
    assert stuck == (task("chief:0"), "is at step 5 and waits in ClusterCoordinator.join")
    stopped = {**vitals, task("worker:1"): STOPPED}
    stuck = stuck_task(spec, dict.fromkeys(stopped), stopped)
    assert stuck is not None
    assert verdict(spec, stuck, stopped) == "worker:1 is stopped (T); chief:0 waits in ClusterCoordinator.join"


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (3, "worker:2 is stopped (T); worker:0 waits in TensorFlow's runtime, as does worker:1"),
        (4, "worker:3 is stopped (T); worker:0 waits in TensorFlow's runtime, as do worker:1 and worker:2"),
        (9, "worker:8 is stopped (T); worker:0 waits in TensorFlow's runtime, as do worker:1, worker:2, "
         "worker:3 and 4 more"),
    ],
)  # fmt: skip
def test_a_verdict_names_a_few_of_many_that_do_the_same(workers: int, said: str) -> None:
    """Each thing that tasks do is said once."""
    spec = job(workers=workers)
    vitals = {**dict.fromkeys(spec.tasks, RUNTIME), spec.tasks[-1]: STOPPED}
    assert verdict(spec, (spec.tasks[-1], "is stopped (T)"), vitals) == said


def test_where_a_late_task_is() -> None:
    """Stopped, or what its stack says, or nothing."""
    worker = task("worker:1")
    assert activity_of(worker, {worker: STOPPED}) == "worker:1 is stopped (T)"
    assert activity_of(worker, {worker: SLEEPS}) == "worker:1 sleeps"
    assert activity_of(worker, {worker: Vitals(1, False, "S")}) == "worker:1"


MEMORY_ERROR = replace(RUNTIME, error="MemoryError")
AT_WORK = replace(SPINS, error="ValueError: no such row")
FAULT = {task("worker:1"): "memory worker:1"}


@pytest.mark.parametrize(
    ("steps", "vitals", "faults", "said"),
    [
        ((9, 9), (RUNTIME, MEMORY_ERROR), {}, "worker:1 has raised MemoryError and waits in TensorFlow's runtime; "
         "worker:0 waits in TensorFlow's runtime"),
        ((8, 9), (RUNTIME, MEMORY_ERROR), {}, "worker:1 has raised MemoryError and waits in TensorFlow's runtime; "
         "worker:0 waits in TensorFlow's runtime"),
        ((9, 9), (SPINS, MEMORY_ERROR), FAULT, "worker:1 has raised MemoryError and waits in TensorFlow's runtime; "
         "worker:0 is at train.py:7 in spin"),
        ((9, 9), (STOPPED, MEMORY_ERROR), {}, "worker:0 is stopped (T); worker:1 waits in TensorFlow's runtime"),
        ((9, 9), (RUNTIME, RUNTIME), FAULT, "worker:1 is under the fault memory worker:1 and waits in TensorFlow's "
         "runtime; worker:0 waits in TensorFlow's runtime"),
        ((8, 9), (RUNTIME, RUNTIME), FAULT, "worker:1 is under the fault memory worker:1 and waits in TensorFlow's "
         "runtime; worker:0 waits in TensorFlow's runtime"),
        ((9, 9), (SPINS, RUNTIME), FAULT, "worker:0 is at train.py:7 in spin; worker:1 waits in TensorFlow's runtime"),
        ((9, 9), (AT_WORK, RUNTIME), {}, "worker:0 has raised ValueError: no such row and is at train.py:7 in spin; "
         "worker:1 waits in TensorFlow's runtime"),
    ],
)  # fmt: skip
def test_an_exception_and_an_open_fault_outweigh_who_is_behind(
    steps: tuple[int, int], vitals: tuple[Vitals, Vitals], faults: dict[Task, str], said: str
) -> None:
    """A thread may have died of the exception while the main thread waits; a task in its own code is seen to be."""
    spec, workers = job(workers=2), (task("worker:0"), task("worker:1"))
    seen = dict(zip(workers, vitals, strict=True))
    stuck = stuck_task(spec, dict(zip(workers, steps, strict=True)), seen, faults)
    assert stuck is not None
    assert verdict(spec, stuck, seen) == said


def test_the_task_under_an_open_fault_is_killed_for_the_stall() -> None:
    """And not the leader, which waits for it."""
    run = with_faults("memory worker:1 @ step=1", ps=0)
    run.job = run.machine.state.job = replace(run.job, limits=Limits(startup=0, stall_warning=0, stall=30))
    run.begin()
    run.vitals = {"worker:0": RUNTIME, "worker:1": RUNTIME}
    for name in ("worker:0", "worker:1"):
        run.progresses(name, 1)
    run.after(31)
    (stalled,) = run.decided(Stalled)
    assert stalled.task == task("worker:1")
    assert "worker:1 is under the fault memory worker:1" in stalled.text


def test_memory_that_grew_is_told_with_the_stall() -> None:
    """Of any task; it may be why nothing goes on."""
    run = History(job(workers=2)).begin()
    for name in ("worker:0", "worker:1"):
        run.progresses(name, 1)
    run.vitals["worker:1"] = replace(RUNTIME, growth="grew from 412 MB to 3100 MB within 40 s")
    run.after(61)
    assert " The memory of worker:1 grew from 412 MB to 3100 MB within 40 s. What was seen of" in run.warnings[0]
