"""The recovery report of jobs that continue with fewer workers."""

from __future__ import annotations

from clusterkit.words.job import RestartRules
from tests.histories import SIGKILL, job, task
from tests.ledger.recovering import Told

RULES = RestartRules(budget=0, min_workers=1)


def test_a_gang_that_continues_with_fewer_workers() -> None:
    """The recovery says who was given up, and how many are left; only they come back."""
    told = Told(job(workers=3, restart=RULES))
    told.run.progresses("worker:0", 10)
    told.run.exits("worker:0", signal=SIGKILL)
    told.run.after(5)
    for name in ("worker:1", "worker:2"):
        told.run.resumes(name, 5, "ckpt-5")
        told.run.progresses(name, 6)
    one = told.one()
    assert [str(back.task) for back in one.returns] == ["worker:1", "worker:2"]
    assert (one.given_up, one.left, one.resumed_step) == ((task("worker:0"),), 2, 5)
    assert one.ended is not None
    told.run.exits("worker:1", code=0)
    told.run.after(30)
    assert told.run.result.given_up == (task("worker:0"),)
    assert told.one() == one


def test_a_coordinator_that_continues_with_fewer_workers() -> None:
    """Nothing restarts, and training went on."""
    told = Told(job(workers=2, ps=1, restart=RULES))
    told.run.progresses("chief:0", 10)
    told.run.exits("worker:0", signal=SIGKILL)
    told.steps("chief:0", 11, 12, 13)
    one = told.one()
    assert (one.returns, one.given_up, one.left) == ((), (task("worker:0"),), 1)
    assert (one.planned, one.went_on, one.lost) == (None, True, 0)
