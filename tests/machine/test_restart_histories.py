"""Which tasks restart when one fails, when, and how often: the table of the design, row by row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Spawn
from clusterkit.words.job import JobSpec, RestartPolicy, RestartRules, RestartScope
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunState
from tests.histories import SIGABRT, SIGKILL, SIGTERM, History, job, task

PS_JOB = job(workers=2, ps=2, evaluator=1)
GANG = job(workers=3, evaluator=1)
GANG_WITH_CHIEF = job(workers=2, chief=1)
SIDE_CAR = job(workers=1, evaluator=1)


@pytest.mark.parametrize(
    ("spec", "fails", "restart"),
    [
        (PS_JOB, "worker:0", {"worker:0"}),
        (PS_JOB, "worker:1", {"worker:1"}),
        (PS_JOB, "chief:0", {"chief:0"}),
        (PS_JOB, "ps:0", {"ps:0", "chief:0"}),
        (PS_JOB, "ps:1", {"ps:1", "chief:0"}),
        (PS_JOB, "evaluator:0", {"evaluator:0"}),
        (GANG, "worker:0", {"worker:0", "worker:1", "worker:2"}),
        (GANG, "worker:2", {"worker:0", "worker:1", "worker:2"}),
        (GANG, "evaluator:0", {"evaluator:0"}),
        (GANG_WITH_CHIEF, "chief:0", {"chief:0", "worker:0", "worker:1"}),
        (GANG_WITH_CHIEF, "worker:1", {"chief:0", "worker:0", "worker:1"}),
        (job(workers=1), "worker:0", {"worker:0"}),
        (job(chief=1), "chief:0", {"chief:0"}),
        (SIDE_CAR, "worker:0", {"worker:0"}),
        (SIDE_CAR, "evaluator:0", {"evaluator:0"}),
        (job(workers=3, restart=RestartRules(scope=RestartScope.TASK)), "worker:1", {"worker:1"}),
        (job(workers=1, ps=1, restart=RestartRules(scope=RestartScope.TASK)), "ps:0", {"ps:0"}),
        (
            job(workers=1, ps=1, evaluator=1, restart=RestartRules(scope=RestartScope.JOB)),
            "worker:0",
            {"chief:0", "worker:0", "ps:0"},
        ),
    ],
)
@pytest.mark.parametrize("signal", [None, SIGKILL])
def test_exactly_the_tasks_of_the_row_restart(spec: JobSpec, fails: str, restart: set[str], signal: int | None) -> None:
    """The failed task's row of the table restarts; every other task stays in its first attempt, and alive."""
    run = History(spec).begin()
    run.exits(fails, code=3 if signal is None else None, signal=signal)
    run.after(5)
    assert run.attempts == {str(t): 2 if str(t) in restart else 1 for t in spec.tasks}
    assert run.live == {str(t) for t in spec.tasks}
    (planned,) = run.decided(ev.RestartPlanned)
    assert set(map(str, planned.tasks)) == restart
    assert planned.cause is not None
    assert str(planned.cause.task) == fails
    assert not run.over


def test_the_job_fails_with_the_cause_when_the_budget_is_used_up() -> None:
    """A fourth failure of the same task ends the job with exit code 1 and that failure as its cause."""
    run = History(job(workers=2, ps=1)).begin()
    for nth in range(4):
        run.exits("worker:1", exception=f"ValueError: {'abcd'[nth]}")
        run.after(40)
    assert (run.result.state, run.result.exit_code, run.result.restarts) == (RunState.FAILED, 1, 3)
    assert run.result.cause is not None
    assert (str(run.result.cause.task), run.result.cause.attempt) == ("worker:1", 4)
    assert run.result.cause.exception == "ValueError: d"
    assert "restart budget is used up (3 of 3)" in run.result.reason
    assert [planned.charged for planned in run.decided(ev.RestartPlanned)] == [1, 2, 3]


def test_tasks_that_restart_alone_have_budgets_of_their_own() -> None:
    """Failures of one worker of a parameter-server job do not use up the other's budget."""
    run = History(job(workers=2, ps=1, restart=RestartRules(budget=1))).begin()
    run.exits("worker:0", code=1)
    run.after(40)
    run.exits("worker:1", code=1)
    run.after(40)
    assert run.attempts == {"chief:0": 1, "worker:0": 2, "worker:1": 2, "ps:0": 1}
    run.exits("worker:0", code=1)
    run.after(40)
    assert run.result.cause is not None
    assert str(run.result.cause.task) == "worker:0"


def test_the_tasks_of_a_gang_share_one_budget() -> None:
    """Where all restart together it makes no difference which of them failed."""
    run = History(job(workers=3, restart=RestartRules(budget=2))).begin()
    for name, what in (("worker:0", "x"), ("worker:2", "y"), ("worker:1", "z")):
        run.exits(name, exception=f"ValueError: {what}")
        run.after(40)
    assert run.result.exit_code == 1
    assert run.result.restarts == 2


def test_a_job_that_restarts_as_one_has_one_budget_also_for_its_ps() -> None:
    """With --restart-scope job the failures of ps and worker are charged to the same budget."""
    rules = RestartRules(budget=2, scope=RestartScope.JOB)
    run = History(job(workers=1, ps=1, restart=rules)).begin()
    for name, what in (("ps:0", "x"), ("worker:0", "y"), ("ps:0", "x")):
        run.exits(name, exception=f"ValueError: {what}")
        run.after(40)
    assert run.result.exit_code == 1


def test_ten_minutes_of_progress_make_the_budget_whole_again() -> None:
    """After 600 s of progress since the last restart the count and the backoff begin anew."""
    run = History(job(workers=1, restart=RestartRules(budget=1))).begin()
    for _ in range(3):
        run.exits("worker:0", code=1)
        run.after(2)
        for step in range(62):
            run.after(10)
            run.progresses("worker:0", step)
    assert run.attempts == {"worker:0": 4}
    assert [planned.charged for planned in run.decided(ev.RestartPlanned)] == [1, 1, 1]


def test_ten_minutes_without_progress_forgive_nothing() -> None:
    """A task that was started and then stood still for ten minutes has not earned its budget back."""
    run = History(job(workers=1, restart=RestartRules(budget=1))).begin()
    run.progresses("worker:0", 1)
    run.exits("worker:0", code=1)
    run.after(2)
    run.progresses("worker:0", 1)
    run.after(700)
    run.exits("worker:0", code=1)
    assert run.result.exit_code == 1


def _steps(run: History, attempt: int) -> None:
    run.progresses("worker:0", 10 * attempt)
    run.progresses("worker:0", 10 * attempt + 5)


def _same_steps(run: History, _: int) -> None:
    run.progresses("worker:0", 1)
    run.progresses("worker:0", 5)


def _checkpoint(run: History, attempt: int) -> None:
    run.checkpoints("worker:0", attempt)


def _notice(run: History, _: int) -> None:
    run.stubborn.add("worker:0")  # it saves, and exits by itself
    run.send(ev.Requested(7, ev.Verb.KILL, (task("worker:0"),), signal=SIGTERM))


def _long_life(run: History, _: int) -> None:
    run.after(130)


def _nothing(run: History, _: int) -> None:
    run.after(0.1)


@pytest.mark.parametrize(
    ("before", "free"),
    [(_steps, 6), (_checkpoint, 6), (_notice, 6), (_long_life, 6), (_nothing, 0), (_same_steps, 1)],
)
def test_exit_code_42_is_free_after_progress_or_a_notice(before: Callable[[History, int], None], free: int) -> None:
    """Then a task restarts any number of times; otherwise it would do so for ever, and nothing would come of it."""
    run = History(job(workers=1, restart=RestartRules(budget=2))).begin()
    for attempt in range(1, 7):
        before(run, attempt)
        run.exits("worker:0", code=42)
        run.after(60)
        if run.over:
            break
    planned = run.decided(ev.RestartPlanned)
    assert [one.free for one in planned].count(True) == free
    assert run.over == (free < 6)
    assert {spawn.reason for spawn in run.asked(Spawn)[1:]} == {"preempted"}
    if run.over:
        assert run.result.reason == (
            "worker:0 exited with code 42 (requests a restart), and its restart budget is used up (2 of 2). "
            "Exit code 42 is free only after SIGTERM or progress: a newer checkpoint, or more steps"
        )
        assert [one.charged for one in planned if not one.free] == [1, 2]


def test_a_notice_to_one_worker_is_one_to_its_gang() -> None:
    """TensorFlow tells the others, which save and exit, too; the first one to exit need not be the one told."""
    run = History(job(workers=2, restart=RestartRules(budget=0)), stubborn={"worker:0", "worker:1"}).begin()
    run.send(ev.Requested(7, ev.Verb.KILL, (task("worker:1"),), signal=SIGTERM))
    run.exits("worker:0", code=42)
    run.exits("worker:1", code=42)
    run.after(2)
    assert run.attempts == {"worker:0": 2, "worker:1": 2}


def test_a_preempted_coordinator_does_not_wait_for_peers_that_never_exit() -> None:
    """Exit code 42 of a chief restarts it after its backoff, not after a grace period."""
    run = History(job(workers=2, ps=1)).begin()
    run.exits("chief:0", code=42)
    run.after(1.2)
    assert run.attempts == {"chief:0": 2, "worker:0": 1, "worker:1": 1, "ps:0": 1}


def test_the_policy_never_ends_the_job_at_the_first_failure() -> None:
    """Nothing restarts, and the report has cause and reason."""
    run = History(job(workers=1, ps=1, restart=RestartRules(policy=RestartPolicy.NEVER))).begin()
    run.exits("worker:0", code=3)
    assert (run.result.exit_code, run.result.reason) == (1, "worker:0 exited with code 3")
    assert set(run.attempts.values()) == {1}


def test_the_policy_never_also_holds_for_a_preempted_task() -> None:
    """Exit code 42 asks for a restart, which the policy forbids."""
    run = History(job(workers=1, restart=RestartRules(policy=RestartPolicy.NEVER))).begin()
    run.exits("worker:0", code=42)
    assert run.result.exit_code == 1


@pytest.mark.parametrize(("policy", "attempt"), [(RestartPolicy.ON_FAILURE, 1), (RestartPolicy.ALWAYS, 2)])
def test_a_worker_that_ends_well_restarts_only_under_the_policy_always(policy: RestartPolicy, attempt: int) -> None:
    """Exit code 0 of a task that is not the leader is no failure."""
    run = History(job(workers=1, ps=1, restart=RestartRules(policy=policy))).begin()
    run.exits("worker:0", code=0)
    run.after(2)
    assert run.attempts == {"chief:0": 1, "worker:0": attempt, "ps:0": 1}
    assert run.failures == []


@pytest.mark.parametrize("policy", list(RestartPolicy))
def test_the_leaders_success_ends_the_job_under_every_policy(policy: RestartPolicy) -> None:
    """The policy always does not start a job again that is done."""
    run = History(job(workers=1, restart=RestartRules(policy=policy))).begin()
    run.exits("worker:0", code=0)
    assert run.result.state is RunState.SUCCEEDED


def test_an_evaluator_that_keeps_failing_is_given_up_and_the_job_goes_on() -> None:
    """A side car's failure never fails the job."""
    run = History(job(workers=2, evaluator=1, restart=RestartRules(budget=1))).begin()
    for _ in range(2):
        run.exits("evaluator:0", code=1)
        run.after(40)
    assert run.attempts == {"worker:0": 1, "worker:1": 1, "evaluator:0": 2}
    assert run.warnings == [
        "evaluator:0 exited with code 1 and is not started again. The job continues without its evaluator."
    ]
    run.exits("worker:0", code=0)
    run.exits("worker:1", code=0)
    assert run.result.exit_code == 0


def test_a_task_without_a_process_fails_the_job_and_is_not_tried_again() -> None:
    """A program that can't be started now can't be started a second later."""
    run = History(job(workers=2, ps=1), unspawnable={"worker:1": "No such file (x)"}).begin()
    run.after(0)
    assert run.result.reason == "worker:1 could not be started: No such file (x)"
    assert run.result.cause is not None
    assert str(run.result.cause.task) == "worker:1"
    assert run.attempts["worker:1"] == 1
    assert run.live == set()


def test_an_evaluator_without_a_process_does_not_fail_the_job() -> None:
    """Its failure never fails the job, also where it is that it can't be started."""
    run = History(job(workers=1, evaluator=1), unspawnable={"evaluator:0": "No such file (x)"}).begin()
    assert not run.over
    assert "could not be started" in run.warnings[0]


def test_a_task_killed_by_sigabrt_alone_is_its_own_cause() -> None:
    """What looks like a peer's death is the cause where no peer died."""
    run = History(job(workers=2)).begin()
    run.exits("worker:1", signal=SIGABRT)
    run.after(3)
    (planned,) = run.decided(ev.RestartPlanned)
    assert planned.cause is not None
    assert (str(planned.cause.task), planned.collateral) == ("worker:1", ())


def test_events_of_an_older_attempt_are_ignored() -> None:
    """Late news of attempt 1 change nothing for attempt 2."""
    run = History(job(workers=1)).begin()
    run.exits("worker:0", code=1)
    run.after(2)
    before = len(run.actions)
    worker = Task.parse("worker:0")
    for late in (
        ev.Spawned(worker, 1, "pid 7"),
        ev.SpawnFailed(worker, 1, "late"),
        ev.Exited(worker, 1, run.failures[0].exit),
        ev.Swept(worker, 1, left=1, stuck=(7,)),
        ev.Drained(worker, 1, ("late",), "Late"),
        ev.Progressed(worker, 1, 99),
        ev.Checkpointed(worker, 1, 99, "late"),
        ev.Resumed(worker, 1, 99, "late"),
        ev.Ready(worker, 1),
    ):
        run.send(late)
    assert len(run.actions) == before
    record = run.machine.state.records[worker]
    assert (record.attempt, record.last_step, record.ready, record.drained) == (2, None, False, False)
