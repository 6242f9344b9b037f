"""Long pauses that are no stall: evaluations, checkpoints, first compilations, starts."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Inspect
from clusterkit.words.job import Limits, RestartRules
from tests.histories import SIGKILL, History, job, task

STALL_30 = Limits(stall=30, startup=0)


def begins(run: History, name: str, phase: str) -> None:
    """A task begins what makes no steps."""
    run.send(ev.PhaseChanged(task(name), run.attempts[name], phase, begun=True))


def ends(run: History, name: str, phase: str) -> None:
    """A task has done what makes no steps."""
    run.send(ev.PhaseChanged(task(name), run.attempts[name], phase, begun=False))


def test_a_long_evaluation_is_no_stall() -> None:
    """While it goes on nobody is blamed; after it the next step has its whole time."""
    run = History(job(workers=1, limits=STALL_30)).begin()
    run.progresses("worker:0", 9)
    begins(run, "worker:0", "evaluation")
    run.after(400)
    ends(run, "worker:0", "evaluation")
    run.after(29)
    assert run.warnings == []
    assert {look.look for look in run.asked(Inspect)} == {ev.Look.GLANCE}
    run.after(2)
    assert run.signals() == [(430.0, "worker:0", SIGKILL)]


def test_no_phase_excuses_more_than_ten_minutes() -> None:
    """Nor does one phase in another one, nor one that begins again without an end."""
    run = History(job(workers=1, limits=STALL_30)).begin()
    run.progresses("worker:0", 9)
    begins(run, "worker:0", "evaluation")
    run.after(1)
    begins(run, "worker:0", "checkpoint")
    run.after(598)
    assert run.signals() == []
    run.after(3)
    assert run.signals() == [(601.0, "worker:0", SIGKILL)]


def test_a_phase_whose_end_was_forgotten_ends_with_its_attempt() -> None:
    """The next attempt begins without one."""
    run = History(job(workers=1, limits=STALL_30)).begin()
    run.progresses("worker:0", 9)
    begins(run, "worker:0", "evaluation")
    run.exits("worker:0", code=1)
    run.after(5)
    run.progresses("worker:0", 10)
    run.after(31)
    assert [number for _, _, number in run.signals()] == [SIGKILL]


@pytest.mark.parametrize(("letter", "wrong"), [("T", "is stopped (T)"), ("D", "hangs in the kernel (D)")])
def test_a_phase_does_not_excuse_a_task_that_can_not_go_on(letter: str, wrong: str) -> None:
    """A checkpoint that waits for a stopped ps would last for ever; it is seen with the first glance."""
    run = History(job(workers=2, ps=1, limits=STALL_30)).begin()
    run.progresses("chief:0", 9)
    begins(run, "chief:0", "checkpoint")
    run.vitals["chief:0"] = ev.Vitals(1, True, "S", "writes a checkpoint", own=True)
    run.vitals["ps:0"] = ev.Vitals(1, True, letter)
    run.after(29)
    assert run.asked(Inspect) == []
    run.after(2)
    assert run.asked(Inspect) == [Inspect(), Inspect(ev.Look.STALL, "no progress for 30 s")]
    assert run.signals()[0] == (30.0, "ps:0", SIGKILL)
    assert f"ps:0 {wrong}; chief:0 writes a checkpoint. ps:0 is killed." in run.warnings[0]


def test_a_phase_of_the_evaluator_excuses_nobody() -> None:
    """Nobody waits for it."""
    run = History(job(workers=1, evaluator=1, limits=STALL_30)).begin()
    run.progresses("worker:0", 9)
    begins(run, "evaluator:0", "evaluation")
    run.after(31)
    assert run.signals() == [(30.0, "worker:0", SIGKILL)]


def test_the_first_compilation_of_an_attempt_is_no_stall() -> None:
    """From where the program says that it is there to its first step; the step after that has the usual time."""
    run = History(job(workers=1, limits=STALL_30)).begin()
    run.progresses("worker:0", 1)
    run.exits("worker:0", code=1)
    run.after(5)
    run.resumes("worker:0", 0, None)
    run.after(590)
    assert run.signals() == []
    run.progresses("worker:0", 1)
    run.after(29)
    assert run.signals() == []
    run.after(2)
    assert [number for _, _, number in run.signals()] == [SIGKILL]


def test_a_worker_that_never_reports_does_not_seem_to_compile_for_ever() -> None:
    """Where one of a gang has made a step, all have compiled."""
    run = History(job(workers=2, limits=STALL_30)).begin()
    run.resumes("worker:1", 0, None)
    run.after(5)
    run.progresses("worker:0", 1)
    run.after(31)
    assert run.signals()[0][0] == 35.0


def test_a_task_that_starts_again_is_no_stall_before_its_startup_deadline() -> None:
    """A short stall timeout does not kill a gang that imports TensorFlow; the startup deadline is there for that."""
    run = History(job(workers=2, limits=Limits(stall=10, stall_warning=0)), listening=False).begin()
    run.progresses("worker:0", 1)
    run.progresses("worker:1", 1)
    run.exits("worker:1", code=1)
    run.after(100)
    assert run.signals() == [(1.0, "worker:0", SIGKILL)]
    assert run.attempts == {"worker:0": 2, "worker:1": 2}


def test_a_task_in_an_external_debugger_is_told_of_and_not_killed() -> None:
    """Somebody is looking at it; once they have let go of it, the next step has its whole time."""
    run = History(job(workers=2, limits=STALL_30)).begin()
    for name in ("worker:0", "worker:1"):
        run.progresses(name, 9)
    run.vitals["worker:1"] = ev.Vitals(1, True, "t")
    run.after(200)
    assert run.signals() == []
    assert "worker:1 is stopped by a debugger (t)" in run.warnings[0]
    assert not any("killed" in text or "--stall-timeout" in text for text in run.warnings)
    del run.vitals["worker:1"]
    run.after(31)
    assert run.signals()[0][2] == SIGKILL
    assert " is killed." in run.warnings[-1]


def test_a_failure_that_a_pause_explains_costs_nothing() -> None:
    """Its peers gave a paused task up. Nor does it use up a budget of none."""
    run = History(job(workers=2, restart=RestartRules(budget=0))).begin()
    for name in ("worker:0", "worker:1"):
        run.progresses(name, 9)
    run.send(ev.Requested(1, ev.Verb.PAUSE, (task("worker:1"),)))
    run.after(300)
    run.exits("worker:0", exception="UnavailableError: Task worker:1 heartbeat timeout: Connection reset by peer")
    run.after(5)
    assert run.attempts == {"worker:0": 2, "worker:1": 2}
    (planned,) = run.decided(ev.RestartPlanned)
    assert (planned.free, planned.charged) == (True, 0)
