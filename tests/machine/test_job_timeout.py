"""A run that ends at its timeout before any step: its tasks are inspected first, within a time limit."""

from __future__ import annotations

from clusterkit.machine.monitors.job_timeout import INSPECTION_TIMEOUT
from clusterkit.words import events as ev
from clusterkit.words.actions import Inspect
from clusterkit.words.job import Limits
from clusterkit.words.outcome import RunState
from tests.histories import History, job, task


def waiting() -> History:
    """A run of 30 seconds without a step, of whose inspections nothing is known."""
    run = History(job(workers=1, limits=Limits(job=30.0, stall_warning=0)), unlooked=True).begin()
    run.after(30.1)
    assert [order.look for order in run.asked(Inspect)] == [ev.Look.TIMEOUT]
    assert not run.over
    return run


def test_the_run_ends_after_the_inspection() -> None:
    """As a timeout, whatever was seen."""
    run = waiting()
    run.send(ev.Inspected({task("worker:0"): ev.Vitals(1, False, "S")}, ev.Look.TIMEOUT, "timeout-1.txt"))
    run.after(1)
    assert (run.result.state, run.result.exit_code) == (RunState.TIMED_OUT, 124)
    assert run.result.reason == "the job took longer than its timeout of 30 s"


def test_an_inspection_that_takes_too_long_is_not_awaited() -> None:
    """The run ends all the same."""
    run = waiting()
    run.after(INSPECTION_TIMEOUT + 1)
    assert run.result.state is RunState.TIMED_OUT


def test_what_the_tasks_do_is_the_reason() -> None:
    """As they were seen at the timeout."""
    run = waiting()
    seen = ev.Vitals(1, False, "S", "sleeps (time.sleep) at train.py:5", own=True)
    run.send(ev.Inspected({task("worker:0"): seen}, ev.Look.TIMEOUT, "timeout-1.txt"))
    run.after(1)
    said = "the job took longer than its timeout of 30 s: worker:0 leads the job and sleeps (time.sleep) at train.py:5"
    assert run.result.reason == said


def test_a_run_that_makes_no_steps_any_more_is_inspected() -> None:
    """Its last step was long before the timeout."""
    run = History(job(workers=1, limits=Limits(job=30.0, stall_warning=0)), unlooked=True).begin()
    run.progresses("worker:0", 1)
    run.after(30.1)
    (order,) = run.asked(Inspect)
    assert (order.look, order.why) == (ev.Look.TIMEOUT, "no step for 30 s before the job's timeout")


def test_a_run_that_makes_steps_is_not_inspected() -> None:
    """It ends at once."""
    run = History(job(workers=1, limits=Limits(job=30.0, stall_warning=0)), unlooked=True).begin()
    run.after(20)
    run.progresses("worker:0", 1)
    run.after(10.1)
    assert run.asked(Inspect) == []
    assert run.result.state is RunState.TIMED_OUT
