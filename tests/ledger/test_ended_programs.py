"""Goodput of a program that has ended, and whose process hangs."""

from __future__ import annotations

from clusterkit.words import events as ev
from tests.histories import SIGKILL, task
from tests.ledger.splitting import BEGUN, ps_job


def test_what_a_program_that_has_ended_waits_for_is_no_training() -> None:
    """Nor is it the restart of the worker that it waits for; a program that continues trains again."""
    told = ps_job()
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.send(ev.ProgramEnds(task("chief:0"), 1))
    told.run.after(118)
    told.ready("worker:1")
    told.run.after(2)
    assert told.parts == BEGUN | {"ending": 120.0}
    assert told.most == "the end, 120.0 s between the last step and the end of the run"
    told.run.send(ev.ProgramEnds(task("chief:0"), 1, begun=False))
    told.steps("chief:0", 11, 12)
    assert told.parts == BEGUN | {"ending": 120.0, "recovering": 0.1, "training": 1.1}
