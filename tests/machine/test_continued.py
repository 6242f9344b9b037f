"""A run that continues in another allocation, and one whose allocation ends: histories of several machines."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from clusterkit.ledger.ledger import ledger_of
from clusterkit.ledger.takeover import history_of
from clusterkit.machine.core import ALLOCATIONS
from clusterkit.machine.history import RunHistory
from clusterkit.words import events as ev
from clusterkit.words.actions import Spawn
from clusterkit.words.job import JobSpec, Limits, RestartRules
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import SUSPENDED, Asked, Exit, RunState
from tests.histories import SIGINT, SIGTERM, History, faults, job, task
from tests.words.test_wire import EVENTS

PS = job(workers=2, ps=1)
GANG = job(workers=2)
ENDING = ev.AllocationEnding("its time limit is reached", 60.0)


def begun(spec: JobSpec, happened: list[tuple[float, ev.Event]]) -> History:
    """A run whose journal is kept in a list."""
    return History(spec, observe=lambda event, now: happened.append((now, event))).begin()


def continued(run: History, happened: list[tuple[float, ev.Event]], gap: float = 100.0) -> History:
    """The run's next allocation, after its supervisor was lost or had suspended it."""
    before = history_of(ledger_of(run.job, happened))
    again = History(run.job, seed=run.seed, now=before.last_event_at + gap, before=before, observe=run.observe)
    again.checkpoint = run.checkpoint
    again.send(ev.Continued(before.allocations + 1))
    return again


def lost(spec: JobSpec = GANG) -> tuple[History, list[tuple[float, ev.Event]]]:
    """A run with a checkpoint at step 10, a restart, and a supervisor that is gone while all tasks live."""
    happened: list[tuple[float, ev.Event]] = []
    run = begun(spec, happened)
    run.progresses("worker:0", 10)
    run.checkpoints("worker:0", 10)
    run.exits("worker:1", code=1)
    run.after(5)
    run.progresses("worker:0", 12)
    return run, happened


def test_attempts_count_on_and_begin_with_the_newest_checkpoint() -> None:
    """Every task starts again, and is told why."""
    run, happened = lost()
    again = continued(run, happened)
    spawns = again.asked(Spawn)
    assert {(str(one.task), one.attempt, one.reason) for one in spawns} == {
        ("worker:0", 3, "continued"),
        ("worker:1", 3, "continued"),
    }
    again.resumes("worker:0", 0, None)
    assert "although the checkpoint ckpt-10 (step 10) was there" in again.warnings[0]


def test_what_lived_is_lost_with_its_supervisor() -> None:
    """Nobody saw its end; what is known of it is in the result, with the attempts before and after it."""
    run, happened = lost()
    again = continued(run, happened)
    [first, second] = again.decided(ev.AttemptEnded)
    assert (str(first.task), first.attempt, first.exit) == ("worker:0", 2, Exit(lost=True))
    assert (first.first_step, first.last_step) == (12, 12)
    assert str(second.exit) == "was lost with its supervisor"
    again.exits("worker:0", code=0)
    again.after(60)
    result = again.result
    assert (result.state, result.restarts, result.checkpoint) == (RunState.SUCCEEDED, 1, "ckpt-10")
    assert [(str(one.task), one.attempt) for one in result.attempts] == [
        (f"worker:{index}", attempt) for index in (0, 1) for attempt in (1, 2, 3)
    ]
    times = [one.started for one in result.attempts if str(one.task) == "worker:0"]
    assert times == sorted(times)
    assert result.duration > 100


def test_an_allocations_end_is_not_charged() -> None:
    """The restart budget is each allocation's own."""
    happened: list[tuple[float, ev.Event]] = []
    run = begun(job(workers=1, restart=RestartRules(budget=1)), happened)
    for _ in range(3):
        run.exits("worker:0", code=1)
        run.after(40)
        assert run.state("worker:0") is TaskState.RUNNING
        run = continued(run, happened)
    assert run.decided(ev.Failed) == []


def test_the_allocation_ends_and_the_run_is_suspended() -> None:
    """Tasks get the time that there is; those that checkpoint say so with 42, and none of it is a failure."""
    happened: list[tuple[float, ev.Event]] = []
    run = begun(PS, happened)
    run.stubborn.update(("chief:0", "ps:0"))
    run.send(ENDING)
    [stopping] = run.decided(ev.Stopping)
    assert (stopping.suspends, stopping.grace) == (True, 60.0)
    run.exits("chief:0", code=42)
    run.after(59)
    assert not run.over
    run.after(2)
    assert (run.result.state, run.result.exit_code, run.result.final) == (RunState.SUSPENDED, SUSPENDED, False)
    assert run.decided(ev.Failed) == []
    assert {one.exit.asked for one in run.result.attempts if one.exit} == {Asked.SUSPENSION}
    again = continued(run, happened)
    assert again.decided(ev.AttemptEnded) == []
    assert {spawn.attempt for spawn in again.asked(Spawn)} == {2}


def test_a_leader_that_was_done_before_it_heard_of_the_end_makes_the_job_a_success() -> None:
    """Nothing is left to continue."""
    run = begun(GANG, [])
    run.unreachable.add("worker:0")
    run.send(ENDING)
    run.exits("worker:0", code=0)
    run.after(60)
    assert (run.result.state, run.result.final) == (RunState.SUCCEEDED, True)


@pytest.mark.parametrize("signal", [SIGINT, SIGTERM])
def test_whoever_ends_a_suspended_run_ends_it_for_good(signal: int) -> None:
    """As long as its tasks are still ending."""
    run = begun(GANG, [])
    run.stubborn.add("worker:0")
    run.send(ENDING)
    run.send(ev.Interrupted(signal))
    run.send(ENDING)
    run.after(61)
    assert (run.result.state, run.result.exit_code) == (RunState.STOPPED, 128 + signal)


def test_after_success_the_end_of_the_allocation_only_hurries() -> None:
    """The result stays what it is."""
    run = begun(job(workers=1, evaluator=1), [])
    run.stubborn.add("evaluator:0")
    run.exits("worker:0", code=0)
    run.send(ENDING)
    run.after(61)
    assert run.result.state is RunState.SUCCEEDED


def test_a_guardian_that_is_lost_is_no_verdict_about_the_run() -> None:
    """It may continue; a failure of its program may not."""
    happened: list[tuple[float, ev.Event]] = []
    run = begun(GANG, happened)
    run.send(ev.LifelineLost())
    assert (run.result.lost, run.result.final) == (True, False)
    again = continued(run, happened)
    assert len(again.asked(Spawn)) == 2
    again.exits("worker:0", code=0)
    again.after(60)
    assert again.result.final
    assert history_of(ledger_of(GANG, happened)).final == again.result


def test_a_run_that_had_succeeded_is_not_done_again() -> None:
    """Its supervisor was lost while the others ended."""
    happened: list[tuple[float, ev.Event]] = []
    run = begun(GANG, happened)
    run.stubborn.add("worker:1")
    run.exits("worker:0", code=0)
    again = continued(run, happened)
    assert again.asked(Spawn) == []
    assert (again.result.state, again.result.exit_code) == (RunState.SUCCEEDED, 0)


def test_a_run_that_was_being_ended_does_not_come_back() -> None:
    """Somebody had asked for its end."""
    happened: list[tuple[float, ev.Event]] = []
    run = begun(GANG, happened)
    run.stubborn.add("worker:1")
    run.send(ev.Interrupted(SIGTERM))
    again = continued(run, happened)
    assert again.asked(Spawn) == []
    assert again.result.state is RunState.FAILED
    assert again.result.reason.startswith("clusterkit got SIGTERM; ")


def test_there_is_an_end_to_allocations() -> None:
    """A host that always kills its supervisor is not tried for ever."""
    run = History(GANG, before=RunHistory(began=0.0, last_event_at=9.0, allocations=ALLOCATIONS), now=10.0)
    run.send(ev.Continued(ALLOCATIONS + 1))
    assert (run.result.state, run.result.final) == (RunState.FAILED, True)
    assert "100 allocations" in run.result.reason


def test_the_timeout_of_the_job_counts_the_time_in_allocations() -> None:
    """Not the time in which it waits for one."""
    happened: list[tuple[float, ev.Event]] = []
    run = begun(job(workers=1, limits=Limits(job=100.0)), happened)
    run.after(60)
    run.progresses("worker:0", 1)
    again = continued(run, happened, gap=1000.0)
    again.after(39)
    assert not again.over
    again.after(20)
    assert again.result.state is RunState.TIMED_OUT


def test_a_fault_that_came_about_does_not_come_again() -> None:
    """One that repeats does; numbers go on, and what was open is healed with its allocation."""
    happened: list[tuple[float, ev.Event]] = []
    spec = replace(GANG, faults=faults("stop worker:1 for=50s @ step=5", "kill worker:0 @ step=90"))
    run = begun(spec, happened)
    run.progresses("worker:0", 5)
    assert [one.number for one in run.decided(ev.FaultInjected)] == [1]
    again = continued(run, happened)
    assert [(one.number, one.why) for one in again.decided(ev.FaultHealed)] == [
        (1, "the allocation that it was injected in has ended")
    ]
    again.progresses("worker:0", 6)
    assert again.decided(ev.FaultInjected) == []
    again.progresses("worker:0", 90)
    assert [one.number for one in again.decided(ev.FaultInjected)] == [2]
    assert again.machine.faults.not_injected() == ()


def test_events_of_attempts_before_the_border_are_ignored() -> None:
    """An agent of the old allocation may still say something."""
    run, happened = lost()
    again = continued(run, happened)
    count = len(again.actions)
    again.send(ev.Exited(task("worker:0"), 2, Exit(code=1)))
    again.send(ev.Progressed(task("worker:0"), 2, 99))
    assert len(again.actions) == count


@pytest.mark.parametrize("seed", range(200))
def test_any_journal_can_be_continued(seed: int) -> None:
    """Events in no order, of other tasks, at times that go back; the seed is in the test's name."""
    draw = random.Random(seed)
    chosen = [(draw.uniform(-1e3, 1e3), draw.choice(EVENTS)) for _ in range(draw.randrange(60))]
    spec = draw.choice((PS, GANG))
    before = history_of(ledger_of(spec, chosen))
    run = History(spec, before=before, now=before.last_event_at + 1)
    run.send(ev.Continued(before.allocations + 1))
    run.after(5)
    assert run.over == (before.successful_task is not None or before.stop_reason is not None)
    for spawn in run.asked(Spawn):
        assert spawn.attempt > before.newest_attempts.get(spawn.task, 0)
