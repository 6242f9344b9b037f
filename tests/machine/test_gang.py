"""Failures that come together: the collateral window, cause and collateral, failures during a recovery."""

from __future__ import annotations

from clusterkit.words import events as ev
from clusterkit.words.job import RestartPolicy, RestartRules
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import Asked, Exit
from tests.histories import SIGABRT, SIGKILL, History, job

UNAVAILABLE = "tensorflow.python.framework.errors_impl.UnavailableError: failed to connect to all addresses"


def cause_and_collateral(planned: ev.RestartPlanned) -> tuple[str, list[str]]:
    """The names in a plan."""
    assert planned.cause is not None
    return str(planned.cause.task), [str(failure.task) for failure in planned.collateral]


def test_survivors_that_do_not_die_are_killed_after_the_window() -> None:
    """On a gang restart peers get 1 s to die by themselves; then SIGKILL, without SIGTERM."""
    run = History(job(workers=3)).begin()
    run.exits("worker:1", signal=SIGKILL)
    run.after(0.99)
    assert run.signals() == []
    run.after(0.02)
    assert run.signals() == [(1.0, "worker:0", SIGKILL), (1.0, "worker:2", SIGKILL)]
    run.after(1)
    assert run.attempts == {"worker:0": 2, "worker:1": 2, "worker:2": 2}
    assert [str(failure.task) for failure in run.failures] == ["worker:1"], "who is killed for the gang did not fail"


def test_a_gang_whose_members_are_all_gone_does_not_wait_for_the_window() -> None:
    """The plan is made at once when nobody is left who could still die."""
    run = History(job(workers=2)).begin()
    run.after(10)
    run.exits("worker:1", exception="ValueError: x")
    run.after(0.2)
    assert run.decided(ev.RestartPlanned) == []
    run.exits("worker:0", exception=UNAVAILABLE)
    (planned,) = run.decided(ev.RestartPlanned)
    assert cause_and_collateral(planned) == ("worker:1", ["worker:0"])


def test_the_survivor_that_exits_first_is_not_the_cause() -> None:
    """A peer that dies of UnavailableError is collateral, also where its exit is seen before the cause's."""
    run = History(job(workers=3)).begin()
    run.exits("worker:0", exception=UNAVAILABLE)
    run.after(0.3)
    run.exits("worker:1", exception="ValueError: my bug")
    run.after(0.3)
    run.exits("worker:2", signal=SIGABRT)
    (planned,) = run.decided(ev.RestartPlanned)
    assert cause_and_collateral(planned) == ("worker:1", ["worker:0", "worker:2"])


def test_the_ps_is_the_cause_where_the_chief_noticed_before_its_exit_was_seen() -> None:
    """The chief's Unavailable and the ps's exit are one incident, and its cause is the ps."""
    run = History(job(workers=2, ps=1)).begin()
    run.exits("chief:0", exception=UNAVAILABLE)
    run.after(0.4)
    run.exits("ps:0", signal=SIGKILL)
    run.after(3)
    (planned,) = run.decided(ev.RestartPlanned)
    assert cause_and_collateral(planned) == ("ps:0", ["chief:0"])
    assert run.attempts == {"chief:0": 2, "worker:0": 1, "worker:1": 1, "ps:0": 2}


def test_a_chief_that_fails_just_after_its_ps_is_collateral() -> None:
    """The ps restarts with its chief in one recovery, however the chief ended."""
    run = History(job(workers=1, ps=1)).begin()
    run.exits("ps:0", code=1)
    assert run.attempts["chief:0"] == 1
    run.after(3)
    assert run.attempts == {"chief:0": 2, "worker:0": 1, "ps:0": 2}
    (failure,) = run.failures
    assert str(failure.task) == "ps:0"


def test_the_collateral_stands_in_the_result_when_the_job_fails() -> None:
    """The result of a job that is given up has the cause and, apart from it, who died of it."""
    run = History(job(workers=3, restart=RestartRules(policy=RestartPolicy.NEVER))).begin()
    run.exits("worker:0", exception=UNAVAILABLE)
    run.exits("worker:1", exception="ValueError: my bug")
    run.after(0.9)
    assert not run.over
    run.after(0.2)
    cause = run.result.cause
    assert cause is not None
    assert (str(cause.task), cause.exception, cause.tail) == ("worker:1", "ValueError: my bug", ("ValueError: my bug",))
    assert [str(failure.task) for failure in run.result.collateral] == ["worker:0"]
    assert run.result.exit_code == 1


def test_workers_that_raise_the_same_are_causes_together() -> None:
    """In the plan and in the result; what the runs of a gang have in common is their program."""
    run = History(job(workers=3)).begin()
    for _ in range(2):
        run.exits("worker:1", exception="ValueError: my bug")
        run.exits("worker:0", exception="ValueError: my bug")
        run.exits("worker:2", exception=UNAVAILABLE)
        run.after(5)
    (planned,) = run.decided(ev.RestartPlanned)
    for told in (planned, run.result):
        assert told.cause is not None
        parts = [told.cause], told.same, told.collateral
        assert [[str(failure.task) for failure in part] for part in parts] == [["worker:1"], ["worker:0"], ["worker:2"]]


def test_peers_of_a_preempted_task_get_a_grace_period_to_write_their_checkpoint() -> None:
    """Exit code 42 of one member means that the others were told as well; they are killed only after the grace."""
    run = History(job(workers=2)).begin()
    run.checkpoints("worker:0", 5)
    run.exits("worker:1", code=42)
    run.after(9)
    assert run.signals() == []
    run.exits("worker:0", code=42)
    run.after(0.5)
    assert run.attempts == {"worker:0": 2, "worker:1": 2}
    assert run.decided(ev.RestartPlanned)[0].charged == 0


def test_a_worker_that_ends_well_beside_a_failing_gang_restarts_with_it() -> None:
    """Code 0 of a member that is not the leader neither ends the job nor is a failure."""
    run = History(job(workers=3)).begin()
    run.exits("worker:1", exception="ValueError: x")
    run.exits("worker:2", code=0)
    run.after(3)
    assert run.attempts == {"worker:0": 2, "worker:1": 2, "worker:2": 2}


def test_the_leaders_success_counts_also_while_a_recovery_is_open() -> None:
    """A leader that has finished its work is not started again because a peer was killed just before."""
    run = History(job(workers=2)).begin()
    run.exits("worker:1", signal=SIGKILL)
    run.after(0.5)
    run.exits("worker:0", code=0)
    run.after(10)
    assert run.result.exit_code == 0
    assert run.attempts == {"worker:0": 1, "worker:1": 1}


def test_the_leaders_success_counts_also_where_its_kill_was_already_sent() -> None:
    """Exit code 0 is no answer to SIGKILL: the work was done before it came."""
    run = History(job(workers=2)).begin()
    run.unreachable.add("worker:0")
    run.exits("worker:1", signal=SIGKILL)
    run.after(1.01)
    assert run.signals() == [(1.0, "worker:0", SIGKILL)]
    run.exits("worker:0", code=0)
    run.after(10)
    assert run.result.exit_code == 0
    assert run.attempts == {"worker:0": 1, "worker:1": 1}


def test_a_failure_in_the_backoff_joins_the_recovery() -> None:
    """ps:1 fails while ps:0 and the chief wait to restart: one restart of the three, charged once."""
    run = History(job(workers=1, ps=2)).begin()
    run.exits("ps:0", code=1)
    run.after(0.5)
    run.exits("ps:1", code=1)
    run.after(3)
    assert run.attempts == {"chief:0": 2, "worker:0": 1, "ps:0": 2, "ps:1": 2}
    assert [len(run.spawn_times(name)) for name in ("chief:0", "ps:0", "ps:1")] == [2, 2, 2]
    assert [planned.charged for planned in run.decided(ev.RestartPlanned)] == [1, 1]


def test_a_worker_that_fails_in_the_recovery_of_a_ps_restarts_by_itself() -> None:
    """Recoveries without a common task do not disturb each other."""
    run = History(job(workers=2, ps=1)).begin()
    run.exits("ps:0", code=1)
    run.after(0.5)
    run.exits("worker:1", code=1)
    run.after(3)
    assert run.attempts == {"chief:0": 2, "worker:0": 1, "worker:1": 2, "ps:0": 2}
    assert run.spawn_times("worker:1")[1] - run.spawn_times("ps:0")[1] > 0.2


def test_a_failure_right_after_the_restart_is_a_new_one() -> None:
    """A gang member that fails at its second start is charged again and waits twice as long."""
    run = History(job(workers=2)).begin()
    run.exits("worker:1", exception="ValueError: x")
    run.after(2)
    run.exits("worker:0", exception="ValueError: y")
    run.after(4)
    assert run.attempts == {"worker:0": 3, "worker:1": 3}
    plans = run.decided(ev.RestartPlanned)
    charged = [(planned.cause and str(planned.cause.task), planned.charged) for planned in plans]
    assert charged == [("worker:1", 1), ("worker:0", 2)]


def test_nothing_of_a_task_is_started_before_the_old_attempt_is_swept() -> None:
    """A second server could share a port silently, so the respawn waits for the proof that the first is dead."""
    run = History(job(workers=1)).begin()
    run.clinging.add("worker:0")
    run.exits("worker:0", code=1)
    run.after(1.5)
    assert run.state("worker:0") is TaskState.DRAINING
    assert run.attempts == {"worker:0": 1}
    run.after(1)
    assert run.attempts == {"worker:0": 2}


def test_who_was_killed_for_the_gang_says_so() -> None:
    """The attempt's record tells that the supervisor ended it, and why."""
    run = History(job(workers=2)).begin()
    run.exits("worker:1", signal=SIGKILL)
    run.after(3)
    exits = {str(attempt.task): attempt.exit for attempt in run.machine.state.attempts.values()}
    assert exits == {"worker:0": Exit(signal=SIGKILL, asked=Asked.GANG), "worker:1": Exit(signal=SIGKILL)}
    assert str(exits["worker:0"]) == "stopped to restart with its peers (SIGKILL)"


def test_a_second_failure_does_not_make_the_window_longer() -> None:
    """The survivors are killed 1 s after the first failure, however many follow it."""
    run = History(job(workers=3)).begin()
    run.exits("worker:1", exception="ValueError: x")
    run.after(0.8)
    run.exits("worker:2", exception=UNAVAILABLE)
    run.after(0.3)
    assert run.signals() == [(1.0, "worker:0", SIGKILL)]


def test_an_evaluator_does_not_hold_the_decision_up() -> None:
    """A side car that lives on could not be the cause, so nobody waits for it."""
    run = History(job(workers=2, evaluator=1)).begin()
    run.exits("worker:1", exception="ValueError: x")
    run.exits("worker:0", exception=UNAVAILABLE)
    assert len(run.decided(ev.RestartPlanned)) == 1
    assert run.live == {"evaluator:0"}


def test_output_that_ends_before_the_sweep_does_not_stand_for_it() -> None:
    """A task that closed its output may have left processes that hold its port."""
    run = History(job(workers=1)).begin()
    run.unswept.add("worker:0")
    run.exits("worker:0", code=1)
    run.send(ev.Drained(run.job.tasks[0], 1))
    run.after(60)
    assert run.attempts == {"worker:0": 1}
    run.send(ev.Swept(run.job.tasks[0], 1))
    assert run.attempts == {"worker:0": 2}


def test_an_exit_that_is_told_twice_counts_once() -> None:
    """The second one finds a task that is draining, and changes nothing."""
    run = History(job(workers=1)).begin()
    run.unswept.add("worker:0")
    run.exits("worker:0", code=1)
    run.send(ev.Exited(run.job.tasks[0], 1, Exit(code=0)))
    run.send(ev.Swept(run.job.tasks[0], 1))
    run.send(ev.Drained(run.job.tasks[0], 1))
    assert [failure.exit for failure in run.failures] == [Exit(code=1)]


def test_the_first_reason_for_which_a_task_was_ended_stands() -> None:
    """Killed for its gang, it does not become a casualty of the Ctrl-C that came after."""
    run = History(job(workers=2)).begin()
    run.unreachable.add("worker:0")
    run.exits("worker:1", signal=SIGKILL)
    run.after(1.5)
    run.send(ev.Interrupted(2))
    run.exits("worker:0", signal=SIGKILL)
    assert run.result.attempts[0].exit == Exit(signal=SIGKILL, asked=Asked.GANG)
