"""Rows about workers that wait for another worker: at startup, or because that worker gets no data."""

from __future__ import annotations

from clusterkit.explain.gangs import IN_A_STEP
from clusterkit.explain.row import Evidence, Row, Words
from clusterkit.text.spelling import listed
from clusterkit.words.model import Shape

_TWO = ("--workers", "2")
_WAITS_FOR_DATA = "waits for its next batch"
_WAITS = "waits in MultiWorkerMirroredStrategy()"


def _late(evidence: Evidence) -> Words | None:
    """Check whether, at the startup timeout, some tasks wait in the strategy for tasks that still run other code."""
    waits = [str(task.task) for task in evidence.stuck if task.doing.startswith(_WAITS)]
    late = [task for task in evidence.stuck if not task.doing.startswith(_WAITS) and task.where and not task.listens]
    if not waits or not late:
        return None
    return {"late": str(late[0].task), "doing": late[0].doing, "waits": listed(waits)}


def _left(evidence: Evidence) -> Words | None:
    """Check whether a task of a gang ended without an error before it connected, while other tasks still ran."""
    first, job = evidence.first, evidence.job
    if job is None or job.shape is not Shape.MULTI_WORKER or first.exit is None or not first.exit.ok:
        return None
    waits = [task.name for task in evidence.tasks[1:] if task.exit is not None and task.exit.asked is not None]
    return {"waits": listed(waits)} if waits and first.connected is False and first.step is None else None


def _no_data(evidence: Evidence) -> Words | None:
    """Check whether, in a stall, all main threads wait, and just one task runs the program's code in another thread."""
    stalled = evidence.stalled
    if len(stalled) < 2 or not all(task.doing.startswith((*IN_A_STEP, _WAITS_FOR_DATA)) for task in stalled):
        return None
    busy = [task for task in stalled if task.threads]
    if len(busy) != 1:
        return None
    waits = listed([str(task.task) for task in stalled if task is not busy[0]])
    return {"busy": str(busy[0].task), "place": busy[0].threads[0], "waits": waits}


ROWS: tuple[Row, ...] = (
    Row(
        "late-to-the-strategy",
        "MultiWorkerMirroredStrategy() hangs: another worker has not come to make its own yet",
        "",
        "{late} {doing} and has not made its strategy yet, so that MultiWorkerMirroredStrategy() does not return in "
        "{waits}.",
        "Make the strategy first in each worker, and prepare or download data afterwards; or give the start more time: "
        "--startup-timeout 10m.",
        _late,
        example=(*_TWO, "--startup-timeout", "15s"),
        facts_only=True,
    ),
    Row(
        "ends-before-the-strategy",
        "MultiWorkerMirroredStrategy() hangs: another worker has ended its program before it made a strategy",
        "",
        "{task} ended its program without an error and without connecting to the other workers, and {waits} waited for "
        "it.",
        "Let every worker make the strategy and train; leave out conditions on the task before it, and sys.exit().",
        _left,
        example=(*_TWO, "--startup-timeout", "15s"),
        facts_only=True,
        over=("leaves-early",),
    ),
    Row(
        "data-of-one-worker",
        "All workers hang in a step: one of them gets no data from its generator",
        "",
        "{busy} waits for data: the code that makes it is at {place} and does not continue, so that {waits} cannot "
        "finish the step either.",
        "Let a generator, a py_function or a PyDataset end or raise an exception instead of waiting for ever, and give "
        "each worker as much data as the others.",
        _no_data,
        example=(*_TWO, "--stall-timeout", "8s"),
        facts_only=True,
        over=("waits-alone",),
    ),
)
