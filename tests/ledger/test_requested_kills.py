"""Which deaths a user had requested, checked against another way to work it out."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from tests.histories import SIGKILL, task
from tests.ledger.recovering import gang


@pytest.mark.parametrize(("signal", "tasks", "known"), [(9, ("worker:1",), True), (9, (), True), (15, (), False)])
def test_a_kill_that_was_requested(signal: int, tasks: tuple[str, ...], known: bool) -> None:
    """Of the attempt that ran then, by that signal alone; a later death of the task is another matter."""
    told = gang()
    told._observe(ev.Requested(1, ev.Verb.KILL, tuple(map(task, tasks)), signal), told.run.now)
    for requested in (known, False):
        told.run.exits("worker:1", signal=SIGKILL)
        told.run.after(20)
        for worker in ("worker:0", "worker:1"):
            told.run.resumes(worker, 20, "ckpt-20")
            told.run.progresses(worker, 21)
        cause = told.report.recoveries[-1].cause
        assert cause is not None
        assert cause.requested is requested
