"""Stalls: who is blamed for them, when, and what is none."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Inspect, Signal
from clusterkit.words.events import Verb
from clusterkit.words.job import Limits, RestartRules
from clusterkit.words.outcome import Asked
from tests.histories import SIGKILL, History, job, task
from tests.machine.faulty import with_faults
from tests.machine.test_requests import ask

STALL_30 = Limits(stall=30, startup=0)


def closely(run: History) -> list[Inspect]:
    """The looks for a reason why the run hangs."""
    return [look for look in run.asked(Inspect) if look.look not in (ev.Look.GLANCE, ev.Look.PACE)]


def test_sixty_seconds_without_progress_are_warned_of_once_with_a_verdict() -> None:
    """The run goes on; there is one warning for one stall, which says who holds the others up."""
    run = History(job(workers=2, ps=1)).begin()
    run.after(100)
    run.progresses("chief:0", 1)
    run.after(59.9)
    assert closely(run) == []
    run.vitals["chief:0"] = ev.Vitals(1, True, "S", "waits in ClusterCoordinator.join")
    run.vitals["worker:1"] = ev.Vitals(1, True, "T")
    run.after(500)
    assert closely(run) == [Inspect(ev.Look.STALL, "no progress for 60 s")]
    assert run.warnings == [
        "No task has reported progress for 60 s: worker:1 is stopped (T); chief:0 waits in ClusterCoordinator.join. "
        "What was seen of every task is in stall-1.txt. "
        "--stall-timeout ends the stuck task after a time that you choose."
    ]
    assert run.signals() == []


def test_progress_after_a_stall_lets_the_next_one_be_warned_of() -> None:
    """Each stall has its warning."""
    run = History(job(workers=1)).begin()
    for step in range(3):
        run.progresses("worker:0", step)
        run.after(61)
    assert len(run.warnings) == 3


@pytest.mark.parametrize("limits", [Limits(stall_warning=0), Limits(stall_warning=0, stall=0, startup=0)])
def test_there_is_no_stall_where_it_is_switched_off(limits: Limits) -> None:
    """0 means never."""
    run = History(job(workers=1, limits=limits)).begin()
    run.progresses("worker:0", 1)
    run.after(10_000)
    assert run.warnings == []


def test_a_program_that_reports_nothing_never_stalls() -> None:
    """Without a first report there is nothing to go by, which is all that is said."""
    run = History(job(workers=1, limits=STALL_30)).begin()
    run.after(10_000)
    (said,) = run.warnings
    assert said.startswith("No task has reported a step, 60 s after all of them started.")
    assert run.live == {"worker:0"}


@pytest.mark.parametrize(
    ("vitals", "steps", "stuck", "wrong"),
    [
        ({"ps:0": "T"}, {"chief:0": 5}, "ps:0", "is stopped (T)"),
        ({"worker:1": "D"}, {"chief:0": 5, "worker:1": 4}, "worker:1", "hangs in the kernel (D)"),
        ({}, {"worker:0": 9, "worker:1": 7, "chief:0": 8}, "worker:1", "is the furthest behind (step 7)"),
        ({}, {"chief:0": 5}, "chief:0", "is at step 5"),
    ],
)
def test_the_stall_timeout_kills_the_stuck_task(
    vitals: dict[str, str], steps: dict[str, int], stuck: str, wrong: str
) -> None:
    """The task to blame is killed, named with what is wrong with it, and its failure is dealt with as any other."""
    run = History(job(workers=2, ps=1, limits=STALL_30)).begin()
    run.vitals = {name: ev.Vitals(1, True, letter) for name, letter in vitals.items()}
    for name, step in steps.items():
        run.progresses(name, step)
    run.after(29.9)
    assert closely(run) == []
    run.after(0.2)
    assert run.signals()[0] == (30.0, stuck, SIGKILL)
    assert run.warnings == [
        f"No task has reported progress for 30 s: {stuck} {wrong}. {stuck} is killed. "
        "What was seen of every task is in stall-1.txt."
    ]
    run.after(3)
    (failure,) = run.failures
    assert (str(failure.task), failure.exit.asked) == (stuck, Asked.STALL)
    assert run.attempts[stuck] == 2


def test_an_evaluator_is_never_to_blame_for_a_stall() -> None:
    """It is always behind, and nobody waits for it."""
    run = History(job(workers=2, evaluator=1, limits=STALL_30)).begin()
    run.vitals["evaluator:0"] = ev.Vitals(1, False, "D")
    run.progresses("evaluator:0", 10)
    run.progresses("worker:1", 20)
    run.progresses("worker:0", 30)
    run.after(35)
    assert run.signals()[0] == (30.0, "worker:1", SIGKILL)
    assert run.attempts["evaluator:0"] == 1


def test_an_evaluators_reports_do_not_hide_a_stall() -> None:
    """Training stands still also while the side car is busy."""
    run = History(job(workers=1, evaluator=1)).begin()
    run.progresses("worker:0", 30)
    for step in range(7):
        run.after(10)
        run.progresses("evaluator:0", step)
    assert len(run.warnings) == 1


def test_a_recovery_is_no_stall() -> None:
    """A task that was just restarted gets the whole time again before it counts as stuck."""
    run = History(job(workers=1, limits=STALL_30)).begin()
    run.progresses("worker:0", 1)
    run.after(27)
    run.exits("worker:0", code=1)
    run.after(25)
    assert run.attempts == {"worker:0": 2}
    assert run.signals() == []
    run.progresses("worker:0", 1)
    run.after(29)
    assert run.signals() == []


def test_a_task_that_hangs_after_its_restart_is_a_stall_again() -> None:
    """A restarted program that never reports is caught too; with that, it has stalled twice at the same step."""
    run = History(job(workers=1, limits=STALL_30, restart=RestartRules(budget=2))).begin()
    run.progresses("worker:0", 1)
    run.after(300)
    assert [failure.exit.asked for failure in run.failures] == [Asked.STALL] * 2
    assert run.result.exit_code == 1
    assert run.result.repeated
    said = "as the attempt before it did, without a new step"
    assert run.result.reason == f"worker:0 stopped: it had stalled (SIGKILL), {said}"


@pytest.mark.parametrize(
    ("steps", "attempts"), [((20, 20), 2), ((20, 11), 2), ((20, 21, 21), 3), ((1, 2, 3, 4), 4)],
    ids=["the same step", "sooner", "beyond, then the same", "beyond each time"],
)  # fmt: skip
def test_a_stall_that_comes_again_ends_the_run(steps: tuple[int, ...], attempts: int) -> None:
    """A further restart would stall there, too, unless the last one has brought training further."""
    run = History(job(workers=2, ps=1, limits=STALL_30)).begin()
    for step in steps:
        run.progresses("chief:0", step)
        run.after(50)
    assert (run.over, run.attempts["chief:0"]) == (True, attempts)
    assert run.result.repeated is (attempts < 4)


def test_stalls_of_different_tasks_are_different_failures() -> None:
    """The first restart may have helped the task that was to blame then."""
    run = History(job(workers=2, limits=STALL_30)).begin()
    for name in ("worker:0", "worker:1"):
        run.vitals = {name: ev.Vitals(1, True, "T")}
        run.progresses("worker:0", 5)
        run.after(40)
    assert not run.over
    assert run.attempts == {"worker:0": 3, "worker:1": 3}


def test_a_long_stall_timeout_does_not_make_the_budget_whole_again() -> None:
    """Ten minutes of standing still are no progress, however the stall ended."""
    limits = Limits(stall=700, stall_warning=0)
    run = History(job(workers=1, limits=limits, restart=RestartRules(budget=2))).begin()
    for step in range(3):
        run.progresses("worker:0", step)
        run.after(750)
    assert run.result.exit_code == 1


def test_a_stall_is_seen_also_when_another_worker_has_finished() -> None:
    """A worker that ended well is not in recovery; the leader may hang all the same."""
    run = History(job(workers=2)).begin()
    run.progresses("worker:0", 5)
    run.exits("worker:1", code=0)
    run.after(70)
    assert len(run.warnings) == 1


def test_a_stuck_task_that_does_not_die_ends_the_run() -> None:
    """A process that hangs in the kernel outlives SIGKILL; nothing can be started in its place."""
    limits = Limits(stall=30, stall_warning=0)
    run = History(job(workers=1, limits=limits), unreachable={"worker:0"}).begin()
    run.progresses("worker:0", 1)
    run.after(39)
    assert not run.over
    run.after(2)
    assert run.result.reason.endswith("did not die within 10 s of SIGKILL")


def test_a_task_that_is_stopped_before_the_first_step_is_seen_too() -> None:
    """Without a first report there is nothing to go by, but that a task is stopped speaks for itself."""
    run = History(job(workers=2, ps=1, limits=STALL_30)).begin()
    run.resumes("chief:0", 0, None)
    run.after(1000)
    assert (run.signals(), closely(run)) == ([], [])
    run.vitals["worker:0"] = ev.Vitals(1, True, "T")
    run.after(31)
    assert [signal[1:] for signal in run.signals()] == [("worker:0", SIGKILL)]


def test_a_step_that_comes_while_the_tasks_are_looked_at_ends_the_stall() -> None:
    """A look takes seconds; what it finds is of no use then."""
    run = History(job(workers=1, limits=STALL_30)).begin()
    run.progresses("worker:0", 1)
    run.machine.handle(ev.Ticked(), run.now + 30)
    run.machine.handle(ev.Progressed(task("worker:0"), 1, 2), run.now + 31)
    stopped = {task("worker:0"): ev.Vitals(1, True, "T")}
    assert run.machine.handle(ev.Inspected(stopped, ev.Look.STALL, "x"), run.now + 31) == []
    run.now += 31
    run.after(31)
    assert [signal[1:] for signal in run.signals()] == [("worker:0", SIGKILL)]


def test_nobody_looks_again_while_a_look_goes_on() -> None:
    """The warning's look is used for the timeout that comes meanwhile."""
    run = History(job(workers=1, limits=Limits(stall=31, stall_warning=30))).begin()
    run.progresses("worker:0", 1)
    asked = [a for at in (30, 31, 32) for a in run.machine.handle(ev.Ticked(), run.now + at) if isinstance(a, Inspect)]
    assert asked == [Inspect(ev.Look.STALL, "no progress for 30 s")]
    seen = {task("worker:0"): ev.Vitals(1, True, "S", "is at t.py:3", own=True)}
    actions = run.machine.handle(ev.Inspected(seen, ev.Look.STALL, None), run.now + 33)
    assert Signal(task("worker:0"), 1, SIGKILL) in actions


@pytest.mark.parametrize("polite", [True, False])
def test_a_task_whose_start_is_held_back_is_waited_for(polite: bool) -> None:
    """However its last attempt ended: its peers can't make steps, and are not ended for it."""
    run = with_faults("hang-start worker:0 for=100s @ step=5", spec=job(1, ps=1, limits=Limits(stall=20, startup=0)))
    run.polite = {"worker:0"} if polite else set()
    run.begin()
    run.after(2)
    run.progresses("chief:0", 10)
    ask(run, Verb.RESTART, "worker:0")
    run.after(60)
    assert run.failures == []


def test_steps_that_nobody_reads_are_no_stall() -> None:
    """Until a step is seen again; what is wrong is told once."""
    run = History(job(workers=1, limits=STALL_30)).begin()
    run.progresses("worker:0", 1)
    run.send(ev.Impaired("No steps are read any more.", ends_steps=True))
    run.after(10_000)
    assert run.warnings == ["No steps are read any more."]
    assert run.signals() == []
    run.progresses("worker:0", 2)
    run.after(31)
    assert len(run.warnings) == 2
