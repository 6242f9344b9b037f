"""Named deadlines."""

from __future__ import annotations

from clusterkit.machine.timers import Timer, Timers
from tests.histories import task

WORKER, PS = task("worker:0"), task("ps:0")


def test_deadlines_come_out_once_and_earliest_first() -> None:
    """Also those that share a moment; what is later stays."""
    timers = Timers()
    timers.set(Timer.KILL, 5.0, WORKER)
    timers.set(Timer.JOB, 2.0)
    timers.set(Timer.KILL, 3.0, PS)
    timers.set(Timer.STALL, 9.0)
    assert timers.next_deadline() == 2.0
    assert timers.pop_due(1.9) == []
    assert timers.pop_due(5.0) == [(Timer.JOB, None), (Timer.KILL, PS), (Timer.KILL, WORKER)]
    assert timers.pop_due(5.0) == []
    assert timers.next_deadline() == 9.0


def test_setting_again_moves_a_deadline() -> None:
    """There is at most one for each name and task."""
    timers = Timers()
    timers.set(Timer.DRAIN, 1.0, WORKER)
    timers.set(Timer.DRAIN, 4.0, WORKER)
    assert timers.pop_due(3.0) == []
    assert timers.pop_due(4.0) == [(Timer.DRAIN, WORKER)]


def test_clearing_forgets_one_deadline_and_no_other() -> None:
    """Of the same name for another task, or of another name for the same task."""
    timers = Timers()
    timers.set(Timer.KILL, 1.0, WORKER)
    timers.set(Timer.KILL, 1.0, PS)
    timers.set(Timer.STARTUP, 1.0, WORKER)
    timers.clear(Timer.KILL, WORKER)
    timers.clear(Timer.KILL, WORKER)
    assert set(timers.pop_due(1.0)) == {(Timer.KILL, PS), (Timer.STARTUP, WORKER)}
    assert timers.next_deadline() is None
