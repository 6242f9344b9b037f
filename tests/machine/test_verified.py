"""The verdict of --verify is recorded once, and decides the exit code of a job that succeeds."""

from __future__ import annotations

import pytest

from clusterkit.machine.core import Machine
from clusterkit.words import events as ev
from clusterkit.words.actions import Record
from clusterkit.words.outcome import RunState
from clusterkit.words.verification import Equality, Verification
from tests.histories import History, job


@pytest.mark.parametrize(
    ("equality", "code", "exit_code", "state"),
    [
        (Equality.EQUAL, 0, 0, RunState.SUCCEEDED),
        (Equality.NOT_COMPARABLE, 0, 0, RunState.SUCCEEDED),
        (Equality.DIFFERENT, 0, 3, RunState.SUCCEEDED),
        (Equality.DIFFERENT, 1, 1, RunState.FAILED),
    ],
)
def test_the_exit_code(equality: Equality, code: int, exit_code: int, state: RunState) -> None:
    """A difference means that the job ended well, but not as asked; a failure stays one."""
    run = History(job(workers=1)).begin()
    run.machine.ending.verification = Verification(equality, 5)
    for _ in range(4 if code else 1):
        run.exits("worker:0", code=code)
        run.after(60)
    assert (run.result.exit_code, run.result.state) == (exit_code, state)
    assert run.result.verification == Verification(equality, 5)
    assert run.result.fine == (exit_code == 0)


def test_it_is_recorded_when_the_run_begins() -> None:
    """As an event of the journal, from which all views take it."""
    verdict = Verification(Equality.EQUAL, 5)
    actions = Machine(job(workers=2), 0).handle(ev.Began((), verdict), 0.0)
    assert [one.event for one in actions if isinstance(one, Record) and isinstance(one.event, ev.Verified)] == [
        ev.Verified(verdict)
    ]
