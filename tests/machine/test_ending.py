"""The end after success: who is ended when, and what no longer counts."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Record
from clusterkit.words.job import JobSpec, Limits
from clusterkit.words.outcome import Asked, Exit, Reservation, RunState
from tests.histories import BEGAN, SIGINT, SIGKILL, SIGTERM, History, job, task


@pytest.mark.parametrize(
    ("spec", "leader"),
    [
        (job(workers=1), "worker:0"),
        (job(chief=1), "chief:0"),
        (job(workers=3), "worker:0"),
        (job(workers=2, chief=1), "chief:0"),
        (job(workers=2, ps=1), "chief:0"),
    ],
)
def test_the_job_is_over_when_its_leader_exits_0(spec: JobSpec, leader: str) -> None:
    """The chief, or worker:0 where there is none, decides; the run's exit code is 0."""
    run = History(spec).begin()
    run.after(5)
    run.exits(leader, code=0)
    run.after(10)
    assert (run.result.state, run.result.exit_code) == (RunState.SUCCEEDED, 0)
    assert run.result.reason == f"{leader} exited with code 0"
    assert run.result.cause is None
    assert len(run.result.attempts) == len(spec.tasks)


@pytest.mark.parametrize(
    ("losses", "since", "warnings"),
    [
        ((1.0, None, None), 1, 1),
        ((None, 0.5), None, 1),
        ((None, 0.5, None), 0, 1),
        ((1.0, 0.5), None, 0),
        ((), None, 0),
    ],
)
def test_a_loss_that_is_not_a_number_casts_doubt_on_the_success(
    losses: tuple[float | None, ...], since: int | None, warnings: int
) -> None:
    """The result has the step of the first NaN; a later number takes the doubt back."""
    run = History(job(workers=2)).begin()
    for step, loss in enumerate(losses):
        run.send(ev.Progressed(task("worker:1"), 1, step, {"loss": None}))
        run.send(ev.Progressed(task("worker:0"), 1, step, {"loss": loss}))
    run.exits("worker:1", code=0)
    run.exits("worker:0", code=0)
    run.after(20)
    assert run.result.diverged_at == since
    assert run.result.exit_code == (0 if since is None else 3)
    assert run.result.fine is (since is None)
    assert ("not a number, first at step" in run.result.reason) is (since is not None)
    assert sum("not a number" in warning for warning in run.warnings) == warnings


@pytest.mark.parametrize(("total", "short"), [(40, True), (30, False), (None, False)])
def test_a_leader_that_made_fewer_steps_than_it_had_announced(total: int | None, short: bool) -> None:
    """The result says so; the success stays one."""
    run = History(job(workers=2)).begin()
    for name, announced in (("worker:1", 50), ("worker:0", total)):
        run.send(ev.Progressed(task(name), 1, 30, {}, announced))
        run.exits(name, code=0)
    assert (run.result.short, run.result.fine) == (short, True)


def test_another_training_tasks_exit_0_does_not_end_the_job() -> None:
    """worker:1 may be done before worker:0."""
    run = History(job(workers=2)).begin()
    run.exits("worker:1", code=0)
    run.after(1000)
    assert not run.over
    assert run.signals() == []


def test_servers_are_terminated_at_once_and_killed_after_three_seconds() -> None:
    """ps and parameter-server workers never return from join; that they are ended counts as success."""
    run = History(job(workers=1, ps=1), stubborn={"ps:0"}).begin()
    run.exits("chief:0", code=0)
    run.after(10)
    assert run.signals() == [(0.0, "worker:0", SIGTERM), (0.0, "ps:0", SIGTERM), (3.0, "ps:0", SIGKILL)]
    assert run.result.exit_code == 0
    assert run.result.duration == pytest.approx(3)
    exits = [attempt.exit for attempt in run.result.attempts if str(attempt.task) != "chief:0"]
    assert [exit_ and (exit_.signal, exit_.asked) for exit_ in exits] == [(15, Asked.SUCCESS), (9, Asked.SUCCESS)]


def test_other_training_tasks_get_ten_seconds_in_total() -> None:
    """They may finish by themselves, are told to end before their time is over, and killed at its end."""
    run = History(job(workers=3), stubborn={"worker:2"}).begin()
    run.exits("worker:0", code=0)
    run.after(1)
    assert run.signals() == []
    run.exits("worker:1", code=0)
    run.after(10)
    assert run.signals() == [(7.0, "worker:2", SIGTERM), (10.0, "worker:2", SIGKILL)]
    assert run.result.exit_code == 0


def test_training_tasks_that_have_ended_are_not_waited_for() -> None:
    """The end of a mirrored job comes with the last exit, not when everybody's time is over."""
    run = History(job(workers=3)).begin()
    run.exits("worker:1", code=0)
    run.exits("worker:0", code=0)
    run.after(0.4)
    run.exits("worker:2", code=0)
    assert run.result.duration == pytest.approx(0.4)
    assert run.signals() == []


def test_failures_after_success_are_no_failures() -> None:
    """A peer that dies of the leader's absence is not restarted, and is no cause; but it had something left to do."""
    run = History(job(workers=3)).begin()
    run.exits("worker:0", code=0)
    run.exits("worker:1", exception="UnavailableError: Socket closed")
    run.exits("worker:2", signal=6)
    assert (run.result.state, run.result.cause, run.result.collateral) == (RunState.SUCCEEDED, None, ())
    assert (run.result.exit_code, run.result.reservations) == (3, (Reservation.UNFINISHED,))
    assert run.failures == []
    assert set(run.attempts.values()) == {1}


def test_a_recovery_that_waits_is_dropped_at_success() -> None:
    """A worker in its backoff is not started for a job that is done."""
    run = History(job(workers=2, ps=1)).begin()
    run.exits("worker:1", code=1)
    run.after(0.5)
    run.exits("chief:0", code=0)
    run.after(20)
    assert run.attempts["worker:1"] == 1
    assert run.result.exit_code == 0


def test_the_evaluator_ends_when_it_has_seen_the_newest_checkpoint() -> None:
    """After success it may evaluate the last checkpoint; then it is told to end."""
    run = History(job(workers=1, evaluator=1)).begin()
    run.checkpoints("worker:0", 100)
    run.exits("worker:0", code=0)
    run.after(5)
    run.progresses("evaluator:0", 50)
    assert run.signals() == []
    run.progresses("evaluator:0", 100)
    assert run.signals() == [(5.0, "evaluator:0", SIGTERM)]
    assert run.result.exit_code == 0


def test_an_evaluator_that_is_up_to_date_ends_at_once() -> None:
    """It has nothing left to evaluate."""
    run = History(job(workers=1, evaluator=1)).begin()
    run.checkpoints("worker:0", 100)
    run.progresses("evaluator:0", 100)
    run.exits("worker:0", code=0)
    assert run.result.duration == 0


def test_an_evaluator_that_does_not_finish_is_ended_after_its_time() -> None:
    """It gets 30 s, then SIGTERM, then its grace period."""
    run = History(job(workers=1, evaluator=1), stubborn={"evaluator:0"}).begin()
    run.checkpoints("worker:0", 100)
    run.exits("worker:0", code=0)
    run.after(100)
    assert run.signals() == [(30.0, "evaluator:0", SIGTERM), (40.0, "evaluator:0", SIGKILL)]
    assert run.result.exit_code == 0


def test_an_evaluator_that_ends_by_itself_is_not_waited_for() -> None:
    """The run is over as soon as nothing is left."""
    run = History(job(workers=1, evaluator=1)).begin()
    run.exits("worker:0", code=0)
    run.after(2)
    run.exits("evaluator:0", code=0)
    assert run.result.duration == pytest.approx(2)


def test_ctrl_c_after_success_hurries_the_rest_and_stays_a_success() -> None:
    """The user need not wait for the evaluator; the job has succeeded all the same."""
    run = History(job(workers=1, evaluator=1)).begin()
    run.checkpoints("worker:0", 100)
    run.exits("worker:0", code=0)
    run.after(4)
    run.send(ev.Interrupted(SIGINT))
    assert run.signals() == [(4.0, "evaluator:0", SIGTERM)]
    assert (run.result.state, run.result.exit_code) == (RunState.SUCCEEDED, 0)


def test_nothing_is_finished_before_everything_is_swept_and_drained() -> None:
    """The result comes after the last process is proved dead and the last output is read."""
    run = History(job(workers=1), clinging={"worker:0"}).begin()
    run.exits("worker:0", code=0)
    assert not run.over
    run.after(1.9)
    assert not run.over
    run.after(0.2)
    assert run.result.exit_code == 0


def test_what_a_task_leaves_behind_is_told() -> None:
    """Processes that outlived their task were killed, and the user learns of it."""
    run = History(job(workers=1))
    worker = task("worker:0")
    run.machine.handle(ev.Began(), BEGAN)
    run.machine.handle(ev.Spawned(worker, 1, "pid 7"), BEGAN)
    run.machine.handle(ev.Exited(worker, 1, Exit(code=0)), BEGAN)
    actions = run.machine.handle(ev.Swept(worker, 1, left=2), BEGAN)
    texts = [a.event.text for a in actions if isinstance(a, Record) and isinstance(a.event, ev.Warned)]
    assert texts == ["worker:0 left 2 processes behind, which clusterkit killed."]


@pytest.mark.parametrize(
    ("swept", "reason"),
    [
        (
            ev.Swept(task("worker:1"), 1, left=2, stuck=(41, 42)),
            "processes of worker:1 do not die of SIGKILL (pid 41, 42), so its port is not free",
        ),
        (
            ev.Swept(task("worker:1"), 1, unseen="Too many open files"),
            "whether a process of worker:1 is left can't be seen (Too many open files)",
        ),
    ],
)
def test_processes_that_do_not_die_fail_the_job(swept: ev.Swept, reason: str) -> None:
    """Their port can't be used again, so nothing can be restarted, and the pids are named where they are known."""
    run = History(job(workers=2, ps=1)).begin()
    run.live.discard("worker:1")
    run.unswept.add("worker:1")
    run.send(ev.Exited(task("worker:1"), 1, Exit(signal=9)))
    run.send(swept)
    run.after(20)
    assert run.result.exit_code == 1
    assert run.result.reason == reason


def test_a_task_that_does_not_die_of_sigkill_does_not_hold_up_the_end() -> None:
    """It has 10 s; then it is left behind, which is told, and what was asked for is the result."""
    run = History(job(workers=2)).begin()
    run.unreachable.add("worker:1")
    run.send(ev.Interrupted(SIGINT))
    run.after(19.9)
    assert not run.over
    run.after(0.2)
    assert (run.result.exit_code, run.result.reason) == (130, "clusterkit got SIGINT")
    (left,) = [attempt for attempt in run.result.attempts if str(attempt.task) == "worker:1"]
    assert (left.ended, left.exit) == (None, None)
    (text,) = run.warnings
    where = run.machine.state.records[task("worker:1")].process_name
    assert text.startswith(f"worker:1 ({where}) did not die within 10 s of SIGKILL: a debugger holds it, or it waits")


@pytest.mark.parametrize("drained", [True, False])
def test_a_task_that_does_not_die_of_a_sigkill_in_the_midst_of_a_run_fails_it(drained: bool) -> None:
    """Its port is taken, so it can't be started again; what it does later is nothing to the run."""
    run = History(job(workers=2, ps=1)).begin()
    run.unreachable.add("worker:1")
    where = run.machine.state.records[task("worker:1")].process_name
    run.send(ev.Requested(1, ev.Verb.KILL, (task("worker:1"),), signal=SIGKILL))
    run.after(9.9)
    assert not run.machine.ending.begun
    if drained:
        run.send(ev.Drained(task("worker:1"), 1, (), None))
    run.after(0.2)
    assert run.over
    run.send(ev.Exited(task("worker:1"), 1, Exit(signal=SIGKILL)))
    assert run.result.reason == f"worker:1 ({where}) did not die within 10 s of SIGKILL"
    assert run.result.exit_code == 1


def test_a_task_that_dies_in_time_is_no_such_task() -> None:
    """Nor is the next attempt of one."""
    run = History(job(workers=2, ps=1)).begin()
    run.send(ev.Requested(1, ev.Verb.KILL, (task("worker:1"),), signal=SIGKILL))
    run.after(30)
    assert (run.attempts["worker:1"], run.warnings, run.machine.ending.begun) == (2, [], False)


def test_the_result_has_every_attempt_with_its_times_and_steps() -> None:
    """What result.json tells of a job that restarted once."""
    run = History(job(workers=1, limits=Limits(startup=0))).begin()
    run.progresses("worker:0", 1)
    run.checkpoints("worker:0", 5)
    run.after(10)
    run.progresses("worker:0", 7)
    run.exits("worker:0", signal=SIGKILL)
    run.after(5)
    run.resumes("worker:0", 5, "ckpt-5")
    run.progresses("worker:0", 6)
    run.progresses("worker:0", 20)
    run.exits("worker:0", code=0)
    first, second = run.result.attempts
    assert (first.attempt, first.started, first.ended) == (1, 0.0, 10.0)
    assert (first.first_step, first.last_step, first.resumed_step) == (1, 7, None)
    assert (second.attempt, second.ended) == (2, 15.0)
    assert (second.first_step, second.last_step, second.resumed_step, second.resumed_from) == (6, 20, 5, "ckpt-5")
    assert (run.result.restarts, run.result.last_step, run.result.duration) == (1, 20, 15.0)
