"""Faults in the machine: when each is injected, into what, and when it is healed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Answer, HurrySteps, Inspect
from clusterkit.words.events import FaultInjected, Verb
from clusterkit.words.faults import FaultAction
from clusterkit.words.job import Limits
from clusterkit.words.model import TaskState
from tests.histories import SIGKILL, SIGTERM, History, job, task
from tests.machine.faulty import injected, with_faults

SIGCONT, SIGSTOP = 18, 19


def test_a_kill_at_a_step() -> None:
    """When a training task has reported the step, or one beyond it, and once only."""
    run = with_faults("kill worker:1 @ step=100").begin()
    assert run.asked(HurrySteps) == [HurrySteps()]
    run.progresses("chief:0", 99)
    assert injected(run) == []
    run.progresses("chief:0", 103)
    assert injected(run) == [(0.0, "kill", ["worker:1"])]
    assert run.decided(FaultInjected)[0].step == 103
    assert (0.0, "worker:1", SIGKILL) in run.signals()
    run.after(5)
    run.progresses("chief:0", 120)
    assert run.attempts["worker:1"] == 2
    assert len(injected(run)) == 1


def test_a_job_without_faults_may_have_every_step_reported_at_once() -> None:
    """As it would be with a fault; nothing counts as a fault that was asked for."""
    run = History(replace(job(2), every_step=True)).begin()
    assert run.asked(HurrySteps) == [HurrySteps()]
    assert History(job(2)).begin().asked(HurrySteps) == []
    assert run.machine.faults.not_injected() == ()


def test_an_injected_death_is_dealt_with_as_any_other() -> None:
    """The failure names the task and the signal; the worker restarts alone."""
    run = with_faults("kill worker:1 @ 10s").begin()
    run.after(20)
    (planned,) = run.decided(ev.RestartPlanned)
    assert planned.tasks == (task("worker:1"),)
    assert planned.cause is not None
    assert str(planned.cause.exit) == "was killed by SIGKILL"


@pytest.mark.parametrize(
    ("trigger", "times"),
    [
        ("30s", [30.0]),
        ("every=25s", [25.0, 50.0, 75.0, 100.0]),
        ("every=50s p=1", [50.0, 100.0]),
    ],
)
def test_faults_at_times(trigger: str, times: list[float]) -> None:
    """Once, or again and again."""
    run = with_faults(f"term ps:0 @ {trigger}").begin()
    run.stubborn |= {"ps:0"}
    run.after(101)
    assert [at for at, _, _ in injected(run)] == times
    assert [at for at, name, number in run.signals() if number == SIGTERM and name == "ps:0"] == times


def test_a_fault_some_time_after_its_moment() -> None:
    """The tasks are chosen at the moment, and hit when the time is over; not at all where the run ends before."""
    run = with_faults("kill worker:1 @ step=5 after=300ms", "stop ps:0 @ step=5 after=1h").begin()
    run.progresses("chief:0", 5)
    assert injected(run) == []
    run.after(10)
    assert injected(run) == [(0.3, "kill", ["worker:1"])]
    run.send(ev.Interrupted(15))
    run.after(20)
    assert run.over
    assert len(injected(run)) == 1


def test_faults_at_every_so_many_steps() -> None:
    """A step that is far beyond two of them counts once; a step that is computed again does not count."""
    run = with_faults("stop worker:0 for=1s @ every=50steps").begin()
    for step in (49, 51, 60, 170, 140, 180, 200):
        run.after(2)
        run.progresses("chief:0", step)
    assert [event.step for event in run.decided(FaultInjected)] == [51, 170, 200]


def test_faults_at_checkpoints() -> None:
    """At the second one, and at each."""
    run = with_faults("stop ps:0 for=1s @ checkpoint=2", "stop worker:0 for=1s @ every=checkpoint").begin()
    for step in (10, 20, 30):
        run.after(5)
        run.checkpoints("chief:0", step)
    assert injected(run) == [
        (5.0, "stop", ["worker:0"]),
        (10.0, "stop", ["ps:0"]),
        (10.0, "stop", ["worker:0"]),
        (15.0, "stop", ["worker:0"]),
    ]


def test_a_fault_at_a_restart_goes_into_the_new_attempt() -> None:
    """The task that is coming back has no process yet: the fault waits for it."""
    run = with_faults("kill ps:0 @ 5s", "kill chief:0 @ restart").begin()
    run.after(5)
    assert [event[1:] for event in injected(run)] == [("kill", ["ps:0"]), ("kill", ["chief:0"])]
    run.after(10)
    assert run.attempts["ps:0"] == 2
    assert run.attempts["chief:0"] == 3


def test_without_a_trigger_a_fault_waits_until_the_tasks_are_ready() -> None:
    """They say so, or train; or their ports are found open, for which the machine asks once a second."""
    run = with_faults("kill worker:1")
    run.listening = False
    run.begin()
    run.after(2.5)
    assert len(run.asked(Inspect)) == 2
    assert injected(run) == []
    run.listening = True
    run.after(1)
    assert [action for _, action, _ in injected(run)] == ["kill"]
    run.after(5)
    assert len(run.asked(Inspect)) == 3


def test_progress_means_ready() -> None:
    """A job that trains is ready, whatever its tasks said."""
    run = with_faults("stop worker:1 for=3s")
    run.listening = False
    run.begin()
    run.progresses("chief:0", 1)
    assert [action for _, action, _ in injected(run)] == ["stop"]


def test_random_targets_follow_from_the_seed() -> None:
    """The same seed chooses the same tasks, others choose others."""

    def chosen(seed: int) -> list[list[str]]:
        run = with_faults("stop any for=1s @ every=5s p=0.5", workers=5, ps=3, seed=seed).begin()
        run.after(100)
        return [tasks for _, _, tasks in injected(run)]

    assert chosen(7) == chosen(7)
    assert len({str(chosen(seed)) for seed in range(10)}) == 10
    assert {len(chosen(seed)) for seed in range(30)} <= set(range(2, 19))


def test_a_kill_during_the_recovery_of_the_gang() -> None:
    """All of the gang restart once more."""
    run = with_faults(
        "kill worker:1 @ step=5", "kill worker:0 @ restart", spec=job(workers=2, limits=Limits(startup=0))
    )
    run.begin()
    run.progresses("worker:0", 5)
    run.after(10)
    assert run.attempts == {"worker:0": 3, "worker:1": 3}
    assert [action for _, action, _ in injected(run)] == ["kill", "kill"]


def ask(run: History, verb: Verb, fault: str = "") -> Answer:
    """Send a request; its answer."""
    number = len(run.asked(Answer)) + 1
    run.send(ev.Requested(number, verb, fault=fault))
    answer: Answer = run.asked(Answer)[-1]
    return answer


def test_a_fault_that_is_asked_for() -> None:
    """At once where it has no trigger; refused with the reason where the run can't have it."""
    run = with_faults().begin()
    assert ask(run, Verb.FAULT, "stop worker:1").problem is None
    assert [action for _, action, _ in injected(run)] == [FaultAction.STOP]
    refused = ask(run, Verb.FAULT, "stop worker:7")
    assert refused.problem is not None
    assert "no task worker:7" in refused.problem
    refused = ask(run, Verb.FAULT, "explode")
    assert refused.problem is not None
    assert "no action 'explode'" in refused.problem
    assert ask(run, Verb.HEAL).tasks == (task("worker:1"),)
    assert run.state("worker:1") is TaskState.RUNNING
    run.send(ev.Interrupted(15))
    assert ask(run, Verb.FAULT, "kill worker:1").problem is not None


def test_seconds_of_a_request_count_from_the_request() -> None:
    """Not from the beginning of the run."""
    run = with_faults().begin()
    run.after(100)
    ask(run, Verb.FAULT, "kill worker:1 @ 5s")
    run.after(10)
    assert [at for at, _, _ in injected(run)] == [105.0]
