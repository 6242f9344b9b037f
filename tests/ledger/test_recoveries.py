"""The recovery report as a fold over histories, each checked against another way to work it out."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.account import Recovery, RecoveryReport
from clusterkit.words.job import RestartPolicy, RestartRules
from clusterkit.words.outcome import Asked, Exit
from tests.histories import SIGKILL, job, task
from tests.ledger.recovering import UNAVAILABLE, Told, gang, ps_job


def deaths(recovery: Recovery) -> list[str]:
    """Cause first."""
    return [str(death.task) for death in (recovery.cause, *recovery.collateral) if death is not None]


def returned(recovery: Recovery) -> list[str]:
    """What was started again."""
    return [str(one.task) for one in recovery.returns]


def test_a_run_without_failures_has_nothing_to_report() -> None:
    """No recovery and no fault."""
    told = ps_job()
    told.run.exits("chief:0", code=0)
    told.run.after(30)
    assert told.run.over
    assert told.report == RecoveryReport()


def test_a_worker_that_is_killed_on_purpose() -> None:
    """Times count from the injection; training goes on, so nothing is lost, and the end is the server's."""
    told = ps_job("kill worker:1 @ step=50")
    told.run.after(2)
    told.run.progresses("chief:0", 50)
    assert told.one().ended is None
    told.run.after(0.2)
    told.run.progresses("chief:0", 51)
    told.run.after(0.2)
    told.run.progresses("chief:0", 52)
    told.run.after(1.1)
    told.ready("worker:1")
    one = told.one()
    assert (one.at, one.detected, deaths(one), returned(one)) == (12.0, 12.0, ["worker:1"], ["worker:1"])
    assert one.returns[0].spawned == 12.0
    assert one.ended == one.up == pytest.approx(13.5)
    assert (one.training, one.went_on, one.first_step, one.lost) == (False, True, None, 0)
    fault = told.fault()
    assert (fault.injected, fault.step, fault.detected, fault.died) == (12.0, 50, 12.0, (task("worker:1"),))
    assert one.faults == (1,)


def test_a_worker_for_which_training_waits() -> None:
    """One report after the death may be of a step before it; then the first step is one after the worker is up."""
    told = ps_job()
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(0.1)
    told.run.progresses("chief:0", 46)
    told.run.after(2)
    told.ready("worker:1")
    told.run.after(0.5)
    told.run.progresses("chief:0", 47)
    one = told.one()
    assert (one.at, one.went_on, one.faults) == (10.0, False, ())
    assert one.up == pytest.approx(12.1)
    assert one.first_step == pytest.approx(12.6)


@pytest.mark.parametrize("victim", ["ps:0", "chief:0"])
def test_what_training_can_not_do_without(victim: str) -> None:
    """The chief resumes from the checkpoint; the steps since then are lost."""
    told = ps_job()
    told.run.exits(victim, signal=SIGKILL)
    told.run.after(3)
    if victim == "ps:0":
        told.ready("ps:0")
    told.run.resumes("chief:0", 40, "/c/ckpt-40")
    told.run.after(0.4)
    told.run.progresses("chief:0", 40)  # what it was restored to is no new step
    told.run.after(0.6)
    told.run.progresses("chief:0", 41)
    one = told.one()
    assert deaths(one)[0] == victim
    assert set(returned(one)) == {victim, "chief:0"}
    assert (one.training, one.last_step, one.resumed_step, one.checkpoint, one.lost) == (
        True, 45, 40, "/c/ckpt-40", 5,
    )  # fmt: skip
    assert one.ended == one.first_step
    assert one.seconds == pytest.approx(4.0)


def test_a_gang_restarts_together() -> None:
    """The cause is the one that was killed; its peer is collateral; the step after the resumption is the end."""
    told = gang("kill worker:1 @ step=31")
    told.run.progresses("worker:0", 31)
    told.run.after(0.04)
    told.run.exits("worker:0", exception=UNAVAILABLE)
    told.run.after(2)
    for worker in ("worker:0", "worker:1"):
        told.run.resumes(worker, 20, "/c/ckpt-20")
    told.run.after(1)
    told.run.progresses("worker:0", 21)
    told.run.progresses("worker:1", 21)
    one = told.one()
    assert (deaths(one), returned(one)) == (["worker:1", "worker:0"], ["worker:0", "worker:1"])
    assert (one.cause is not None and one.cause.fault, one.collateral[0].fault, one.faults) == (1, None, (1,))
    assert (one.detected, one.lost, one.checkpoint) == (10.0, 11, "/c/ckpt-20")
    assert one.seconds == pytest.approx(3.04)


def fails_before(told: Told, name: str) -> None:
    """The task was killed and has restarted at once, so that its next restart waits for the backoff."""
    told.run.exits(name, signal=SIGKILL)
    told.run.after(5)


def test_workers_that_raise_the_same() -> None:
    """One recovery, with a cause of which the other did not die; also where a request overtakes its restart."""
    told = gang(workers=3)
    fails_before(told, "worker:2")
    for worker in ("worker:0", "worker:1"):
        told.run.exits(worker, exception="ValueError: x")
    told.run.exits("worker:2", exception=UNAVAILABLE)
    told.run.after(0.1)
    told.run.send(ev.Requested(1, ev.Verb.RESTART, (task("worker:0"),)))
    told.run.after(3)
    _, one = told.report.recoveries
    assert deaths(one) == ["worker:0", "worker:2"]
    assert [str(death.task) for death in one.same] == ["worker:1"]


def test_two_that_are_killed_at_once() -> None:
    """Workers of a parameter server are two recoveries, of a gang they are one; both count from one injection each."""
    told = ps_job("kill worker:0,worker:1 @ step=46")
    told.run.progresses("chief:0", 46)
    told.run.after(3)
    told.ready("worker:0", "worker:1")
    assert [(deaths(one), one.faults) for one in told.report.recoveries] == [(["worker:0"], (1,)), (["worker:1"], (1,))]
    together = gang("kill worker:* @ step=31", workers=3)
    together.run.progresses("worker:0", 31)
    together.run.after(3)
    assert sorted(deaths(together.one())) == ["worker:0", "worker:1", "worker:2"]
    assert {death.fault for death in (together.one().cause, *together.one().collateral) if death} == {1}


def test_a_failure_before_the_restart_extends_the_recovery() -> None:
    """Both are mended by one restart, so they are one; it began with the first."""
    told = ps_job()
    fails_before(told, "chief:0")
    told.run.progresses("chief:0", 45)
    told.run.exits("chief:0", exception="ValueError: x")
    told.run.after(1.0)  # its restart is planned, and waits for the backoff
    told.run.exits("ps:0", signal=SIGKILL)
    told.run.after(5)
    told.run.resumes("chief:0", 40, "/c/ckpt-40")
    told.run.progresses("chief:0", 41)
    _, one = told.report.recoveries
    assert (one.at, deaths(one), returned(one)) == (15.0, ["chief:0", "ps:0"], ["chief:0", "ps:0"])
    assert one.lost == 5


def test_a_failure_after_the_restart_is_another_recovery() -> None:
    """Both end with the same step; what each lost adds up to the steps that were done again."""
    told = gang()
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(3)
    told.run.resumes("worker:0", 20, "/c/ckpt-20")
    told.run.exits("worker:0", signal=SIGKILL)
    told.run.after(5)
    told.run.resumes("worker:0", 10, "/c/ckpt-10")
    told.run.after(1)
    told.run.progresses("worker:0", 11)
    first, second = told.report.recoveries
    assert first.ended == second.ended == pytest.approx(19.0)
    assert (first.lost, second.lost, first.checkpoint) == (20, 10, "/c/ckpt-10")


def test_a_freeze_that_is_healed() -> None:
    """Nothing died: training went on, or stood still until after the heal."""
    told = ps_job("stop worker:1 for=10s @ step=50", "stop chief:0 for=4s @ step=70")
    told.run.progresses("chief:0", 50)
    told.run.after(1)
    told.run.progresses("chief:0", 51)
    told.run.progresses("chief:0", 52)
    told.run.after(9.5)
    told.run.progresses("chief:0", 70)
    told.run.after(5)
    told.run.progresses("chief:0", 71)
    worker, chief = told.report.faults
    assert told.report.recoveries == ()
    assert (worker.injected, worker.healed, worker.why) == (10.0, 20.0, "its time is over")
    assert (worker.died, worker.detected, worker.went_on, worker.first_step) == ((), None, True, None)
    assert (chief.went_on, chief.first_step, chief.healed) == (False, 25.5, 24.5)


def test_a_stall_is_detected_when_it_is_warned_of() -> None:
    """Also where the stuck task is killed for it later; the fault is what stopped it."""
    told = ps_job("stop worker:1 @ step=46", stall_warning=4.0, stall=10.0)
    told.run.progresses("chief:0", 46)
    told.run.vitals["worker:1"] = ev.Vitals(1, True, "T")
    told.run.after(10)
    del told.run.vitals["worker:1"]
    told.run.after(3)
    told.ready("worker:1")
    one, fault = told.one(), told.fault()
    assert (one.at, one.detected, deaths(one)) == (10.0, 14.0, ["worker:1"])
    assert one.cause is not None
    assert one.cause.exit == Exit(signal=SIGKILL, asked=Asked.STALL)
    assert (one.cause.at, one.faults, fault.detected) == (20.0, (1,), 14.0)


def test_a_gang_that_starves_of_a_partition() -> None:
    """No task of it was hit alone: each says that a peer is gone while the partition lasts, or soon after it."""
    told = gang("partition worker:1 for=20s @ step=31")
    told.run.progresses("worker:0", 31)
    told.run.after(15)
    told.run.exits("worker:0", exception=UNAVAILABLE)
    told.run.after(0.2)
    told.run.exits("worker:1", exception=UNAVAILABLE)
    told.run.after(10)
    one = told.one()
    assert (one.at, one.detected, one.faults, told.fault().healed) == (10.0, 25.0, (1,), 30.0)
    assert (one.first_step, one.lost, one.ended) == (None, None, None)


def test_a_budget_that_is_used_up() -> None:
    """The last failure is not mended; nothing starts again for it, and what came of it is not known."""
    told = Told(job(workers=2, restart=RestartRules(budget=1)))
    for _ in range(2):
        told.run.progresses("worker:0", 3)
        told.run.exits("worker:1", exception="ValueError: x")
        told.run.after(0.1)
        told.run.exits("worker:0", exception=UNAVAILABLE)
        told.run.after(5)
    assert told.run.over
    first, last = told.report.recoveries
    assert (first.planned is not None, returned(first)) == (True, ["worker:0", "worker:1"])
    assert (last.planned, returned(last), deaths(last)) == (None, [], ["worker:1", "worker:0"])
    assert (last.lost, last.ended) == (None, None)
    assert first.lost == 1  # nothing was told of the resumption, but step 3 was done again


def test_a_restart_that_was_asked_for() -> None:
    """It has no cause; it mends what had failed of the same tasks meanwhile."""
    told = ps_job()
    told.run.send(ev.Requested(1, ev.Verb.RESTART, (task("chief:0"),)))
    told.run.after(1)
    told.run.resumes("chief:0", 40, "/c/ckpt-40")
    told.run.progresses("chief:0", 41)
    one = told.one()
    assert (one.asked, one.cause, one.at, one.detected, one.lost) == (True, None, 10.0, None, 5)
    fails_before(told, "worker:1")
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(0.2)
    told.run.send(ev.Requested(2, ev.Verb.RESTART, (task("worker:1"),)))
    told.run.after(3)
    *_, second = told.report.recoveries
    assert (second.asked, deaths(second), returned(second)) == (True, ["worker:1"], ["worker:1"])


def test_a_change_of_the_program() -> None:
    """The report names the files, and the steps that an edit cost."""
    told = ps_job(watch=True)
    told.run.send(ev.ProgramChanged(("model.py", "train.py")))
    told.run.after(12)
    told.run.resumes("chief:0", 40, "/c/ckpt-40")
    told.run.progresses("chief:0", 41)
    one = told.one()
    assert (one.asked, one.cause, one.files) == (True, None, ("model.py", "train.py"))
    assert "2 files changed at 10.0 s" in told.most


def test_a_preemption() -> None:
    """Exit 42 is a death as any other in the report; it lost nothing since it had checkpointed."""
    told = gang()
    told.run.checkpoints("worker:0", 30)
    told.run.exits("worker:1", code=42)
    told.run.exits("worker:0", code=42)
    told.run.after(3)
    told.run.resumes("worker:0", 30, "/c/ckpt-30")
    told.run.progresses("worker:0", 31)
    one = told.one()
    assert (one.lost, one.checkpoint) == (0, "/c/ckpt-30")
    assert one.cause is not None
    assert one.cause.exit.preempted


def test_an_evaluator_that_is_given_up() -> None:
    """Training goes on without it."""
    told = Told(job(workers=1, evaluator=1, restart=RestartRules(policy=RestartPolicy.NEVER)))
    told.run.exits("evaluator:0", code=1)
    told.run.progresses("worker:0", 1)
    told.run.progresses("worker:0", 2)
    one = told.one()
    assert (one.planned, one.went_on, one.lost) == (None, True, 0)
