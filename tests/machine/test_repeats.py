"""A restart that fails as the attempt before it did: the run ends, unless something says that it may yet recover."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec, RestartPolicy, RestartRules
from clusterkit.words.outcome import RunState
from tests.histories import SIGKILL, SIGTERM, History, job, task

NO_COLUMN = "KeyError: 'price'"
UNAVAILABLE = "tensorflow.python.framework.errors_impl.UnavailableError: failed to connect to all addresses"
GANG, PS_JOB, ALONE = job(workers=2), job(workers=2, ps=1), job(workers=1)
Fail = Callable[[History], None]


def restarted(spec: JobSpec, *fails: Fail, between: Fail = lambda run: None) -> History:
    """A run after these failures, each a minute after the restart, with something between that and the failure."""
    run = History(spec).begin()
    for fail in fails:
        between(run)
        run.after(60)
        fail(run)
        run.after(60)
    return run


def raises(name: str = "worker:0", exception: str = NO_COLUMN) -> Fail:
    """The task raises."""
    return lambda run: run.exits(name, exception=exception)


@pytest.mark.parametrize(
    ("spec", "first", "second"),
    [(ALONE, "worker:0", "worker:0"), (GANG, "worker:1", "worker:0"), (PS_JOB, "chief:0", "chief:0"),
     (PS_JOB, "worker:1", "worker:1"), (PS_JOB, "ps:0", "ps:0")],
)  # fmt: skip
def test_the_same_failure_twice_without_a_step_ends_the_run(spec: JobSpec, first: str, second: str) -> None:
    """One restart was worth a try; in a gang it is the same whoever of it fails first."""
    run = restarted(spec, raises(first), raises(second))
    assert (run.result.state, run.result.exit_code, run.result.restarts) == (RunState.FAILED, 1, 1)
    assert run.result.repeated
    what = "exited with code 1, as the attempt before it did, with the same error and without a new step"
    assert run.result.reason == f"{second} {what}"
    assert [stopping.reason for stopping in run.decided(ev.Stopping)] == [run.result.reason]
    assert run.result.cause is not None
    assert (str(run.result.cause.task), run.result.cause.attempt) == (second, 2)


TYPO = "NameError: name 'acuracy' is not defined"


def trains(*steps: int, saves: tuple[int, ...] = (), name: str = "worker:0") -> Fail:
    """The task makes steps, of which some are saved."""

    def train(run: History) -> None:
        run.after(10)
        for step in steps:
            run.progresses(name, step)
            if step in saves:
                run.checkpoints(name, step)

    return train


@pytest.mark.parametrize(
    ("trainings", "attempts"),
    [
        ([trains(1, 256), trains(1, 256)], 2),
        ([trains(1, 256, saves=(256,)), trains(256)], 2),
        ([trains(1, 200, 256, saves=(200,)), trains(201, 256)], 2),
        ([trains(1, 256), trains(1, 100)], 2),
        ([trains(1, 200, 256, saves=(200,)), trains(1, 200, 256, saves=(200,))], 2),
        ([trains(1, 256), trains(1)], 2),
        ([trains(1, 256), trains(1, 257), trains(1, 257)], 3),
        ([trains(1, 200, 256, saves=(200,)), trains(201, 240, 256, saves=(240,)), trains(241, 256)], 3),
        ([trains(1, 256), trains(1, 256, saves=(256,)), trains(256)], 3),
        ([trains(5), trains(6), trains(7), trains(8)], 4),
    ],
    ids=["the same step", "after fit", "from a checkpoint", "sooner", "the same checkpoint", "at its start", "beyond",
         "a newer checkpoint", "the first checkpoint", "beyond each time"],
)  # fmt: skip
@pytest.mark.parametrize("spec", [ALONE, GANG])
def test_a_restart_was_of_use_if_training_got_further(spec: JobSpec, trainings: list[Fail], attempts: int) -> None:
    """The same error at the same step is not worth another training, unless there is a newer checkpoint."""
    run = History(spec).begin()
    for train in trainings:
        train(run)
        run.exits("worker:0", exception=TYPO)
        run.after(60)
    assert (run.over, run.attempts["worker:0"]) == (True, attempts)
    assert run.result.repeated is (attempts < 4)
    if attempts == 4:
        assert "budget is used up" in run.result.reason


def test_where_it_fails_each_time_is_said() -> None:
    """The reason names the step."""
    run = restarted(ALONE, raises(exception=TYPO), raises(exception=TYPO), between=trains(1, 256))
    said = "as the attempt before it did, with the same error and no further than at step 256"
    assert run.result.reason == f"worker:0 exited with code 1, {said}"
    assert run.result.cause is not None
    assert run.result.cause.step == 256


def test_another_error_at_the_same_step_is_another_failure() -> None:
    """The program, or what it reads, has changed."""
    run = restarted(ALONE, raises(exception=TYPO), raises(), between=trains(1, 256))
    assert not run.over


@pytest.mark.parametrize(
    "said",
    ["Shape mismatch in the collective instance 103. Op at device /job:worker/replica:0/task:1/device:CPU:0 expected",
     "Collective ops is aborted by: Collective instance 100 expected type 0 and data_type 1 but got type 2"],
)  # fmt: skip
@pytest.mark.parametrize(("first", "second"), [("worker:0", "worker:1"), ("worker:1", "worker:0")])
def test_collectives_that_do_not_match_are_one_failure_whoever_raises_it(said: str, first: str, second: str) -> None:
    """Each worker has its own exception for it; TensorFlow's own says that others have aborted."""

    def fails(name: str, exception: str) -> Fail:
        def fail(run: History) -> None:
            run.last_words[name] = ((exception, said), exception)
            run.exits(name, code=1)

        return fail

    errors = "tensorflow.python.framework.errors_impl.InternalError: Graph execution error:", f"...AbortedError: {said}"
    run = restarted(GANG, fails(first, errors[0]), fails(second, errors[1]), between=trains(1, 50))
    assert run.result.repeated
    assert run.result.cause is not None
    assert str(run.result.cause.task) == second


def test_numbers_count_where_nothing_else_is_known() -> None:
    """A program that reports no steps may print them: other ones are progress, the same ones are none."""

    def prints(*lines: str) -> Fail:
        def fail(run: History) -> None:
            run.last_words["worker:0"] = (lines, None)
            run.exits("worker:0", code=1)

        return fail

    assert not restarted(ALONE, prints("step 5"), prints("step 10"), prints("step 12")).over
    assert restarted(ALONE, prints("step 5"), prints("step 5")).result.repeated
    timed = [prints("start", f"2026-11-25 10:0{n}:31,123 ERROR at 0x7f0{n}: no file") for n in range(2)]
    assert restarted(ALONE, *timed).result.repeated
    steps = restarted(ALONE, prints("at 5"), prints("at 10"), between=trains(7))
    assert steps.result.repeated


def test_the_step_that_was_restored_is_no_progress() -> None:
    """A program may report the step at which it goes on before it makes one."""

    def resumes(run: History) -> None:
        run.resumes("worker:0", 20, "ckpt-20")
        run.progresses("worker:0", 20)

    run = restarted(ALONE, raises(), raises(), between=resumes)
    assert run.result.repeated


def test_a_peers_step_is_the_gangs() -> None:
    """Not every worker reports; what one of them has made all have."""
    further = restarted(GANG, *[raises("worker:1")] * 2, between=lambda run: run.progresses("worker:0", int(run.now)))
    assert not further.over
    assert restarted(GANG, *[raises("worker:1")] * 2, between=trains(5)).result.repeated


def test_a_worker_beside_which_training_goes_on_has_its_whole_budget() -> None:
    """There are new steps, although not its own: a parameter-server worker makes none."""
    run = restarted(PS_JOB, *[raises("worker:1")] * 3, between=lambda run: run.progresses("chief:0", int(run.now)))
    assert (run.attempts["worker:1"], run.over) == (4, False)


@pytest.mark.parametrize("signal", [SIGKILL, SIGTERM])
@pytest.mark.parametrize("spec", [ALONE, GANG, PS_JOB])
def test_deaths_by_signals_are_not_the_programs(spec: JobSpec, signal: int) -> None:
    """Killed twice at the same place while it starts, it may still recover."""
    leader = str(spec.leader)

    def killed(run: History) -> None:
        run.last_words[leader] = (("importing",), None)
        run.exits(leader, signal=signal)

    run = restarted(spec, killed, killed, killed)
    assert (run.attempts[leader], run.over) == (4, False)


def test_a_coordinator_that_dies_of_its_ps_again_may_recover() -> None:
    """Unavailable says that a peer is gone; whoever is restarted meanwhile will be back."""
    run = restarted(PS_JOB, *[raises("chief:0", UNAVAILABLE)] * 3)
    assert (run.attempts["chief:0"], run.over) == (4, False)


def test_what_was_asked_for_or_preempted_in_between_begins_anew() -> None:
    """The attempts that failed alike are no longer in a row."""
    preempted = restarted(ALONE, raises(), lambda run: run.exits("worker:0", code=42), raises())
    assert not preempted.over
    asked = restarted(
        ALONE, raises(), lambda run: run.send(ev.Requested(1, ev.Verb.RESTART, (task("worker:0"),))), raises()
    )
    assert (asked.attempts["worker:0"], asked.over) == (4, False)


def test_the_policy_always_goes_on() -> None:
    """Until its budget is used up, which still says that it was the same each time."""
    rules = RestartRules(policy=RestartPolicy.ALWAYS)
    run = restarted(job(workers=1, restart=rules), *[raises()] * 4, between=trains(9))
    assert run.attempts == {"worker:0": 4}
    assert run.result.reason == "worker:0 exited with code 1, and its restart budget is used up (3 of 3)"
    assert run.result.repeated


def test_an_attempt_that_lived_long_may_have_made_steps_that_nobody_saw() -> None:
    """Where no task reports any, two minutes are the limit."""
    run = History(ALONE).begin()
    for _ in range(2):
        run.after(121)
        run.exits("worker:0", exception=NO_COLUMN)
        run.after(60)
    assert not run.over
    run.exits("worker:0", exception=NO_COLUMN)
    assert run.result.repeated


def test_an_evaluator_is_given_up_for_it() -> None:
    """It never fails the job; its own steps are what counts, whatever training does."""
    run = History(job(workers=1, evaluator=1)).begin()
    for step in range(2):
        run.exits("evaluator:0", exception=NO_COLUMN)
        run.after(5)
        run.progresses("worker:0", step)
    assert run.warnings == [
        "evaluator:0 exited with code 1, as the attempt before it did, and is not started again. "
        "The job continues without its evaluator."
    ]
    assert not run.over
