"""A task of a gang that fails beside its leader's success: its own errors make the run fail, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterkit.ledger.ledger import ledger_of
from clusterkit.ledger.takeover import history_of
from clusterkit.words import events as ev
from clusterkit.words.distribution import Training
from clusterkit.words.job import JobSpec, RestartRules, RestartScope
from clusterkit.words.outcome import Asked, RunState
from tests.histories import SIGABRT, SIGKILL, SIGTERM, History, job, task

GANG = job(workers=2)
UNAVAILABLE = "tensorflow.python.framework.errors_impl.UnavailableError: Socket closed"
SEGFAULT = 11


def ended(spec: JobSpec, before: float, told: tuple[str, ...] = (), **how: Any) -> History:
    """A job whose worker:1 ends so many seconds before its leader is done, after it where that is negative."""
    run = History(spec).begin()
    leader = str(spec.leader)
    run.progresses(leader, 9)
    run.after(1)  # it saves its model
    run.last_words["worker:1"] = (told, None)
    if before < 0:
        run.exits(leader, code=0)
    run.after(abs(before))
    run.exits("worker:1", **how)
    if before >= 0:
        run.after(before)
        run.exits(leader, code=0)
    run.after(30)
    return run


@pytest.mark.parametrize("before", [0.5, 0.0, -0.5, -6.0])
@pytest.mark.parametrize(
    "how", [{"code": 3}, {"exception": "ValueError: x"}, {"signal": SEGFAULT}, {"code": 139}], ids=str
)
def test_an_error_of_its_own_makes_the_run_fail(before: float, how: dict[str, Any]) -> None:
    """Just before the leader's success, or in the time that it has to finish."""
    run = ended(GANG, before, **how)
    result = run.result
    assert (result.state, result.exit_code, run.over) == (RunState.FAILED, 1, True)
    assert result.cause is not None
    assert str(result.cause.task) == "worker:1"
    assert result.reason == f"worker:1 {result.cause.exit}, although worker:0 exited with code 0"
    assert [str(failure.task) for failure in run.failures] == ["worker:1"]
    assert set(run.attempts.values()) == {1}


@pytest.mark.parametrize("before", [0.5, -0.5])
@pytest.mark.parametrize(
    ("how", "told", "unfinished"),
    [
        ({"exception": UNAVAILABLE}, (), True),
        ({"signal": SIGABRT}, ("terminate called without an active exception",), False),
        ({"code": 134}, (UNAVAILABLE,), False),
        ({"code": 1}, (UNAVAILABLE, "During handling", "SystemError: could not save"), True),
        ({"code": 42}, (), False),
        ({"code": 0}, (), False),
    ],
    ids=["unavailable", "abort at exit", "abort in a shell", "named before", "preempted", "well"],
)
def test_what_the_leaders_end_explains_does_not(
    before: float, how: dict[str, Any], told: tuple[str, ...], unfinished: bool
) -> None:
    """TensorFlow's coordination ends with the leader, and some programs abort at exit (tensorflow#58434).

    But whoever raises an error then had something left to do (tensorflow#45839).
    """
    run = ended(GANG, before, told, **how)
    assert (run.result.state, run.result.cause, run.warnings) == (RunState.SUCCEEDED, None, [])
    assert run.result.exit_code == (3 if unfinished else 0)
    assert [str(failure.task) for failure in run.result.unfinished] == ["worker:1"] * unfinished
    assert run.result.fine is not unfinished
    assert run.result.reason.endswith(", but worker:1 had not finished") is unfinished


@pytest.mark.parametrize("joined", [True, False])
def test_a_worker_that_is_ended_with_the_job_had_not_finished(joined: bool) -> None:
    """If TensorFlow had joined it to its peers; other commands may run until somebody ends them."""
    run = History(GANG, stubborn={"worker:1"}).begin()
    if joined:
        run.send(ev.TrainsWith(task("worker:1"), 1, ("MultiWorkerMirroredStrategy",), 2, False, Training.SCOPED))
    run.exits("worker:0", code=0)
    run.after(30)
    assert run.result.state is RunState.SUCCEEDED
    assert [failure.exit.asked for failure in run.result.unfinished] == [Asked.SUCCESS] * joined


@pytest.mark.parametrize("before", [0.5, -0.5])
@pytest.mark.parametrize("how", [{"signal": SIGKILL}, {"signal": SIGTERM}, {"code": 137}], ids=str)
def test_a_kill_is_warned_of(before: float, how: dict[str, Any]) -> None:
    """Somebody ended it; the leader has what the job is for."""
    run = ended(GANG, before, **how)
    assert run.result.exit_code == 0
    (warning,) = run.warnings
    assert warning.endswith("See whether worker:1 had something left to save.")


@pytest.mark.parametrize(
    "spec",
    [job(workers=2, ps=1), job(workers=2, restart=RestartRules(scope=RestartScope.TASK))],
    ids=["parameter servers", "independent tasks"],
)
def test_tasks_without_a_gang_have_no_part_in_the_leaders_success(spec: JobSpec) -> None:
    """A server's work is its coordinator's, and tasks that restart alone stand for themselves."""
    assert ended(spec, 0.5, code=3).result.exit_code == 0
    if spec.restart.scope is RestartScope.TASK:
        assert ended(spec, -0.5, code=3).result.exit_code == 0


def test_what_is_ended_with_the_job_has_not_failed() -> None:
    """Its time was over; whatever its handler of SIGTERM exits with is the answer to that."""
    run = History(GANG, stubborn={"worker:1"}).begin()
    run.exits("worker:0", code=0)
    run.after(8)
    run.exits("worker:1", code=3)
    run.after(10)
    assert run.result.exit_code == 0


def test_workers_that_fail_alike_are_causes_together() -> None:
    """Those that fail after the first one has ended the run count, unless they were ended meanwhile."""
    run = History(job(workers=4), stubborn={"worker:3"}).begin()
    run.exits("worker:1", exception="ValueError: x")
    run.exits("worker:2", exception="ValueError: x")
    run.exits("worker:0", code=0)
    run.after(30)
    assert run.result.cause is not None
    assert str(run.result.cause.task) == "worker:1"
    assert [str(failure.task) for failure in run.result.same] == ["worker:2"]
    last = run.result.attempts[-1].exit
    assert last is not None
    assert (last.signal, last.asked) == (SIGKILL, Asked.TEARDOWN)


def test_a_run_that_failed_so_is_not_continued_as_a_success() -> None:
    """Its supervisor may be lost before every task has ended."""
    seen: list[tuple[float, ev.Event]] = []
    run = History(job(workers=3), stubborn={"worker:2"}, observe=lambda event, now: seen.append((now, event))).begin()
    run.exits("worker:0", code=0)
    run.exits("worker:1", code=3)
    assert not run.over
    before = history_of(ledger_of(job(workers=3), seen))
    assert before.successful_task is None
    again = History(job(workers=3), before=before)
    again.send(ev.Continued(2))
    again.after(1)
    assert again.result.state is RunState.FAILED
    assert "worker:1 exited with code 3, although worker:0 exited with code 0" in again.result.reason


def test_an_interrupt_does_not_make_it_a_success() -> None:
    """Nor does it change why it failed."""
    run = History(job(workers=3), stubborn={"worker:2"}).begin()
    run.exits("worker:0", code=0)
    run.exits("worker:1", code=3)
    run.send(ev.Interrupted(2))
    run.after(30)
    assert (run.result.state, run.result.exit_code) == (RunState.FAILED, 1)


def test_an_evaluator_has_no_part_in_it() -> None:
    """Its failure never fails the job."""
    run = History(replace(job(workers=2, evaluator=1))).begin()
    run.exits("worker:0", code=0)
    run.exits("evaluator:0", code=3)
    run.exits("worker:1", code=0)
    assert run.result.exit_code == 0
    assert task("evaluator:0") in run.job.tasks
