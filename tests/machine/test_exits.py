"""A chief whose program has ended, and which can't exit: it is told after a while, with what it may wait for."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from tests.histories import SIGKILL, History, job, task

CHIEF = task("chief:0")


def ending(*dead: str) -> History:
    """A job whose chief has nothing left to do, beside workers that have just been killed."""
    run = History(job(workers=2, ps=1)).begin()
    run.send(ev.Ready(task("worker:0"), 1))
    run.after(10)
    run.progresses("chief:0", 400)
    for name in dead:
        run.exits(name, signal=SIGKILL)
    run.after(1)
    run.send(ev.ProgramEnds(CHIEF, 1))
    return run


@pytest.mark.parametrize(
    ("dead", "down"), [((), ()), (("worker:1",), ("worker:1",)), (("worker:0", "worker:1"), ("worker:0", "worker:1"))]
)
def test_a_chief_that_can_not_exit_is_told_after_ten_seconds(dead: tuple[str, ...], down: tuple[str, ...]) -> None:
    """Once; a worker that is on its way up again is down as well."""
    run = ending(*dead)
    run.after(9.9)
    assert run.decided(ev.CannotExit) == []
    run.after(60)
    assert run.decided(ev.CannotExit) == [ev.CannotExit(CHIEF, 1, 10.0, tuple(map(task, down)))]


def test_a_worker_that_is_back_is_not_waited_for() -> None:
    """It serves again; so it is not why the chief hangs."""
    run = ending("worker:1")
    run.send(ev.Ready(task("worker:1"), 2))
    run.after(20)
    assert [event.down for event in run.decided(ev.CannotExit)] == [()]


def test_a_paused_server_is_down() -> None:
    """It answers nobody."""
    run = History(job(workers=2, ps=1)).begin()
    run.send(ev.Requested(1, ev.Verb.PAUSE, (task("ps:0"),)))
    run.send(ev.ProgramEnds(CHIEF, 1))
    run.after(20)
    assert [event.down for event in run.decided(ev.CannotExit)] == [(task("ps:0"),)]


@pytest.mark.parametrize("how", ["exits", "continues", "is ended", "restarts"])
def test_nothing_is_said_of_a_chief_that_does_exit(how: str) -> None:
    """Nor of one that has only deleted one of its coordinators, or is being ended."""
    run = ending()
    run.stubborn.add("chief:0")
    run.after(5)
    if how == "exits":
        run.exits("chief:0", code=0)
    elif how == "continues":
        run.send(ev.ProgramEnds(CHIEF, 1, begun=False))
    elif how == "is ended":
        run.send(ev.Requested(1, ev.Verb.DOWN))
    else:
        run.exits("ps:0", signal=SIGKILL)
    run.after(30)
    assert run.decided(ev.CannotExit) == []
