"""What is drawn of a curve beside the journal: a point is a report, and no line crosses what interrupted it."""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from clusterkit.ledger.attempts import Attempt
from clusterkit.page.model.board import Points
from clusterkit.page.model.drawn import RARELY, SOON, Drawn, drawn
from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit
from tests.histories import job, task
from tests.page.histories import model_of, random_history, stamped

SEEDS = range(40)
WORKER = task("worker:0")
NEAR = 0.002  # seconds, since times are rounded to milliseconds


def lines(curve: Drawn) -> list[tuple[float, float]]:
    """The lines that are drawn, from when to when."""
    ends = zip(pairwise(curve["t"]), pairwise(curve["v"]), strict=True)
    return [(a or 0, b or 0) for (a, b), (v, w) in ends if v is not None and w is not None]


def points_of(curve: Drawn) -> list[tuple[float, float]]:
    """The points that are drawn."""
    return [(t or 0, v) for t, v in zip(curve["t"], curve["v"], strict=True) if v is not None]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_drawn_that_the_journal_does_not_have(seed: int) -> None:
    """Of random runs: every point is a report; no line crosses an end, a start, a pause or a long silence."""
    spec, happened = random_history(seed)
    model = model_of(spec, happened)
    began = happened[0].clock
    for of in spec.tasks:
        curve = model.curve("step", str(of), 2000)
        if curve is None:
            continue
        reports, breaks = journal_of([(one.clock - began, one.event) for one in happened], of)
        for at, value in points_of(curve):
            assert any(abs(at - t) < NEAR and value == v for t, v in reports), (seed, of, at)
        usual = [b - a for a, b in pairwise(sorted({round(t, 3) for t, _ in points_of(curve)}))]
        far = max(SOON, RARELY * statistics.median(usual)) if usual else SOON
        for a, b in lines(curve):
            assert b - a <= far + NEAR, (seed, of, a, b)
            assert not [at for at in breaks if a + NEAR < at < b - NEAR], (seed, of, a, b)


def journal_of(events: list[tuple[float, ev.Event]], of: Task) -> tuple[list[tuple[float, int]], list[float]]:
    """The reports of a task, and when something interrupted its newest attempt."""
    reports, breaks, newest = list[tuple[float, int]](), list[float](), 0
    for at, event in events:
        if getattr(event, "task", None) != of or not hasattr(event, "attempt"):
            continue
        if isinstance(event, ev.Progressed):
            reports.append((at, event.step))
        elif event.attempt < newest:  # the histories have stray events of attempts that are over
            continue
        elif isinstance(event, ev.Exited | ev.Spawned) or (isinstance(event, ev.Paused) and event.paused):
            breaks.append(at)
        newest = max(newest, event.attempt)
    return reports, breaks


def steps(*times: float) -> Points:
    """A report at each of these times."""
    return {"t": list(times), "v": list(times), "low": list(times), "high": list(times)}


def test_a_pause_a_stall_and_a_silence_are_gaps() -> None:
    """Also the one that goes on: nothing is drawn after it, and the use of the CPU is drawn all the while."""
    attempt = Attempt(WORKER, 1, 0.0)
    attempt.stop(3.0, "stopped", "paused")
    attempt.continue_at(3.4, "stopped")
    attempt.stop(6.0, "stalled", "stalled")
    told = steps(1, 2, 3, 3.5, 4.5, 5.5, 6)
    assert drawn(told, [attempt], 6.5)["v"] == [1, 2, 3, None, 3.5, 4.5, 5.5, 6, None]
    assert None not in drawn(told, [attempt], 6.5, is_reported=False)["v"]
    assert drawn(steps(1, 2, 3, 9, 10), [], 20)["v"] == [1, 2, 3, None, 9, 10, None]
    assert drawn(steps(), [attempt], 1)["v"] == []


def test_an_attempt_ends_its_line_and_what_is_computed_again_is_marked() -> None:
    """The steps since the checkpoint that the next attempt resumed from."""
    events: list[tuple[float, ev.Event]] = [(0.0, ev.Began()), (0.0, ev.Spawned(WORKER, 1, "pid 1"))]
    events += [(1 + n / 10, ev.Progressed(WORKER, 1, n)) for n in range(5)]
    events += [(1.45, ev.Exited(WORKER, 1, Exit(signal=9))), (1.46, ev.Spawned(WORKER, 2, "pid 2"))]
    events += [(1.47, ev.Resumed(WORKER, 2, 2, "ckpt-2"))]
    events += [(1.5 + n / 10, ev.Progressed(WORKER, 2, n)) for n in range(3, 6)]
    curve = model_of(job(workers=1), stamped(events)).curve("step", "worker:0", 100)
    assert curve is not None
    assert curve["v"][:6] == [0, 1, 2, 3, 4, None]
    assert curve["again"] == [0, 0, 0, 1, 1, 0, 0, 0, 0]


def test_the_speed_of_a_live_run_ends_with_its_reports() -> None:
    """Long after the last one, there is a gap up to now."""
    events: list[tuple[float, ev.Event]] = [(0.0, ev.Began()), (0.0, ev.Spawned(WORKER, 1, "pid 1"))]
    events += [(1 + n / 10, ev.Progressed(WORKER, 1, n)) for n in range(5)]
    model = model_of(job(workers=1), stamped(events), live=True)
    curve = model.curve("step", "worker:0", 100)
    assert curve is not None
    assert curve["v"][-1] is None
    assert model.curve("step", "worker:7", 100) is None
