"""Which steps are a recovery's new ones: those of tasks that live and train, none of a gang that is on its way out."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.job import RestartPolicy, RestartRules
from tests.histories import SIGKILL, SIGSEGV, job, task
from tests.ledger.recovering import UNAVAILABLE, Told, gang, ps_job


def test_a_gang_of_which_one_worker_reports_is_up_with_its_first_step() -> None:
    """A step of a mirrored job takes all of its workers, so none is up later than that."""
    told = gang()
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(4)
    told.run.resumes("worker:0", 20, "/c/ckpt-20")
    told.run.after(1)
    told.run.progresses("worker:0", 21)
    told.run.after(3)
    told.run.progresses("worker:1", 25)
    one = told.one()
    assert one.first_step == one.up == one.ended == pytest.approx(15.0)


def test_a_parameter_server_is_up_with_the_first_step() -> None:
    """The chief can't step without it, also where it says that it is ready later."""
    told = ps_job()
    told.run.exits("ps:0", signal=SIGKILL)
    told.run.after(4)
    told.run.resumes("chief:0", 40, "/c/ckpt-40")
    told.run.progresses("chief:0", 41)
    told.run.after(1)
    told.ready("ps:0")
    one = told.one()
    assert one.first_step == one.up == pytest.approx(14.0)


def test_a_worker_of_a_job_that_restarts_as_one_may_be_up_later() -> None:
    """The coordinator steps with the others."""
    told = ps_job()
    told.run.send(ev.Requested(1, ev.Verb.RESTART, ()))
    told.run.after(4)
    told.ready("worker:0", "ps:0")
    told.run.resumes("chief:0", 40, "/c/ckpt-40")
    told.run.progresses("chief:0", 41)
    told.run.after(1)
    told.ready("worker:1")
    one = told.one()
    assert one.first_step == pytest.approx(14.0)
    assert one.up == pytest.approx(15.0)


@pytest.mark.parametrize("attempt", [1, 2])
def test_late_reports_of_a_gang_that_has_lost_a_worker_are_no_new_steps(attempt: int) -> None:
    """They are told after its death, before the others have ended: of the first attempt as of a restarted one."""
    told = gang()
    for _ in range(attempt):
        told.run.exits("worker:1", signal=SIGSEGV)
        for step in (31, 32, 33):
            told.run.after(0.2)
            told.run.progresses("worker:0", step)
        told.run.exits("worker:0", exception=UNAVAILABLE)
        told.run.after(4)
    assert [one.first_step for one in told.report.recoveries] == [None] * attempt
    assert not any(one.went_on or one.up for one in told.report.recoveries)
    told.run.resumes("worker:0", 20, "/c/ckpt-20")
    told.run.progresses("worker:0", 21)
    last = told.run.now - 1000.0
    assert [(one.first_step, one.up) for one in told.report.recoveries] == [(last, last)] * attempt


def test_steps_of_a_task_that_is_being_ended_are_no_new_steps() -> None:
    """They were on their way when it was told to end."""
    told = ps_job("stop worker:1 for=2s @ step=46")
    told.run.progresses("chief:0", 46)
    told.run.stubborn.add("chief:0")
    told.run.send(ev.Requested(1, ev.Verb.RESTART, (task("chief:0"),)))
    told.run.after(3)
    for step in (47, 48):
        told.run.progresses("chief:0", step)
    assert (told.one().first_step, told.one().last_step) == (None, None)
    assert (told.fault().went_on, told.fault().first_step) == (False, None)
    told.run.exits("chief:0", signal=SIGKILL)
    told.run.after(0.1)
    assert told.one().last_step == 48  # what it had reached is lost all the same


@pytest.mark.parametrize("victim", ["worker:0", "worker:1"])
def test_a_gang_that_is_given_up_did_not_go_on(victim: str) -> None:
    """Its survivors' last steps are not its recovery."""
    told = Told(job(workers=2, restart=RestartRules(policy=RestartPolicy.NEVER)))
    survivor = {"worker:0": "worker:1", "worker:1": "worker:0"}[victim]
    told.run.progresses("worker:0", 3)
    told.run.exits(victim, exception="ValueError: x")
    for step in (4, 5, 6):
        told.run.after(0.1)
        told.run.progresses(survivor, step)
    told.run.after(20)
    assert told.run.over
    one = told.one()
    assert (one.went_on, one.first_step, one.ended, one.training) == (False, None, None, False)


def test_a_worker_that_has_finished_does_not_take_back_the_last_steps() -> None:
    """worker:1 may be done before the last step of worker:0 is told."""
    told = gang()
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(4)
    told.run.resumes("worker:0", 20, "/c/ckpt-20")
    told.run.exits("worker:1", code=0)
    told.run.progresses("worker:0", 21)
    assert told.one().first_step == pytest.approx(14.0)
