"""The step that is said of a loss that is not a number."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.words import events as ev
from clusterkit.words.outcome import Reservation
from tests.histories import History, job, task


def test_a_restart_makes_a_step_again_whose_loss_was_not_a_number() -> None:
    """Only the loss of the repeated step counts; a step that is reported twice is the same one."""
    run = History(job(workers=1)).begin()
    for step, loss in ((3, 1.0), (4, None), (3, 1.0), (4, 0.5), (5, 0.5), (6, None), (6, None), (7, 0.5), (8, None)):
        run.send(ev.Progressed(task("worker:0"), 1, step, {"loss": loss}))
    run.exits("worker:0", code=0)
    run.after(20)
    assert run.result.diverged_at == 6


def test_the_warning_and_the_result_have_the_same_step() -> None:
    """The first one, although the loss was a number in between, as in the steps of an epoch before its last."""
    run = History(job(workers=1)).begin()
    for step, loss in ((9, 1.0), (10, None), (11, 0.5), (20, None)):
        run.send(ev.Progressed(task("worker:0"), 1, step, {"loss": loss}))
    run.exits("worker:0", code=0)
    run.after(20)
    assert run.warnings == ["The loss is not a number, first at step 10."]
    assert run.result.reason.endswith("but the loss is not a number, first at step 10")
    assert run.result.reservations == (Reservation.NAN,)


def test_a_loss_that_may_be_nan_is_told_and_no_reservation() -> None:
    """With --allow nan, the exit code is 0."""
    run = History(replace(job(workers=1), allow=("nan",))).begin()
    run.send(ev.Progressed(task("worker:0"), 1, 7, {"loss": None}))
    run.exits("worker:0", code=0)
    run.after(20)
    assert (run.result.exit_code, run.result.diverged_at, run.result.reservations) == (0, 7, ())
