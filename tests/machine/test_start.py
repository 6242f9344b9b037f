"""The start of a run: every task at once, what they are told, and what can go wrong before the first step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Inspect, Record, Spawn
from clusterkit.words.errors import ImpossibleTransition
from clusterkit.words.job import JobSpec, Limits
from clusterkit.words.model import TRANSITIONS, TaskState
from clusterkit.words.outcome import Exit, RunState
from tests.histories import BEGAN, SIGKILL, SIGTERM, History, job, task


def test_every_task_is_spawned_once_at_the_beginning() -> None:
    """The coordinator after its servers, all in attempt 1, without a reason for a restart."""
    run = History(job(workers=2, ps=1, evaluator=1)).begin()
    assert [(str(s.task), s.attempt, s.reason) for s in run.asked(Spawn)] == [
        ("worker:0", 1, ""),
        ("worker:1", 1, ""),
        ("ps:0", 1, ""),
        ("chief:0", 1, ""),
        ("evaluator:0", 1, ""),
    ]
    assert {run.state(str(t)) for t in run.job.tasks} == {TaskState.RUNNING}


def test_tasks_of_a_resumed_run_are_told_so() -> None:
    """The restart reason of every first attempt is resume."""
    run = History(job(workers=2, resume="r-1")).begin()
    assert {spawn.reason for spawn in run.asked(Spawn)} == {"resume"}


def test_a_run_whose_tasks_open_no_port_fails_after_the_startup_deadline() -> None:
    """At 120 s the tasks are looked at; who is late is named, with what each of them does, and where more is told."""
    run = History(job(workers=2, ps=1), listening=False).begin()
    run.after(60)
    run.send(ev.Ready(task("chief:0"), 1))
    run.vitals["worker:0"] = ev.Vitals(1, listening=True, state="S")
    run.vitals["worker:1"] = ev.Vitals(1, False, "S", "sleeps at x.py:1", own=True)
    run.vitals["ps:0"] = ev.Vitals(1, False, "T")
    run.after(59)
    assert run.asked(Inspect) == []
    run.after(2)
    assert run.result.state is RunState.FAILED
    assert run.result.exit_code == 1
    assert run.result.reason.startswith("worker:1, ps:0 did not open their ports and reported no progress within 120 s")
    assert Inspect(ev.Look.STARTUP, "not connected after 120 s: worker:1, ps:0") in run.asked(Inspect)
    assert ": worker:1 sleeps at x.py:1; ps:0 is stopped (T)." in run.result.reason
    assert "startup-1.txt" in run.result.reason
    assert {number for _, _, number in run.signals()} == {SIGTERM}


@pytest.mark.parametrize("sign", ["listening", "ready", "progressed", "checkpointed", "resumed"])
def test_a_task_that_gave_any_sign_is_not_late(sign: str) -> None:
    """A listening port, or any report, satisfies the startup deadline."""
    run = History(job(workers=2), listening=sign == "listening").begin()
    for worker in map(task, ("worker:0", "worker:1")):
        signs: dict[str, ev.Happened] = {
            "ready": ev.Ready(worker, 1),
            "progressed": ev.Progressed(worker, 1, 0),
            "checkpointed": ev.Checkpointed(worker, 1, 0, "ckpt-0"),
            "resumed": ev.Resumed(worker, 1, 0, None),
        }
        if sign in signs:
            run.send(signs[sign])
    run.after(300)
    assert not run.over
    assert run.live == {"worker:0", "worker:1"}


def test_a_restarted_task_has_the_startup_deadline_again() -> None:
    """A worker that came up, failed and does not come up again is late, 120 s after its second start."""
    run = History(job(workers=2, ps=1), listening=False).begin()
    for name in ("chief:0", "worker:0", "worker:1", "ps:0"):
        run.send(ev.Ready(task(name), 1))
    run.after(500)
    run.exits("worker:1", code=1)
    run.after(119)
    assert not run.over
    run.after(3)
    assert run.result.reason.startswith("worker:1 did not open its port")


def test_there_is_no_startup_deadline_where_it_is_switched_off() -> None:
    """0 gives any amount of time."""
    run = History(job(workers=2, limits=Limits(startup=0)), listening=False).begin()
    run.after(10_000)
    assert run.asked(Inspect) == []
    assert not run.over


@pytest.mark.parametrize("spec", [job(workers=1), job(workers=1, evaluator=1)], ids=["alone", "with evaluator"])
def test_a_single_process_is_looked_at_once_and_has_no_deadline(spec: JobSpec) -> None:
    """It has no peers; only its program may name some."""
    run = History(spec, listening=False).begin()
    run.after(10_000)
    assert [inspect.look for inspect in run.asked(Inspect)] == [ev.Look.GLANCE, ev.Look.STALL]
    assert run.warnings == []
    assert not run.over


def test_an_evaluator_that_waits_for_a_checkpoint_is_not_late() -> None:
    """It needs no port, and may report nothing for as long as it likes."""
    run = History(job(workers=2, evaluator=1)).begin()
    run.vitals["evaluator:0"] = ev.Vitals(1, False, "S", "sleeps at x.py:1", own=True)
    run.after(10_000)
    assert run.warnings == []
    assert not run.over


CONNECTS = ev.Vitals(1, True, "S", "waits in MultiWorkerMirroredStrategy()", connects=True)


@pytest.mark.parametrize("spec", [job(workers=1), job(workers=2), job(workers=1, ps=1, evaluator=1)])
def test_a_strategy_that_still_waits_for_its_cluster_is_warned_of_once(spec: JobSpec) -> None:
    """All tasks listen, so that one that this job does not have, or cannot be reached, is waited for."""
    run = History(spec).begin()
    run.vitals[str(spec.leader)] = CONNECTS
    run.after(119)
    assert run.warnings == []
    run.after(10_000)
    (warning,) = run.warnings
    assert warning.startswith(f"{spec.leader} waits in MultiWorkerMirroredStrategy(), and a task of its cluster does")
    assert "[::1]:2222" in warning
    assert not run.over


@pytest.mark.parametrize(("letter", "state"), [("T", "is stopped (T)"), ("D", "hangs in the kernel (D)")])
def test_a_task_that_is_stopped_is_named_where_a_strategy_waits_for_its_cluster(letter: str, state: str) -> None:
    """The user's cluster is not to blame then."""
    run = History(job(workers=2)).begin()
    run.vitals["worker:0"] = CONNECTS
    run.vitals["worker:1"] = ev.Vitals(1, True, letter)
    run.after(121)
    waits = "worker:0 waits in MultiWorkerMirroredStrategy()"
    assert run.warnings[0] == f"{waits}, and worker:1 does not answer, because it {state}."


def test_who_makes_steps_is_not_asked_for_whom_it_waits() -> None:
    """A report of progress is enough."""
    run = History(job(workers=1, limits=Limits(stall_warning=0))).begin()
    run.vitals["worker:0"] = CONNECTS
    run.send(ev.Progressed(task("worker:0"), 1, 0))
    run.after(10_000)
    assert run.warnings == []


def test_the_machine_sleeps_until_its_next_deadline_and_no_shorter() -> None:
    """After the start the startup deadline is the next thing; where it is switched off, there is none at all."""
    assert History(job(workers=2)).begin().machine.deadline() == BEGAN + 120
    assert History(job(workers=1, limits=Limits(startup=0))).begin().machine.deadline() is None
    assert History(job(workers=1, limits=Limits(job=30))).begin().machine.deadline() == BEGAN + 30


@pytest.mark.parametrize("state", list(TaskState))
@pytest.mark.parametrize("other", list(TaskState))
def test_an_impossible_transition_raises_with_the_tasks_story(state: TaskState, other: TaskState) -> None:
    """The cluster state allows what the state table has; anything else is a defect and tells what led to it."""
    run = History(job(workers=1)).begin()
    run.after(7)
    record = run.machine.state.records[task("worker:0")]
    record.state = state
    if other in TRANSITIONS[state]:
        run.machine.state.move(record, other)
        assert record.state is other
        return
    with pytest.raises(ImpossibleTransition) as raised:
        run.machine.state.move(record, other)
    story = str(raised.value).splitlines()
    assert story[0] == "worker:0:"
    assert story[1:3] == ["1000.000 waiting -> starting (attempt 1)", "1000.000 starting -> running (attempt 1)"]
    assert story[-1].endswith(f"{state} -> {other} (attempt 1)")
    assert record.state is state


def test_an_exit_before_the_spawn_is_impossible() -> None:
    """A backend that reports an exit of what it has not started breaks its contract, and the story says so."""
    run = History(job(workers=1))
    run.machine.handle(ev.Began(), BEGAN)
    with pytest.raises(ImpossibleTransition, match=r"(?s)^worker:0:\n.*starting -> draining"):
        run.machine.handle(ev.Exited(task("worker:0"), 1, Exit(code=0)), BEGAN)


@pytest.mark.parametrize(
    "event", [ev.ProgramChanged(("train.py",)), ev.Requested(1, ev.Verb.RESTART)], ids=["saved", "asked"]
)
def test_a_late_start_that_is_given_up_already_is_no_failure(event: ev.Happened) -> None:
    """The look at it takes seconds. Meanwhile its tasks are restarted by somebody."""
    run = History(replace(job(2), watch=True), listening=False, unlooked=True)
    run.stubborn = {"worker:0", "worker:1"}
    run.begin()
    run.after(1)
    run.send(ev.Ready(task("worker:0"), 1))
    run.after(120)
    assert ev.Look.STARTUP in [look.look for look in run.asked(Inspect)]
    run.send(event)
    run.after(0.3)
    late = {task(name): ev.Vitals(1, False, "S") for name in run.live}
    run.send(ev.Inspected(late, ev.Look.STARTUP, "startup-1.txt"))
    run.unlooked = False
    run.after(30)
    assert not run.over
    assert run.attempts == {"worker:0": 2, "worker:1": 2}


@pytest.mark.parametrize("look", ev.Look)
def test_a_look_at_an_attempt_says_nothing_of_the_next_one(look: ev.Look) -> None:
    """It takes seconds, or one of several hosts was late to answer; meanwhile another one's task has restarted."""
    run = History(job(2, ps=1), listening=False, unlooked=True).begin()
    run.after(1)
    for name in ("chief:0", "ps:0", "worker:0"):
        run.send(ev.Ready(task(name), 1))
    run.after(120)
    assert ev.Look.STARTUP in [look.look for look in run.asked(Inspect)]
    run.exits("worker:0", signal=SIGKILL)
    run.after(1.5)
    assert run.attempts["worker:0"] == 2
    ready = (ev.Look.GLANCE, ev.Look.STARTUP)
    seen = {task("worker:0"): ev.Vitals(1, True, "S"), task("worker:1"): ev.Vitals(1, True, "S")}
    run.send(ev.Inspected(seen, look))
    records = run.machine.state.records
    assert (records[task("worker:0")].ready, records[task("worker:1")].ready) == (False, look in ready)


def test_the_warnings_about_the_program_are_recorded_before_its_tasks_start() -> None:
    """Each reader of the journal has them, as long as the run goes on."""
    run = History(job(2))
    run.send(ev.Began(("train.py:3: The rows differ.", "train.py:9: The loss differs.")))
    assert [warned.text for warned in run.decided(ev.Warned)] == [
        "train.py:3: The rows differ.",
        "train.py:9: The loss differs.",
    ]
    assert run.attempts == {"worker:0": 1, "worker:1": 1}
    assert [type(action) for _, action in run.actions[:2]] == [Record, Record]
