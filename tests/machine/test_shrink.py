"""Shrinking: which worker is given up, and how the job continues without it."""

from __future__ import annotations

import pytest

from clusterkit.machine.restart import needs_coordinator, true_name, workers_to_give_up
from clusterkit.words import events as ev
from clusterkit.words.actions import Spawn
from clusterkit.words.events import Verb
from clusterkit.words.job import JobSpec, RestartPolicy, RestartRules, RestartScope
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import Blame, Exit, Failure, RunState
from tests.histories import SIGKILL, History, job, task
from tests.machine.test_gang import UNAVAILABLE, cause_and_collateral

KILLED = Exit(signal=SIGKILL)


def rules(least: int | None = 2, budget: int = 0, **others: RestartScope | RestartPolicy) -> RestartRules:
    """Restart rules of a job that may shrink."""
    return RestartRules(budget=budget, min_workers=least, **others)  # type: ignore[arg-type]


def failure(name: str, how: Exit = KILLED, exception: str | None = None) -> Failure:
    """A first attempt that failed."""
    return Failure(task(name), 1, how, 5.0, (), exception)


GANG, PS = job(workers=4, restart=rules()), job(workers=3, ps=1, restart=rules())
LOST = Exit(host="n2")
BUG, GONE = "ValueError: x", UNAVAILABLE


@pytest.mark.parametrize(
    ("spec", "blamed", "gone"),
    [
        (GANG, Blame(failure("worker:1")), "worker:1"),
        (GANG, Blame(failure("worker:1"), (), (failure("worker:0", Exit(code=1), GONE),)), "worker:1"),
        (GANG, Blame(failure("worker:0", Exit(code=1), BUG)), "worker:0"),
        (PS, Blame(failure("worker:2")), "worker:2"),
        (PS, Blame(failure("worker:2", Exit(signal=6))), "worker:2"),
        (PS, Blame(failure("chief:0")), ""),
        (PS, Blame(failure("ps:0")), ""),
        (job(workers=2, chief=1, restart=rules(1)), Blame(failure("chief:0")), ""),
        (job(workers=2, chief=1, restart=rules(1)), Blame(failure("worker:1")), "worker:1"),
        (GANG, Blame(failure("worker:1", Exit(code=1), BUG), (failure("worker:2", Exit(code=1), BUG),)), ""),
        (GANG, Blame(failure("worker:1", Exit(code=1), GONE)), ""),
        (GANG, Blame(failure("worker:1", Exit(error="no such file"))), ""),
        (GANG, Blame(failure("worker:1", Exit(error="its disk is full", unfit=True))), "worker:1"),
        (job(workers=4), Blame(failure("worker:1")), ""),
        (job(workers=2, restart=rules(2)), Blame(failure("worker:1")), ""),
        (job(workers=2, restart=rules(1)), Blame(failure("worker:1")), "worker:1"),
        (job(workers=4, restart=rules(policy=RestartPolicy.NEVER)), Blame(failure("worker:1")), ""),
        (GANG, Blame(failure("worker:1", LOST), (), (failure("worker:3", LOST),)), "worker:1 worker:3"),
        (PS, Blame(failure("chief:0", LOST), (), (failure("worker:0", LOST),)), "worker:0"),
        (PS, Blame(failure("chief:0", LOST), (), (failure("ps:0", LOST),)), ""),
        (PS, Blame(failure("worker:0", LOST), (), (failure("worker:1", LOST),)), ""),
        (GANG, Blame(failure("worker:0", Exit(error="no GPU is left", crowded=True))), "worker:2 worker:3"),
    ],
)
def test_a_worker_is_given_up_where_it_alone_is_to_blame(spec: JobSpec, blamed: Blame, gone: str) -> None:
    """Not the chief, a ps, a program that fails everywhere, nor anybody where it is not known who it was."""
    moved = {task("worker:3"), task("worker:2")}
    assert " ".join(map(str, workers_to_give_up(spec, blamed, repeated=False, homeless=moved))) == gone
    assert workers_to_give_up(spec, blamed, repeated=True, homeless=moved) == (), "it fails the same way each time"


@pytest.mark.parametrize(
    ("started", "stepped", "needs"),
    [
        ({"worker:0": 1.0, "worker:2": 1.0}, True, False),
        ({"worker:0": 1.0, "worker:2": 1.0}, False, True),
        ({"worker:0": 1.0, "worker:2": 9.0}, True, True),
    ],
)
def test_a_coordinator_continues_with_the_workers_that_it_began_with(
    started: dict[str, float], stepped: bool, needs: bool
) -> None:
    """One that waits for all, or for one that came back, would wait for ever."""
    times = {task(name): at for name, at in started.items()} | {task("chief:0"): 2.0}
    assert needs_coordinator(job(workers=3, ps=1), times, stepped) is needs


@pytest.mark.parametrize(
    ("gone", "counted", "name"),
    [((), 1, 1), ((1,), 0, 0), ((1,), 1, 2), ((0,), 0, 1), ((0, 1), 0, 2), ((0, 2), 1, 3), ((3,), 2, 2)],
)
def test_the_task_behind_tensorflows_index_is_known(gone: tuple[int, ...], counted: int, name: int) -> None:
    """Those after a worker that was given up have moved up."""
    workers = [Task(TaskType.WORKER, index) for index in gone]
    assert true_name(Task(TaskType.WORKER, counted), workers) == Task(TaskType.WORKER, name)
    assert true_name(Task(TaskType.PS, counted), workers) == Task(TaskType.PS, counted)


def clusters(run: History) -> dict[str, str]:
    """The workers that the newest attempt of each task is to be without."""
    return {str(spawn.task): " ".join(map(str, spawn.given_up)) for spawn in run.asked(Spawn)}


def test_a_gang_continues_without_the_worker_whose_budget_is_used_up() -> None:
    """The others restart together, once and uncharged, and the job's success is that of those that are left."""
    run = History(job(workers=4, restart=rules(2, budget=1))).begin()
    run.checkpoints("worker:0", 120)
    for _ in range(2):
        run.exits("worker:1", signal=SIGKILL)
        run.after(5)
    (shrunk,) = run.decided(ev.Shrunk)
    assert (shrunk.tasks, shrunk.restarts, shrunk.workers, shrunk.least) == ((task("worker:1"),), 1, 4, 2)
    assert [str(one) for one in shrunk.left] == ["worker:0", "worker:2", "worker:3"]
    assert (shrunk.restarting, shrunk.step) == (True, 120)
    assert run.attempts == {"worker:0": 3, "worker:1": 2, "worker:2": 3, "worker:3": 3}
    planned = run.decided(ev.RestartPlanned)
    assert [one.charged for one in planned] == [1, 0]
    assert cause_and_collateral(planned[1]) == ("worker:1", [])
    assert planned[1].tasks == shrunk.left
    assert set(clusters(run).values()) == {"", "worker:1"}
    for name in ("worker:0", "worker:2", "worker:3"):
        run.exits(name, code=0)
    run.after(20)
    assert (run.result.state, run.result.exit_code) == (RunState.SUCCEEDED, 0)
    assert run.result.given_up == (task("worker:1"),)


def test_those_that_are_left_have_a_budget_of_their_own() -> None:
    """As many restarts as the gang had; then it shrinks again, until too few would be left."""
    run = History(job(workers=4, restart=rules(2, budget=1))).begin()
    for name in ("worker:3", "worker:3", "worker:0", "worker:0", "worker:1"):
        assert not run.over
        run.exits(name, signal=SIGKILL)
        run.after(5)
    assert [str(one.tasks[0]) for one in run.decided(ev.Shrunk)] == ["worker:3", "worker:0"]
    assert run.attempts == {"worker:0": 4, "worker:1": 6, "worker:2": 6, "worker:3": 2}
    run.exits("worker:1", signal=SIGKILL)
    run.after(20)
    assert run.result.state is RunState.FAILED
    assert run.result.reason == "worker:1 was killed by SIGKILL, and its restart budget is used up (1 of 1)"


def test_the_next_worker_leads_a_gang_that_has_lost_its_first() -> None:
    """It is worker 0 of TensorFlow's then, and the job succeeds with it."""
    run = History(job(workers=3, restart=rules(2))).begin()
    run.exits("worker:0", signal=SIGKILL)
    run.after(5)
    run.exits("worker:2", code=0)
    run.after(1)
    assert run.decided(ev.Succeeded) == []
    run.exits("worker:1", code=0)
    run.after(20)
    assert [str(one.task) for one in run.decided(ev.Succeeded)] == ["worker:1"]
    assert run.result.state is RunState.SUCCEEDED


def test_a_program_that_can_not_work_fails_also_with_fewer() -> None:
    """The same error at the next attempt, without a step: not the worker is the reason."""
    run = History(job(workers=4, restart=rules(1))).begin()
    while not run.over:
        run.exits(min(run.live), exception="KeyError: x")
        run.after(5)
    assert len(run.decided(ev.Shrunk)) == 1
    assert (run.result.state, run.result.repeated) == (RunState.FAILED, True)


def ps_job(run: History) -> History:
    """Begin a parameter-server job that has made steps."""
    run.begin()
    run.after(2)
    run.progresses("chief:0", 10)
    run.checkpoints("chief:0", 10)
    return run


def test_a_coordinator_continues_without_the_worker() -> None:
    """Nothing restarts. When the coordinator does later, for another reason, its cluster is the smaller one."""
    run = ps_job(History(job(workers=3, ps=1, restart=rules(2))))
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    (shrunk,) = run.decided(ev.Shrunk)
    assert (shrunk.restarting, shrunk.step, run.decided(ev.RestartPlanned)) == (False, None, [])
    assert set(run.attempts.values()) == {1}
    run.send(ev.Requested(1, Verb.RESTART, (task("chief:0"),)))
    run.after(5)
    assert run.attempts == {"chief:0": 2, "worker:0": 1, "worker:1": 1, "worker:2": 1, "ps:0": 1}
    assert clusters(run) == {"chief:0": "worker:1", "worker:0": "", "worker:1": "", "worker:2": "", "ps:0": ""}
    run.exits("chief:0", code=0)
    run.after(30)
    assert (run.result.exit_code, run.result.given_up) == (0, (task("worker:1"),))


def test_a_worker_that_fails_after_one_was_given_up_restarts_with_the_coordinator() -> None:
    """TensorFlow would wait for the one that is gone before it used this one again. After that it is as before."""
    run = ps_job(History(job(workers=3, ps=1, restart=rules(2, budget=1))))
    for _ in range(2):
        run.exits("worker:1", signal=SIGKILL)
        run.after(5)
    assert run.attempts["chief:0"] == 1
    run.exits("worker:2", signal=SIGKILL)
    run.after(5)
    assert run.attempts == {"chief:0": 2, "worker:0": 1, "worker:1": 2, "worker:2": 2, "ps:0": 1}
    assert clusters(run)["worker:2"] == clusters(run)["chief:0"] == "worker:1"
    run.progresses("chief:0", 11)
    run.exits("worker:0", signal=SIGKILL)
    run.after(5)
    assert run.attempts == {"chief:0": 2, "worker:0": 2, "worker:1": 2, "worker:2": 2, "ps:0": 1}


def test_a_coordinator_that_waits_for_its_workers_restarts_without_the_lost_one() -> None:
    """It has made no step yet, so it may never connect."""
    run = History(job(workers=3, ps=1, restart=rules(2))).begin()
    run.after(2)
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    assert run.attempts == {"chief:0": 2, "worker:0": 1, "worker:1": 1, "worker:2": 1, "ps:0": 1}
    assert clusters(run)["chief:0"] == "worker:1"
    (planned,) = run.decided(ev.RestartPlanned)
    assert planned.charged == 0


def test_a_coordinator_that_waits_for_another_worker_restarts_too() -> None:
    """While one worker is on its way back, another one is given up: the first one would not be used any more."""
    run = ps_job(History(job(workers=3, ps=1, restart=rules(1, budget=1))))
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    run.exits("worker:2", signal=SIGKILL)
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    assert run.attempts == {"chief:0": 2, "worker:0": 1, "worker:1": 2, "worker:2": 2, "ps:0": 1}
    assert clusters(run)["chief:0"] == "worker:1"


def test_a_job_that_restarts_as_a_whole_shrinks_as_a_whole() -> None:
    """With --restart-scope job, a parameter-server job is like a gang."""
    run = ps_job(History(job(workers=3, ps=1, restart=rules(2, scope=RestartScope.JOB))))
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    assert run.attempts == {"chief:0": 2, "worker:0": 2, "worker:1": 1, "worker:2": 2, "ps:0": 2}


def test_workers_for_which_the_hosts_have_no_room_are_given_up() -> None:
    """A host is lost; its tasks can't be placed on the others, so the job continues without them."""
    run = History(job(workers=4, restart=rules(2, budget=3))).begin()
    crowded = "n1: --gpus-per-task 1: 4 tasks take 4 in all, and there are 2 GPUs here"
    run.loses("n2", "worker:1", "worker:3")
    run.warming = True
    run.after(5)
    run.warming = False
    run.send(ev.SpawnFailed(task("worker:0"), 2, crowded, crowded=True))  # the others are taken back
    run.after(5)
    (shrunk,) = run.decided(ev.Shrunk)
    assert [str(one) for one in shrunk.tasks] == ["worker:1", "worker:3"]
    assert run.attempts == {"worker:0": 3, "worker:1": 1, "worker:2": 3, "worker:3": 1}
    assert clusters(run)["worker:2"] == "worker:1 worker:3"


def test_a_worker_that_was_given_up_can_not_be_restarted() -> None:
    """The request is refused, with the reason; one for all tasks is for those that are left."""
    run = History(job(workers=3, restart=rules(2))).begin()
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    run.send(ev.Requested(1, Verb.RESTART, (task("worker:1"),)))
    (refused,) = run.decided(ev.RequestRefused)
    assert refused.problem.startswith("worker:1 was given up: the job continues without it.")
    run.send(ev.Requested(2, Verb.RESTART))
    run.after(5)
    assert run.attempts == {"worker:0": 3, "worker:1": 1, "worker:2": 3}


@pytest.mark.parametrize("by_itself", [False, True])
def test_a_worker_that_restarts_after_one_was_given_up_does_so_with_the_coordinator(by_itself: bool) -> None:
    """Also if it did not fail: it was asked to, or has exited well and is always restarted."""
    policy = RestartPolicy.ALWAYS if by_itself else RestartPolicy.ON_FAILURE
    run = ps_job(History(job(workers=3, ps=1, restart=rules(1, policy=policy))))
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    assert run.attempts["chief:0"] == 1
    if by_itself:
        run.exits("worker:2", code=0)
    else:
        run.send(ev.Requested(1, Verb.RESTART, (task("worker:2"),)))
    run.after(5)
    assert run.attempts == {"chief:0": 2, "worker:0": 1, "worker:1": 1, "worker:2": 2, "ps:0": 1}
    assert clusters(run)["worker:2"] == clusters(run)["chief:0"] == "worker:1"


def test_a_coordinator_is_not_restarted_for_a_second_worker_that_does_not_come_back() -> None:
    """It was to restart along with that one."""
    run = ps_job(History(job(workers=3, ps=1, restart=rules(1))))
    for name in ("worker:1", "worker:2"):
        run.exits(name, signal=SIGKILL)
        run.after(5)
        run.progresses("chief:0", 20)
    assert [one.restarting for one in run.decided(ev.Shrunk)] == [False, False]
    assert run.attempts["chief:0"] == 1
