"""Tasks that have peers and train each for itself: said soon after the first step, and at the end; never of others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Inspect, Record
from clusterkit.words.distribution import Training, Undistributed, WhyAlone
from clusterkit.words.job import Convention, JobSpec, RestartRules, RestartScope
from clusterkit.words.model import Task
from clusterkit.words.outcome import Reservation, RunState
from tests.histories import SIGKILL, History, faults, job, task

GANG, PS_JOB = job(workers=2), job(workers=2, ps=1)
MWMS, PS, MIRRORED = "MultiWorkerMirroredStrategy", "ParameterServerStrategy", "MirroredStrategy"
NEVER, NO_SCOPE, UNCALLED = WhyAlone.NEVER_CONNECTED, WhyAlone.NO_SCOPE, WhyAlone.UNCALLED


def reports(
    run: History,
    *names: str,
    made: tuple[str, ...] = (),
    cluster: int = 0,
    distributed: bool = False,
    training: Training = Training.FIT,
    outside: str = "",
) -> None:
    """The runtimes of these tasks report how they train."""
    for name in names:
        run.send(ev.TrainsWith(task(name), run.attempts[name], made, cluster, distributed, training, outside))


def trained(spec: JobSpec, *names: str, steps: bool = True, **how: Any) -> History:
    """A job in which these tasks, by default all, have trained so for a while."""
    run = History(spec, listening=False).begin()
    names = names or tuple(str(one) for one in spec.training)
    reports(run, *names, **how)
    run.after(2)
    for name in names if steps else ():
        run.progresses(name, 1)
    run.after(9)
    return run


def succeeded(run: History) -> Undistributed | None:
    """What is known in the end of a job that succeeds now."""
    run.exits(str(run.job.leader), code=0)
    run.after(50)
    assert run.result.state is RunState.SUCCEEDED
    found = run.result.undistributed
    assert (Reservation.ALONE in run.result.reservations) is (found is not None)
    assert run.result.exit_code == (3 if run.result.reservations else 0)
    return found


@pytest.mark.parametrize(
    ("spec", "names", "how", "found"),
    [
        (GANG, "worker:0 worker:1", {}, (NEVER, ())),
        (GANG, "worker:0 worker:1", {"training": Training.LOOP}, (NEVER, ())),
        (GANG, "worker:0 worker:1", {"made": (MIRRORED,), "training": Training.SCOPED}, (NEVER, (MIRRORED,))),
        (GANG, "worker:0 worker:1", {"made": (MWMS,), "training": Training.SCOPED}, (NEVER, (MWMS,))),
        (GANG, "worker:0 worker:1", {"made": (MWMS,), "cluster": 2}, (NO_SCOPE, (MWMS,))),
        (PS_JOB, "chief:0 worker:0 worker:1 ps:0", {}, (NEVER, ())),
        (PS_JOB, "chief:0", {"made": (PS,), "cluster": 4}, (NO_SCOPE, (PS,))),
        (PS_JOB, "chief:0", {}, (NEVER, ())),
    ],
)
def test_what_is_found_is_told_within_ten_seconds_and_at_the_end(
    spec: JobSpec, names: str, how: dict[str, Any], found: tuple[WhyAlone, tuple[str, ...]]
) -> None:
    """Once, and the job's success stays one."""
    run = trained(spec, *names.split(), **how)
    expected = Undistributed(tuple(map(task, names.split())), *found, has_ps=spec is PS_JOB)
    assert run.decided(ev.TrainAlone) == [ev.TrainAlone(expected)]
    run.after(60)
    assert succeeded(run) == expected
    assert len(run.decided(ev.TrainAlone)) == 1


AT = "train.py, line 14"


@pytest.mark.parametrize(
    "how",
    [
        {"cluster": 2, "training": Training.SCOPED},
        {"cluster": 2, "training": Training.SCOPED, "distributed": True},
        {"cluster": 2, "training": Training.LOOP, "distributed": True},
    ],
)
def test_one_fit_of_several_that_is_not_distributed_is_named(how: dict[str, Any]) -> None:
    """With its line; nobody says of the other training that it was not distributed."""
    run = trained(GANG, made=(MWMS,), outside=AT, **how)
    workers = task("worker:0"), task("worker:1")
    assert succeeded(run) == Undistributed(workers, WhyAlone.ONE_FIT, (MWMS,), place=AT)


def test_a_fit_of_the_leader_alone_is_its_own_affair() -> None:
    """Such as an evaluation of a loaded model."""
    run = trained(GANG, made=(MWMS,), cluster=2, training=Training.SCOPED)
    reports(run, "worker:0", made=(MWMS,), cluster=2, training=Training.SCOPED, outside=AT)
    assert succeeded(run) is None


def test_a_loop_with_dtensor_reports_no_steps() -> None:
    """Each client alone is told nevertheless; a loop of another kind may only evaluate."""
    run = trained(GANG, steps=False, made=("DTensor",), training=Training.LOOP)
    assert succeeded(run) == Undistributed((task("worker:0"), task("worker:1")), NEVER, ("DTensor",))
    other = trained(GANG, steps=False, made=(MWMS,), training=Training.LOOP)
    assert succeeded(other) is None


def test_it_is_told_five_seconds_after_the_second_task_has_trained() -> None:
    """One alone says nothing yet."""
    run = History(GANG, listening=False).begin()
    reports(run, "worker:0")
    run.after(60)
    assert run.decided(ev.TrainAlone) == []
    reports(run, "worker:1")
    run.after(4.9)
    assert run.decided(ev.TrainAlone) == []
    run.after(0.2)
    assert len(run.decided(ev.TrainAlone)) == 1


def test_a_job_that_is_over_sooner_is_told_at_its_end() -> None:
    """Right before the end."""
    run = History(GANG, listening=False).begin()
    reports(run, "worker:0", "worker:1")
    run.exits("worker:1", code=0)
    assert succeeded(run) == Undistributed(tuple(map(task, ("worker:0", "worker:1"))), NEVER)
    kinds = [type(record.event) for record in run.asked(Record)]
    assert kinds[-2:] == [ev.TrainAlone, ev.Finished]


@pytest.mark.parametrize(
    ("spec", "how"),
    [
        (job(workers=1), {}),
        (job(workers=1, evaluator=1), {}),
        (GANG, {"made": (MWMS,), "cluster": 2, "distributed": True, "training": Training.SCOPED}),
        (GANG, {"made": (MWMS,), "cluster": 2, "distributed": True, "training": Training.LOOP}),
        (GANG, {"made": (MWMS,), "cluster": 2, "training": Training.LOOP}),
        (GANG, {"made": (MWMS,), "cluster": 2, "training": Training.SCOPED}),
        (GANG, {"made": (MWMS,), "cluster": 2, "distributed": True}),
        (GANG, {"made": ("DTensor",), "cluster": 2}),
        (GANG, {"training": Training.NONE}),
        (PS_JOB, {"made": (PS,), "cluster": 4, "distributed": True, "training": Training.LOOP}),
        (PS_JOB, {"made": (PS,), "cluster": 4, "distributed": True, "training": Training.SCOPED}),
        (PS_JOB, {"cluster": 4, "training": Training.LOOP}),
        (replace(GANG, convention=Convention.JAX), {}),
        (replace(GANG, convention=Convention.KERAS), {}),
        (job(workers=2, restart=RestartRules(scope=RestartScope.TASK)), {}),
    ],
)
def test_nothing_is_said_of_training_that_is_right_or_not_known(spec: JobSpec, how: dict[str, Any]) -> None:
    """Nor of tasks that are independent on purpose."""
    run = trained(spec, **how)
    assert succeeded(run) is None
    assert run.decided(ev.TrainAlone) == []


def test_nothing_is_said_of_a_program_whose_runtime_says_nothing() -> None:
    """A command, or one that trains with another library: its steps alone prove nothing."""
    run = History(GANG, listening=False).begin()
    for name in ("worker:0", "worker:1"):
        run.progresses(name, 1)
    run.after(60)
    assert succeeded(run) is None


def test_a_task_whose_port_is_open_does_not_train_alone() -> None:
    """It may serve there with something that TensorFlow does not know."""
    run = History(GANG).begin()
    reports(run, "worker:0", "worker:1")
    run.after(9)
    assert run.decided(ev.TrainAlone) == []
    assert succeeded(run) is None


def test_one_that_trains_beside_peers_that_do_not_is_no_finding() -> None:
    """They may serve its data, for example."""
    assert succeeded(trained(GANG, "worker:0")) is None
    run = History(GANG, listening=False).begin()
    reports(run, "worker:1")
    assert succeeded(run) is None


def test_one_that_trains_otherwise_is_no_finding_either() -> None:
    """Then it is not known what the others do."""
    run = History(job(workers=3), listening=False).begin()
    reports(run, "worker:0", "worker:1")
    run.progresses("worker:2", 1)
    run.after(9)
    assert succeeded(run) is None


def test_training_that_becomes_distributed_is_so_in_the_end() -> None:
    """Each worker may first train something of its own."""
    run = trained(GANG, made=(MWMS,), cluster=2)
    assert len(run.decided(ev.TrainAlone)) == 1
    reports(run, "worker:0", "worker:1", made=(MWMS,), cluster=2, distributed=True)
    assert succeeded(run) is None


def test_a_restart_does_not_change_what_was_found() -> None:
    """The new attempts have reported nothing yet, or the same; it is told once."""
    run = trained(GANG)
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    assert run.attempts["worker:0"] == 2
    found = succeeded(run)
    assert found is not None
    assert len(run.decided(ev.TrainAlone)) == 1


def test_looks_are_few() -> None:
    """One for each first step or new report, if nothing is found."""
    run = trained(GANG, "worker:0")
    for step in range(2, 50):
        run.after(1)
        run.progresses("worker:0", step)
    assert sum(look.look is ev.Look.GLANCE for look in run.asked(Inspect)) == 1


@pytest.mark.parametrize("spec", [GANG, PS_JOB])
def test_a_main_that_nothing_calls(spec: JobSpec) -> None:
    """The program has ended well at once; nothing is said of a task that still runs, or has failed."""
    run = History(spec, listening=False).begin()
    names = [str(one) for one in sorted(spec.cluster)]
    reports(run, *names, training=Training.UNCALLED)
    for name in names[1:]:
        run.exits(name, code=0)
    found = succeeded(run)
    assert found == Undistributed(tuple(map(Task.parse, names)), UNCALLED)
    alive = History(spec, listening=False).begin()
    reports(alive, *names, training=Training.UNCALLED)
    alive.after(30)
    assert alive.decided(ev.TrainAlone) == []


@pytest.mark.parametrize(
    ("allow", "how", "code"), [((), {}, 3), ((), {"distributed": True}, 0), (("alone",), {}, 0), (("nan",), {}, 3)]
)
def test_a_success_of_tasks_that_trained_alone_has_its_own_exit_code(
    allow: tuple[str, ...], how: dict[str, Any], code: int
) -> None:
    """The reason says why; --allow alone is for tasks that are meant to."""
    run = trained(replace(GANG, allow=allow), **how)
    run.exits("worker:0", code=0)
    run.exits("worker:1", code=0)
    assert run.result.exit_code == code
    assert run.result.state is RunState.SUCCEEDED
    assert run.result.fine is (code == 0)
    assert run.result.reservations == ((Reservation.ALONE,) if code else ())
    said = ", but worker:0 and worker:1 each trained alone" if code else ""
    assert run.result.reason == f"worker:0 exited with code 0{said}"


def test_all_reservations_are_told() -> None:
    """Each may be allowed by itself."""
    spec = replace(GANG, faults=faults("kill worker:1 @ step=1000"))
    run = trained(spec)
    run.exits("worker:0", code=0)
    run.exits("worker:1", code=0)
    assert run.result.reservations == (Reservation.ALONE, Reservation.FAULTS)
    assert run.result.reason.endswith(" each trained alone and a fault that was asked for was never injected")
    allowed = trained(replace(spec, allow=("alone", "faults")))
    allowed.exits("worker:0", code=0)
    allowed.exits("worker:1", code=0)
    assert allowed.result.exit_code == 0
    assert len(allowed.result.not_injected) == 1


@pytest.mark.parametrize("training", Training)
def test_the_result_says_whether_the_program_has_a_training_loop_of_its_own(training: Training) -> None:
    """So that no reader advises on fit where there is none."""
    run = History(job(workers=2)).begin()
    run.send(ev.TrainsWith(task("worker:0"), 1, (), 2, True, training))
    run.exits("worker:1", code=0)
    run.exits("worker:0", code=0)
    run.after(20)
    assert run.result.loop is (training is Training.LOOP)
