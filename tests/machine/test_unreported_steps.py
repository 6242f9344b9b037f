"""Where nobody reports steps, what waits for one does nothing: that is said once, and what to do about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec, Limits
from tests.histories import SIGKILL, History, faults, job, task

STALL = job(workers=2, limits=Limits(stall=20, startup=0))
FAULT = replace(job(workers=2, limits=Limits(startup=0)), faults=faults("kill worker:1 @ step=300"))
MANY = faults("kill worker:1 @ step=300", "stop worker:0 for=2s @ every=50steps", "term worker:1 @ 1h")
BOTH = replace(STALL, faults=MANY)
ADVICE = (
    "Call clusterkit.training.report(step=…) or, in Keras, the callback clusterkit.training.ReportProgress(), "
    "or have steps read from the logs: --progress-regex 'step (\\d+)'."
)


@pytest.mark.parametrize(
    ("spec", "waiting"),
    [
        (STALL, "--stall-timeout has"),
        (FAULT, "the fault 'kill worker:1 @ step=300' has"),
        (BOTH, "--stall-timeout and the fault 'kill worker:1 @ step=300' and "
               "the fault 'stop worker:0 for=2s @ every=50steps' have"),
    ],
)  # fmt: skip
def test_after_a_minute_without_a_step_it_is_said_once(spec: JobSpec, waiting: str) -> None:
    """With everything that has no effect, and the ways to report steps."""
    run = History(spec).begin()
    run.after(59.9)
    assert run.warnings == []
    run.after(2000)
    said = f"No task has reported a step, 60 s after all of them started. Until one does, {waiting} no effect. {ADVICE}"
    assert run.warnings == [said]


def test_a_regex_that_matches_nothing_is_named() -> None:
    """The user did what could be done, and has to look at the expression."""
    run = History(replace(STALL, progress_regex=r"Step: (\d+)")).begin()
    run.after(60)
    (said,) = run.warnings
    assert r"No line in the logs matched --progress-regex 'Step: (\d+)'. Change it, or call " in said


def test_a_first_step_within_the_minute_is_no_silence() -> None:
    """Also where it comes late, after imports and the first compilation."""
    run = History(BOTH).begin()
    run.after(58)
    run.progresses("worker:1", 1)
    run.after(10)
    assert run.warnings == []


@pytest.mark.parametrize("spec", [job(workers=2), replace(FAULT, faults=faults("kill worker:1 @ 9999s"))])
def test_nothing_wakes_up_where_nothing_waits_for_steps(spec: JobSpec) -> None:
    """A run that is idle has no deadline for it."""
    run = History(replace(spec, limits=Limits(startup=0))).begin()
    deadline = run.machine.deadline()
    assert deadline is None or deadline > run.now + 9000
    run.after(500)
    assert run.warnings == []


def test_nothing_wakes_up_any_more_once_it_is_said() -> None:
    """The silence may last for days."""
    run = History(STALL).begin()
    run.after(61)
    assert run.machine.deadline() is None


def test_the_minute_begins_when_all_tasks_run_again() -> None:
    """A restart begins anew, with its imports."""
    run = History(STALL).begin()
    run.after(50)
    run.exits("worker:1", signal=SIGKILL)
    run.after(50)
    assert run.warnings == []
    run.after(20)
    assert len(run.warnings) == 1


def test_a_worker_that_has_finished_does_not_hide_the_silence() -> None:
    """The other one trains on."""
    run = History(STALL).begin()
    run.exits("worker:1", code=0)
    run.after(61)
    assert len(run.warnings) == 1


def test_a_fault_that_comes_later_is_told_of_too() -> None:
    """What was said before is not said again."""
    run = History(STALL).begin()
    run.after(100)
    run.send(ev.Requested(1, ev.Verb.FAULT, fault="kill worker:0 @ step=5"))
    run.after(100)
    first, second = run.warnings
    assert "--stall-timeout" in first
    assert "Until one does, the fault 'kill worker:0 @ step=5' has no effect." in second


def test_the_evaluators_steps_are_not_those_of_training() -> None:
    """It reports the steps of checkpoints, which neither faults nor stalls go by."""
    run = History(job(workers=1, evaluator=1, limits=Limits(stall=20, startup=0))).begin()
    run.progresses("evaluator:0", 5)
    run.after(60)
    assert len(run.warnings) == 1


def test_a_program_that_leaves_its_reports_out_is_told_once() -> None:
    """By the first task that trains so, also where nothing waits for steps; another attempt is not told again."""
    run = History(job(workers=2, limits=Limits(startup=0))).begin()
    for name in ("worker:1", "worker:0", "worker:1"):
        run.send(ev.StepsUnreported(task(name), 1, 60))
    (said,) = run.warnings
    assert said.startswith("worker:1 trains, but no step has been reported. The program imports clusterkit.training")


def test_another_task_may_report_for_all() -> None:
    """The chief alone, or a coordinator; an evaluator restores the steps that its optimizer has."""
    run = History(job(workers=2, limits=Limits(startup=0))).begin()
    run.progresses("worker:0", 1)
    run.send(ev.StepsUnreported(task("worker:1"), 1, 60))
    assert run.warnings == []
    run = History(job(workers=2, evaluator=1, limits=Limits(startup=0))).begin()
    run.send(ev.StepsUnreported(task("evaluator:0"), 1, 60))
    assert run.warnings == []
