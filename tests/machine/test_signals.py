"""The end on request: Ctrl-C, SIGTERM, --timeout, and what makes going on impossible."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Finish, Signal, Spawn
from clusterkit.words.job import Limits, RestartRules
from clusterkit.words.outcome import Exit, RunState
from tests.histories import BEGAN, SIGINT, SIGKILL, SIGTERM, History, job, task

TASKS = ("chief:0", "worker:0", "ps:0", "evaluator:0")


def running() -> History:
    """A parameter-server job with an evaluator, whose ps and worker ignore SIGTERM."""
    return History(job(workers=1, ps=1, evaluator=1), stubborn={"ps:0", "worker:0"}).begin()


@pytest.mark.parametrize(
    ("signal", "name", "code"), [(SIGINT, "SIGINT", 130), (SIGTERM, "SIGTERM", 143), (1, "SIGHUP", 129)]
)
def test_a_signal_ends_every_task_with_grace(signal: int, name: str, code: int) -> None:
    """TERM to all at once, KILL after the grace period to those that are left; exit code 128 + the signal."""
    run = running()
    run.after(50)
    run.send(ev.Interrupted(signal))
    run.after(30)
    terms = [(50.0, one, SIGTERM) for one in TASKS]
    assert run.signals() == [*terms, (60.0, "worker:0", SIGKILL), (60.0, "ps:0", SIGKILL)]
    assert (run.result.state, run.result.exit_code) == (RunState.STOPPED, code)
    assert run.result.reason == f"clusterkit got {name}"
    assert run.failures == []


@pytest.mark.parametrize(("reports", "killed_at"), [((False,), 51.0), ((True,), 60.0), ((False, True), 60.0)])
def test_a_task_in_which_nothing_handles_sigterm_gets_a_second(reports: tuple[bool, ...], killed_at: float) -> None:
    """Its last report counts; without one the grace period is the whole one, and a shorter one stays."""
    run = running()
    for handled in reports:
        run.send(ev.SigtermHandled(task("worker:0"), 1, handled))
    run.after(50)
    run.send(ev.Interrupted(SIGTERM))
    run.after(30)
    kills = {name: at for at, name, signal in run.signals() if signal == SIGKILL}
    assert kills == {"worker:0": killed_at, "ps:0": 60.0}


def test_a_grace_period_below_a_second_is_kept() -> None:
    """Also where nothing handles SIGTERM."""
    run = History(job(workers=1, limits=Limits(grace=0.5)), stubborn={"worker:0"}).begin()
    run.send(ev.SigtermHandled(task("worker:0"), 1, False))
    run.send(ev.Interrupted(SIGTERM))
    run.after(5)
    assert run.signals() == [(0.0, "worker:0", SIGTERM), (0.5, "worker:0", SIGKILL)]


def test_a_second_ctrl_c_kills_now() -> None:
    """Who still lives at the second SIGINT gets SIGKILL, once; the exit code stays 130."""
    run = running()
    run.send(ev.Interrupted(SIGINT))
    run.after(2)
    run.send(ev.Interrupted(SIGINT))
    assert run.signals()[4:] == [(2.0, "worker:0", SIGKILL), (2.0, "ps:0", SIGKILL)]
    assert run.result.exit_code == 130
    assert run.result.duration == 2


def test_a_second_sigterm_changes_nothing() -> None:
    """Only Ctrl-C is an impatient user; whoever sends SIGTERM twice gets the grace period."""
    run = running()
    run.send(ev.Interrupted(SIGTERM))
    run.after(2)
    run.send(ev.Interrupted(SIGTERM))
    assert len(run.signals()) == 4
    run.after(10)
    assert run.result.exit_code == 143


def test_a_grace_period_of_zero_kills_at_once() -> None:
    """--grace-period 0 sends no SIGTERM at all."""
    run = History(job(workers=2, limits=Limits(grace=0))).begin()
    run.send(ev.Interrupted(SIGTERM))
    assert run.signals() == [(0.0, "worker:0", SIGKILL), (0.0, "worker:1", SIGKILL)]
    assert run.result.exit_code == 143


def test_the_timeout_ends_the_job_with_124() -> None:
    """--timeout counts from the beginning of the run, over every restart."""
    run = History(job(workers=1, limits=Limits(job=60)), stubborn={"worker:0"}).begin()
    run.after(30)
    run.exits("worker:0", code=1)
    run.after(100)
    assert run.signals() == [(60.0, "worker:0", SIGTERM), (70.0, "worker:0", SIGKILL)]
    assert (run.result.state, run.result.exit_code) == (RunState.TIMED_OUT, 124)
    assert run.result.reason == "the job took longer than its timeout of 60 s"


def test_a_run_without_a_process_stops_at_once() -> None:
    """Ctrl-C in a backoff: nothing has to be ended, nothing is started."""
    run = History(job(workers=1)).begin()
    run.exits("worker:0", code=1)
    run.send(ev.Interrupted(SIGINT))
    assert run.result.exit_code == 130
    run.after(60)
    assert len(run.asked(Spawn)) == 1


def test_a_task_that_is_just_being_started_is_told_as_soon_as_it_exists() -> None:
    """A signal between Spawn and Spawned reaches the new process."""
    run = History(job(workers=1))
    worker = task("worker:0")
    run.machine.handle(ev.Began(), BEGAN)
    assert run.machine.handle(ev.Interrupted(SIGTERM), BEGAN)[1:] == [Signal(worker, 1, SIGTERM, 10.0)]
    actions = run.machine.handle(ev.Spawned(worker, 1, "pid 7"), BEGAN + 1)
    assert Signal(worker, 1, SIGTERM, 10.0) in actions
    assert run.machine.deadline() == BEGAN + 11


def test_a_task_that_can_not_be_started_after_a_stop_request_does_not_hold_the_end_up() -> None:
    """SpawnFailed settles the task, and the run ends as asked."""
    run = History(job(workers=1))
    run.machine.handle(ev.Began(), BEGAN)
    run.machine.handle(ev.Interrupted(SIGTERM), BEGAN)
    actions = run.machine.handle(ev.SpawnFailed(task("worker:0"), 1, "no"), BEGAN)
    (finish,) = [action for action in actions if isinstance(action, Finish)]
    assert finish.result.exit_code == 143


def test_failures_of_tasks_that_are_being_ended_are_no_failures() -> None:
    """What tasks exit with after SIGTERM is of no account."""
    run = running()
    run.send(ev.Interrupted(SIGINT))
    run.exits("ps:0", code=3)
    run.exits("worker:0", exception="UnavailableError: x")
    assert run.failures == []
    assert (run.result.exit_code, run.result.cause) == (130, None)
    assert set(run.attempts.values()) == {1}


def test_the_first_verdict_stands() -> None:
    """A signal during the teardown of a failed job does not turn the failure into a stop."""
    run = History(job(workers=1, ps=1, restart=RestartRules(budget=0)), stubborn={"ps:0"}).begin()
    run.exits("worker:0", code=3)
    run.send(ev.Interrupted(SIGTERM))
    run.after(20)
    assert (run.result.state, run.result.exit_code) == (RunState.FAILED, 1)
    assert run.result.cause is not None


def test_two_ctrl_c_during_a_teardown_kill_now() -> None:
    """Who asks twice need not wait for the grace period of an end that had begun by itself."""
    run = History(job(workers=1, ps=1, restart=RestartRules(budget=0)), stubborn={"ps:0"}).begin()
    run.exits("worker:0", code=3)
    run.after(1)
    run.send(ev.Interrupted(SIGINT))
    run.send(ev.Interrupted(SIGINT))
    assert run.signals()[-1] == (1.0, "ps:0", SIGKILL)
    assert run.result.exit_code == 1


def test_the_loss_of_the_guardian_kills_everything_at_once() -> None:
    """Without the guardian nobody would end the tasks if the supervisor died as well."""
    run = running()
    run.send(ev.LifelineLost())
    assert {name for _, name, number in run.signals() if number == SIGKILL} >= {"ps:0", "worker:0"}
    assert run.result.exit_code == 1
    assert run.result.duration == 0
    assert "guardian" in run.result.reason


def test_a_failure_of_clusterkit_itself_ends_the_run_without_waiting_for_anything() -> None:
    """Who is to answer may be what has failed: the result comes at once, with the attempts as they are."""
    run = running()
    run.send(ev.Crashed("the thread 'watcher'", "OverflowError: x", "Traceback"))
    assert (run.result.state, run.result.exit_code) == (RunState.FAILED, 70)
    assert run.result.reason == "clusterkit itself failed in the thread 'watcher' (OverflowError: x)"
    assert {str(attempt.task): attempt.exit for attempt in run.result.attempts} == dict.fromkeys(
        ("chief:0", "worker:0", "ps:0", "evaluator:0")
    )


def test_a_failure_before_the_run_began_takes_no_time() -> None:
    """The clock of the machine does not begin at 0."""
    run = History(job(workers=1))
    run.send(ev.Crashed("its main loop", "ValueError: x", "Traceback"))
    assert run.result.duration == 0


def test_a_run_directory_that_takes_nothing_more_fails_the_job() -> None:
    """A full disk would lose logs and journal, so the job ends, with grace, and says why."""
    run = running()
    run.send(ev.StorageFailed("the journal could not be written: No space left on device"))
    assert {number for _, _, number in run.signals()} == {SIGTERM}
    run.after(11)
    assert (run.result.state, run.result.exit_code) == (RunState.FAILED, 1)
    assert run.result.reason == "the journal could not be written: No space left on device"


def test_finish_comes_once() -> None:
    """Nothing that comes after the end makes another one."""
    run = History(job(workers=1)).begin()
    run.exits("worker:0", code=0)
    for late in (ev.Interrupted(SIGINT), ev.Ticked(), ev.LifelineLost(), ev.StorageFailed("x"), ev.Inspected({})):
        run.send(late)
    assert run.result.exit_code == 0
    assert len(run.decided(ev.Finished)) == 1


def test_sigkill_is_sent_once() -> None:
    """A task that takes its time to die of the second Ctrl-C is not killed again at the end of the grace period."""
    run = History(job(workers=1), unreachable={"worker:0"}).begin()
    run.send(ev.Interrupted(SIGINT))
    run.after(1)
    run.send(ev.Interrupted(SIGINT))
    run.after(60)
    assert run.signals() == [(0.0, "worker:0", SIGTERM), (1.0, "worker:0", SIGKILL)]


@pytest.mark.parametrize(("reached", "starved"), [((), True), ((SIGTERM,), True), ((SIGKILL,), False)])
def test_a_sigkill_that_clusterkit_sent_is_never_out_of_memory(reached: tuple[int, ...], starved: bool) -> None:
    """The kernel's count may have gone up for another process; without a SIGKILL of clusterkit's it is believed."""
    run = History(job(workers=1)).begin()
    killed = Exit(signal=SIGKILL, out_of_memory=True)
    run.send(ev.Exited(task("worker:0"), 1, killed, reached))
    assert [failure.exit.out_of_memory for failure in run.failures] == [starved]
