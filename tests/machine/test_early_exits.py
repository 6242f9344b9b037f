"""Tasks that exit with code 0 before the job is done: each is told, and is the cause of what others then fail of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Inspect
from clusterkit.words.job import JobSpec, Limits, RestartPolicy, RestartRules, RestartScope
from clusterkit.words.model import Program, ProgramKind
from clusterkit.words.outcome import Exit, RunState
from tests.histories import SIGABRT, SIGKILL, SIGTERM, History, faults, job, task

HEARTBEAT = "tensorflow.python.framework.errors_impl.UnavailableError: worker/task:1 stopped sending heartbeats"
GANG, PS_JOB = job(workers=2), job(workers=2, ps=1)
WAITS = ev.Vitals(1, True, "S", "waits in TensorFlow's runtime (a step or a collective)", own=False)
WORKS = ev.Vitals(1, True, "S", "is at train.py:7", own=True)


def training(spec: JobSpec = GANG, step: int = 64) -> History:
    """A job whose tasks that train are at this step."""
    run = History(spec).begin()
    for one in spec.training:
        if not spec.is_server(one):
            run.progresses(str(one), step)
    return run


def failed(run: History) -> list[tuple[str, float]]:
    """The failures so far, each with how long it came after its exit."""
    return [(str(event.failure.task), event.later) for event in run.decided(ev.Failed)]


def looks(run: History) -> int:
    """How often the others were looked at closely."""
    return sum(look.look is ev.Look.STALL for look in run.asked(Inspect))


@pytest.mark.parametrize(
    ("spec", "name", "step"),
    [(GANG, "worker:1", 64), (PS_JOB, "worker:1", None), (PS_JOB, "ps:0", None),
     (job(workers=1, evaluator=1), "evaluator:0", None)],
)  # fmt: skip
def test_each_is_told_at_once(spec: JobSpec, name: str, step: int | None) -> None:
    """With the step that it had reported; the job goes on for now."""
    run = training(spec)
    run.exits(name, code=0)
    assert run.decided(ev.LeftEarly) == [ev.LeftEarly(task(name), 1, step)]
    assert not run.over
    assert run.failures == []


@pytest.mark.parametrize("unswept", [False, True])
def test_the_leaders_is_the_jobs_success_and_what_ends_after_it_is_not_early(unswept: bool) -> None:
    """Also while something of the leader is still being swept."""
    run = training()
    run.unswept = {"worker:0"} if unswept else set()
    run.exits("worker:0", code=0)
    run.exits("worker:1", code=0)
    if unswept:
        run.send(ev.Swept(task("worker:0"), 1))
    assert run.decided(ev.LeftEarly) == []
    assert run.result.state is RunState.SUCCEEDED


def test_a_worker_that_leaves_is_the_cause_of_what_its_peers_die_of() -> None:
    """TensorFlow notices after some seconds, and calls it a peer that is silent."""
    run = training()
    run.exits("worker:1", code=0)
    run.after(8)
    run.exits("worker:0", exception=HEARTBEAT)
    assert failed(run) == [("worker:0", 0.0), ("worker:1", 8.0)]
    (planned,) = run.decided(ev.RestartPlanned)
    assert planned.cause is not None
    assert (str(planned.cause.task), planned.cause.exit, planned.cause.step) == ("worker:1", Exit(code=0), 64)
    assert [str(one.task) for one in planned.collateral] == ["worker:0"]
    assert (planned.charged, run.attempts) == (1, {"worker:0": 2, "worker:1": 2})


def test_workers_that_do_not_stop_together_end_the_job_the_second_time() -> None:
    """It is the program: the restart came no further."""
    run = training()
    for _ in range(2):
        run.exits("worker:1", code=0)
        run.after(8)
        run.exits("worker:0", exception=HEARTBEAT)
        run.after(5)
        for name in run.live:
            run.progresses(name, 64)
    assert (run.result.state, run.result.repeated, run.result.restarts) == (RunState.FAILED, True, 1)
    assert run.result.cause is not None
    assert str(run.result.cause.task) == "worker:1"
    assert run.result.reason == (
        "worker:1 exited with code 0 at step 64, 8.0 s earlier, as the attempt before it did; the workers did not stop "
        "together"
    )


def test_a_peer_that_notices_before_the_exit_is_not_the_cause() -> None:
    """The connection is closed a moment before the process ends."""
    run = training(job(workers=3))
    run.exits("worker:0", exception=HEARTBEAT)
    run.after(0.3)
    run.exits("worker:1", code=0)
    run.after(1)
    (planned,) = run.decided(ev.RestartPlanned)
    assert planned.cause is not None
    assert str(planned.cause.task) == "worker:1"


@pytest.mark.parametrize(
    "how", [{"exception": "ValueError: x"}, {"signal": SIGKILL}, {"code": 3}, {"code": 42}], ids=str
)
def test_an_error_of_its_own_is_not_laid_to_one_that_left(how: dict[str, object]) -> None:
    """Whoever left before did so for another reason."""
    run = training(job(workers=3))
    run.exits("worker:1", code=0)
    run.after(8)
    run.exits("worker:2", exception=HEARTBEAT)
    run.exits("worker:0", **how)  # type: ignore[arg-type]
    run.after(15)
    planned = run.decided(ev.RestartPlanned)[0]
    assert planned.cause is not None
    assert str(planned.cause.task) == "worker:0"


def test_peers_that_wait_for_one_that_left_do_so_for_the_time_of_a_stall() -> None:
    """From their last step on; then they are looked at, and restart with it."""
    run = training(job(workers=3))
    run.vitals = {"worker:0": WAITS, "worker:2": WAITS}
    run.after(10)
    run.exits("worker:1", code=0)
    run.after(20)
    run.progresses("worker:0", 65)
    run.after(59)
    assert run.failures == []
    run.after(2)
    assert failed(run) == [("worker:1", 80.0)]
    assert run.attempts == {"worker:0": 2, "worker:1": 2, "worker:2": 2}


@pytest.mark.parametrize(
    ("limits", "stepped", "seconds"),
    [
        (Limits(), True, 60),
        (Limits(stall_warning=0, stall=30), True, 30),
        (Limits(stall=30), True, 30),
        (Limits(), False, 120),
        (Limits(startup=20), False, 20),
        (Limits(startup=0), False, 60),
        (Limits(startup=0, stall_warning=0), False, None),
        (Limits(stall_warning=0), True, None),
    ],
)
def test_the_time_limits_hold_from_the_exit_on(limits: Limits, stepped: bool, seconds: float | None) -> None:
    """The one for the start where no step was made, also if the one that waits has opened its port."""
    run = training(job(workers=2, limits=limits)) if stepped else History(job(workers=2, limits=limits)).begin()
    run.send(ev.Ready(task("worker:0"), 1))
    run.vitals = {"worker:0": WAITS}
    run.exits("worker:1", code=0)
    run.after(1000 if seconds is None else seconds - 1)
    assert run.failures == []
    if seconds is not None:
        run.after(2)
        assert failed(run) == [("worker:1", seconds)]


def test_a_peer_that_works_is_not_taken_for_one_that_waits() -> None:
    """Workers that do not depend on one another may take an hour longer; looks become rare."""
    run = training()
    run.vitals = {"worker:0": WORKS}
    run.exits("worker:1", code=0)
    run.after(3600)
    assert run.failures == []
    assert 3 < looks(run) < 10
    run.exits("worker:0", code=0)
    assert run.result.state is RunState.SUCCEEDED


def test_a_peer_that_says_nothing_of_itself_is_left_alone() -> None:
    """A program that can't write its stacks may do anything; so may a command, which is not even looked at."""
    run = training()
    run.exits("worker:1", code=0)
    run.after(3600)
    assert run.failures == []
    command = training(replace(job(workers=2), program=Program(ProgramKind.COMMAND, "./train.sh")))
    command.vitals = {"worker:0": WAITS}
    command.exits("worker:1", code=0)
    command.after(3600)
    assert command.failures == []


def test_an_evaluation_is_waited_for() -> None:
    """It makes no steps, and the peer may compute nothing on its main thread."""
    run = training()
    run.vitals = {"worker:0": WAITS}
    run.exits("worker:1", code=0)
    run.send(ev.PhaseChanged(task("worker:0"), 1, "evaluation", True))
    run.after(300)
    assert run.failures == []
    run.send(ev.PhaseChanged(task("worker:0"), 1, "evaluation", False))
    run.after(59)
    assert run.failures == []
    run.after(65)
    assert [name for name, _ in failed(run)] == ["worker:1"]


def test_a_coordinator_without_its_parameter_server_does_not_wait_for_long() -> None:
    """A server that does not serve is noticed after seconds, and starts again with its coordinator."""
    run = training(PS_JOB)
    run.vitals = {"chief:0": replace(WAITS, doing="waits in ParameterServerStrategy(), which connects to every task")}
    run.exits("ps:0", code=0)
    run.after(6)
    assert failed(run) == [("ps:0", 5.0)]
    assert (run.attempts["ps:0"], run.attempts["chief:0"], run.attempts["worker:0"]) == (2, 2, 1)


def test_a_parameter_server_that_leaves_each_time_ends_the_job() -> None:
    """The program lacks the call that serves."""
    run = History(PS_JOB).begin()
    for _ in range(2):
        run.exits("ps:0", code=0)
        run.after(1.5)
        run.exits("chief:0", exception=HEARTBEAT)
        run.after(5)
    assert run.result.reason == (
        "ps:0 exited with code 0, as the attempt before it did; a parameter server has to serve until the job is done "
        "(tf.distribute.Server.join)"
    )
    assert [str(one.task) for one in run.result.collateral] == ["chief:0"]


def test_a_parameter_server_that_obeys_sigterm_is_one_that_ended() -> None:
    """Its exit code does not say that it was ended; the fault explains it."""
    run = History(replace(PS_JOB, faults=faults("term ps:0 @ step=5")), polite={"ps:0"}).begin()
    run.progresses("chief:0", 5)
    run.exits("chief:0", exception=HEARTBEAT)
    run.after(5)
    assert run.attempts == {"ps:0": 2, "chief:0": 2, "worker:0": 1, "worker:1": 1}
    (ended,) = (of for of in run.machine.state.attempts.values() if of.task == task("ps:0"))
    assert (ended.fault, ended.exit) == (1, Exit(code=0))


@pytest.mark.parametrize("name", ["worker:1", "ps:0"])
def test_tasks_that_end_alone_need_nobody(name: str) -> None:
    """With --restart-scope task, or where the coordinator is done before it is looked at."""
    if name == "worker:1":
        run = training(job(workers=2, restart=RestartRules(scope=RestartScope.TASK)))
    else:
        run = training(PS_JOB)
    run.vitals = {"worker:0": WAITS, "chief:0": WAITS}
    run.exits(name, code=0)
    run.after(3 if name == "ps:0" else 600)
    assert run.failures == []
    run.exits(str(run.job.leader), code=0)
    run.after(20)
    assert run.result.state is RunState.SUCCEEDED


@pytest.mark.parametrize("policy", list(RestartPolicy))
def test_each_policy_has_its_cause(policy: RestartPolicy) -> None:
    """Never: the job ends. A gang's restart is charged also where tasks always restart."""
    run = training(job(workers=2, restart=RestartRules(policy=policy)))
    run.exits("worker:1", code=0)
    run.after(8)
    run.exits("worker:0", signal=SIGABRT)
    run.after(5)
    if policy is RestartPolicy.NEVER:
        assert (
            run.result.reason
            == "worker:1 exited with code 0 at step 64, 8.0 s earlier; the workers did not stop together"
        )
    else:
        assert [planned.charged for planned in run.decided(ev.RestartPlanned)] == [1]


def test_who_starts_again_has_not_left() -> None:
    """Another failure restarts the gang; what was before is over."""
    run = training()
    run.exits("worker:1", code=0)
    run.exits("worker:0", signal=SIGTERM)
    run.after(5)
    run.vitals = {"worker:0": WAITS, "worker:1": WAITS}
    run.after(600)
    run.exits("worker:0", exception=HEARTBEAT)
    assert [name for name, _ in failed(run)] == ["worker:0", "worker:0"]
