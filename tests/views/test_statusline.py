"""The status line: tables of runs and widths."""

from __future__ import annotations

import re

import pytest

from clusterkit.ledger.ledger import Ledger, ledger_of
from clusterkit.ledger.status import RunStatus
from clusterkit.text.printable import columns
from clusterkit.views.statusline import status_line
from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import Exit as Ended
from clusterkit.words.outcome import Failure, RunResult, RunState
from tests.histories import job, task

JOB = job(workers=2, ps=1)
CHIEF, WORKER = task("chief:0"), task("worker:1")
FAILURE = Failure(WORKER, 1, Ended(signal=9), 5.0)
RESTART = ev.RestartPlanned((WORKER,), FAILURE, (), 1.0, 1, 3)
AGAIN: list[tuple[float, ev.Event]] = [
    (1.0, RESTART),
    (1.0, ev.Changed(WORKER, 2, TaskState.STARTING)),
    (1.0, ev.Changed(WORKER, 2, TaskState.RUNNING)),
]
SIGINT = "clusterkit got SIGINT"


def running(*events: tuple[float, ev.Event], spec: JobSpec = JOB) -> RunStatus:
    """The status of a run all of whose tasks run, after these events."""
    up = [(0.0, ev.Changed(one, 1, TaskState.RUNNING)) for one in spec.tasks]
    return ledger_of(spec, [(0.0, ev.Began()), *up, *events]).run


def steps(*made: int, total: int | None = None) -> list[tuple[float, ev.Event]]:
    """Reports of the chief, one a second."""
    return [(float(second), ev.Progressed(CHIEF, 1, step, {}, total)) for second, step in enumerate(made)]


@pytest.mark.parametrize(
    ("status", "now", "line"),
    [
        (Ledger(JOB).run, 0.0, "4 waiting"),
        (running(), 0.4, "4 running · 0 s"),
        (running((1.0, ev.Changed(WORKER, 2, TaskState.STARTING))), 200.0, "3 running, 1 starting · 3 min 20 s"),
        (running((1.0, ev.Paused(WORKER, 1, True))), 9.0, "3 running, 1 paused · 9 s"),
        (running(*steps(5)), 12.0, "4 running · step 5 · 12 s"),
        (running(*steps(10, 20), *AGAIN), 2.0, "4 running · step 20 · 10.0 steps/s · 1 restart · 2 s"),
        (running(*steps(20, total=100)), 2.0, f"4 running · step  20 of 100 · {'━' * 5}{'─' * 21}  20% · 2 s"),
        (running(*steps(100, total=100)), 2.0, f"4 running · step 100 of 100 · {'━' * 26} 100% · 2 s"),
        (running(*steps(101, total=100)), 2.0, "4 running · step 101 · 2 s"),
        (running(*steps(0, total=0)), 2.0, "4 running · step 0 of 0 · 2 s"),
        (
            running((7.0, ev.Exited(WORKER, 1, Ended(code=0))), (8.0, ev.Changed(WORKER, 1, TaskState.DOWN))),
            9.0,
            "3 running, 1 done · 9 s",
        ),
        (
            running((7.0, ev.Exited(WORKER, 1, Ended(code=1))), (8.0, ev.Changed(WORKER, 1, TaskState.DOWN))),
            9.0,
            "3 running, 1 down · 9 s",
        ),
        (running((9.0, ev.Stopping("clusterkit got SIGTERM", (WORKER,), 10.0))), 9.0, "4 running · 9 s"),
        (running((9.0, ev.Finished(RunResult(RunState.SUCCEEDED, 0, "", None, (), (), 0, None, 1.0)))), 9.0, ""),
    ],
)
def test_what_the_line_says(status: RunStatus, now: float, line: str) -> None:
    """Tasks by their states, and what else is known."""
    assert status_line(status, now, 67) == line


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (200, f"4 running · step  60 of 240 · {'━' * 10}{'─' * 30}  25% · 20.0 steps/s · 2 restarts · 6 s"),
        (79, f"4 running · step  60 of 240 · {'━' * 2}{'─' * 8}  25% · 20.0 steps/s · 2 restarts · 6 s"),
        (78, f"4 running · step  60 of 240 · {'━' * 3}{'─' * 12}  25% · 20.0 steps/s · 2 restarts"),
        (70, f"4 running · step  60 of 240 · {'━' * 5}{'─' * 17}  25% · 2 restarts"),
        (45, f"4 running · step  60 of 240 · {'━' * 2}{'─' * 8}  25%"),
        (44, "4 running · step  60 of 240"),
        (27, "4 running · step  60 of 240"),
        (26, "4 running"),
        (8, "4 runni…"),
        (1, "…"),
        (0, ""),
        (-3, ""),
    ],
)
def test_what_has_no_room_is_left_out_in_order(width: int, line: str) -> None:
    """The time first, then the speed, the restarts, the bar and the steps."""
    status = running(*steps(20, 40, 60, total=240), *AGAIN, *AGAIN)
    assert status_line(status, 6.9, width) == line


@pytest.mark.parametrize("color", [False, True])
def test_it_never_exceeds_the_width(color: bool) -> None:
    """Whatever is known, at any width, with many tasks and with few."""
    many = running(*((1.0, ev.Changed(one, 1, state)) for one, state in zip(JOB.tasks, TaskState, strict=False)))
    stopping = running((9.0, ev.Stopping(SIGINT, tuple(JOB.tasks), 10.0, interrupted=True)), spec=job(workers=60))
    for status in (many, stopping, running(*steps(7, 2**60, total=2**61), (1.0, RESTART)), Ledger(None).run):
        for width in range(200):
            line = status_line(status, 1e9, width, color)
            assert columns(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= width
            assert "\n" not in line


def test_ctrl_c_is_answered_as_long_as_it_waits() -> None:
    """For those tasks that still run; a second one ends the waiting."""
    workers = tuple(job(workers=3).tasks)
    events: list[tuple[float, ev.Event]] = [
        (9.0, ev.Interrupted(2)), (9.0, ev.Stopping(SIGINT, workers, 10.0, interrupted=True)),
    ]  # fmt: skip
    status = running(*events, spec=job(workers=3))
    assert status_line(status, 9.0, 80) == (
        "Waiting up to 10 s for worker:0, worker:1 and worker:2; Ctrl-C again kills."
    )
    assert status_line(status, 9.0, 60) == "Waiting up to 10 s for 3 tasks; Ctrl-C again kills."
    assert status_line(status, 9.0, 30) == "Waiting up to 10 s for 3 task…"
    assert status_line(status, 9.0, 80, color=True).startswith("\x1b[1mWaiting")
    events.append((9.5, ev.Changed(workers[0], 1, TaskState.DOWN)))
    status = running(*events, spec=job(workers=3))
    assert status_line(status, 9.0, 80) == "Waiting up to 10 s for worker:1 and worker:2; Ctrl-C again kills."
    status = running(*events, (9.6, ev.Interrupted(2)), spec=job(workers=3))
    assert status_line(status, 9.7, 80) == "1 down, 2 running · 9 s"
