"""Goodput: to which part each moment of a run belongs, in histories of each shape."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clusterkit.words import events as ev
from clusterkit.words.job import Limits, RestartPolicy, RestartRules
from clusterkit.words.reports import Stage
from tests.histories import SIGINT, SIGKILL, SIGSEGV, job, task
from tests.ledger.recovering import SOON, UNAVAILABLE, Told
from tests.ledger.splitting import BEGUN, NEVER, dies, gang, one_task, ps_job


def nothing(told: Told) -> None:
    """Nothing happens."""


def saves(told: Told) -> None:
    told.run.after(0.1)
    told.phase("worker:0", "checkpoint", 3)
    told.steps("worker:0", 11, every=0)


def evaluates(told: Told) -> None:
    told.phase("worker:0", "evaluation", 3)
    told.steps("worker:0", 11)


def is_paused(told: Told) -> None:
    told.run.after(0.1)
    told.run.send(ev.Requested(1, ev.Verb.PAUSE, (task("worker:0"),)))
    told.run.after(3)
    told.run.send(ev.Requested(2, ev.Verb.UNPAUSE, (task("worker:0"),)))
    told.steps("worker:0", 11, every=0)


def dies_without_a_checkpoint(told: Told) -> None:
    told.run.exits("worker:0", signal=SIGKILL)
    told.run.after(2)
    told.steps("worker:0", 1, every=1)


def restarts_as_asked(told: Told) -> None:
    told.run.send(ev.Requested(1, ev.Verb.RESTART, (task("worker:0"),)))
    told.run.after(2)
    told.run.resumes("worker:0", 10, "ckpt-10")
    told.steps("worker:0", 11, every=1)


def succeeds(told: Told) -> None:
    told.run.after(3)
    told.run.exits("worker:0", code=0)


def is_interrupted(told: Told) -> None:
    told.run.after(1)
    told.run.stubborn.add("worker:0")
    told.run.send(ev.Interrupted(SIGINT))
    told.run.after(3)
    told.run.exits("worker:0", signal=SIGKILL)


def waits_for_its_input(told: Told) -> None:
    """Nobody knows why a step took longer."""
    told.steps("worker:0", 11, every=3)


def reports_out_of_order(told: Told) -> None:
    told.steps("worker:0", 12, 11, 13, 12, 14)


def counts_anew(told: Told) -> None:
    """As with a second `fit`."""
    told.steps("worker:0", *range(1, 6))


@pytest.mark.parametrize(
    ("happens", "more"),
    [
        (nothing, {}),
        (saves, {"training": 1.1, "checkpointing": 3.0}),
        (evaluates, {"training": 1.1, "evaluating": 3.0}),
        (is_paused, {"training": 1.1, "stopped": 3.0}),
        (dies, {"training": 0.8, "lost": 0.2, "recovering": 3.0}),
        (dies_without_a_checkpoint, {"training": 0.0, "lost": 1.0, "recovering": 3.0}),
        (restarts_as_asked, {"recovering": 3.0}),
        (succeeds, {"ending": 3.0}),
        (is_interrupted, {"training": 2.0, "ending": 3.0}),
        (waits_for_its_input, {"training": 4.0}),
        (reports_out_of_order, {"training": 1.5}),
        (counts_anew, {"training": 1.5}),
    ],
)
def test_each_part_alone(happens: Callable[[Told], None], more: dict[str, float]) -> None:
    """One task, to which one thing happens."""
    told = one_task()
    happens(told)
    assert told.parts == {name: seconds for name, seconds in (BEGUN | more).items() if seconds}


def test_a_stall_begins_with_the_last_step() -> None:
    """It is warned of after a minute, and names the task; what it takes beyond a usual step is stalled."""
    told = gang()
    told.run.after(70)
    told.steps("worker:0", 11)
    assert told.parts == BEGUN | {"training": 1.1, "stalled": 70.0}
    assert told.most == "Training stalled at 8.0 s for 70.0 s: worker:0 held it up"


def test_a_restart_during_a_stall() -> None:
    """Until the stuck task is killed, training stalled; from then on, it recovers."""
    told = gang(limits=Limits(startup=0, stall=30, stall_warning=0))
    told.run.after(30)
    told.run.after(2)
    assert told.run.attempts == {"worker:0": 2, "worker:1": 2}
    told.run.resumes("worker:0", 8, "ckpt-8")
    told.steps("worker:0", 9, every=1)
    parts = told.parts
    assert parts == BEGUN | {"training": 0.8, "lost": 0.3, "stalled": 29.9, "recovering": 3.0}


@pytest.mark.parametrize("victim", ["worker:0", "worker:1"])
def test_a_gang_recovers_from_the_first_death_on(victim: str) -> None:
    """Late reports of the survivor are no steps; the sentence names the victim."""
    told = gang()
    told.run.exits(victim, signal=SIGSEGV)
    survivor = {"worker:0": "worker:1", "worker:1": "worker:0"}[victim]
    told.steps(survivor, 11, 12)
    told.run.exits(survivor, exception=UNAVAILABLE)
    told.run.after(2)
    told.run.resumes("worker:0", 8, "ckpt-8")
    told.steps("worker:0", 9, every=1)
    assert told.parts == BEGUN | {"training": 0.8, "lost": 0.2, "recovering": 3.2}
    assert told.most == "start-up, 5.0 s before the first step"
    told.steps("worker:0", *range(10, 20))
    told.run.exits(victim, signal=SIGSEGV)
    told.run.after(5)
    told.run.resumes("worker:0", 8, "ckpt-8")
    told.steps("worker:0", 9, every=1)
    assert told.parts == BEGUN | {"training": 0.8, "lost": 1.2, "recovering": 9.2}
    assert told.most == (
        "2 recoveries took 9.2 s and lost 1.2 s of training; the longest: "
        f"{victim} was killed by SIGSEGV at 12.2 s: 6.0 s to recover, 1.0 s of training lost"
    )


def test_a_recovery_begins_with_the_fault() -> None:
    """As in the recovery report, with which it agrees."""
    told = gang("kill worker:1 @ step=10")
    told.run.exits("worker:0", exception=UNAVAILABLE)
    told.run.after(4)
    told.run.resumes("worker:0", 8, "ckpt-8")
    told.steps("worker:0", 9, every=1)
    one = told.one()
    assert told.parts["recovering"] == pytest.approx(one.seconds) == 5.0
    assert (one.lost, told.parts["lost"]) == (2, 0.2)


def test_training_goes_on_without_a_worker() -> None:
    """A parameter-server job does not recover while its coordinator makes steps."""
    told = ps_job()
    told.run.exits("worker:1", signal=SIGKILL)
    told.steps("chief:0", *range(11, 31))
    told.ready("worker:1")
    assert told.parts == BEGUN | {"training": 3.0}


def test_training_waits_for_a_worker() -> None:
    """Where it does not go on, it recovers, but for the time of a usual step."""
    told = ps_job()
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(3)
    told.ready("worker:1")
    told.steps("chief:0", 11)
    assert told.parts == BEGUN | {"training": 1.1, "recovering": 3.0}
    assert told.most == "start-up, 5.0 s before the first step"


def test_a_parameter_server_takes_training_with_it() -> None:
    """Chief and ps restart; what was trained since the checkpoint is lost."""
    told = ps_job()
    told.run.exits("ps:0", signal=SIGKILL)
    told.run.after(2)
    told.ready("ps:0")
    told.run.after(6)
    told.run.resumes("chief:0", 8, "ckpt-8")
    told.steps("chief:0", 9, every=1)
    assert told.parts == BEGUN | {"training": 0.8, "lost": 0.2, "recovering": 9.0}
    assert told.most == "ps:0 was killed by SIGKILL at 8.0 s: 9.0 s to recover, 0.2 s of training lost"


@pytest.mark.parametrize(("every", "stopped"), [(0.1, 0.0), (0.2, 0.0), (3.0, 2.9)])
def test_a_paused_worker_of_a_parameter_server_job(every: float, stopped: float) -> None:
    """It counts only if training stood still, and neither if that was as fast as usual nor at half the speed."""
    told = ps_job("stop worker:1 for=3s @ step=10")
    told.steps("chief:0", *range(11, 11 + round(3 / every)), every=every)
    assert told.parts.get("stopped", 0.0) == stopped


def test_a_partition_stalls_training() -> None:
    """Until the first step after it; the sentence names the fault."""
    told = gang("partition worker:1 for=30s @ step=10")
    told.run.after(30)
    told.steps("worker:0", 11, every=1)
    assert told.parts == BEGUN | {"training": 1.1, "stalled": 30.9}
    assert told.most == "Training stalled at 8.0 s for 30.9 s: partition worker:1 for=30s @ step=10"


def test_several_together() -> None:
    """Each keeps its part."""
    told = one_task()
    for happens in (saves, evaluates):
        happens(told)
    told.steps("worker:0", 12)
    told.run.checkpoints("worker:0", 12)
    told.run.send(ev.Requested(1, ev.Verb.PAUSE, (task("worker:0"),)))
    told.run.after(4)
    told.run.send(ev.Requested(2, ev.Verb.UNPAUSE, (task("worker:0"),)))
    told.steps("worker:0", 13)
    told.run.exits("worker:0", signal=SIGKILL)
    told.run.after(2)
    told.run.resumes("worker:0", 12, "ckpt-12")
    told.steps("worker:0", 13)
    succeeds(told)
    expected = {"checkpointing": 3.0, "evaluating": 3.0, "stopped": 4.0, "recovering": 2.1, "ending": 3.0}
    assert told.parts == BEGUN | {"training": 1.3, "lost": 0.1} | expected


def test_a_failure_that_is_not_repaired_is_the_end() -> None:
    """From the death on, with the two seconds for which something keeps its output open."""
    told = one_task(policy=RestartPolicy.NEVER)
    told.run.clinging.add("worker:0")
    told.run.exits("worker:0", signal=SIGKILL)
    told.run.after(5)
    assert told.run.over
    assert told.parts == BEGUN | {"ending": 2.0}


def test_the_last_step_begins_the_end() -> None:
    """If the program has said how many there are; checkpoints and evaluations after it stay what they are."""
    told = one_task()
    told.run.after(0.1)
    told.run.send(ev.Progressed(task("worker:0"), 1, 11, total=11))
    told.phase("worker:0", "checkpoint", 2)
    told.run.after(1)
    assert told.parts == BEGUN | {"training": 1.1, "checkpointing": 2.0, "ending": 1.0}
    told.steps("worker:0", 12)  # it makes more
    assert told.parts == BEGUN | {"training": 2.2, "checkpointing": 2.0}


def test_the_step_at_which_it_begins_is_none_that_it_made() -> None:
    """Keras' `fit` reports it before the first one: 0, or that of the checkpoint."""
    for begin in (0, 40):
        told = Told(job(workers=1, limits=NEVER))
        told.run.after(5)
        told.run.resumes("worker:0", begin, "ckpt-40" if begin else None)
        told.steps("worker:0", begin)
        told.steps("worker:0", begin + 1, every=2.0)
        told.steps("worker:0", *range(begin + 2, begin + 11))
        assert told.parts == {"startup": 5.0, "compilation": 2.0, "training": 1.0}


@pytest.mark.parametrize("over", [False, True])
def test_a_run_without_steps(over: bool) -> None:
    """Training cannot be seen; as long as it is live, it may be starting."""
    told = Told(job(workers=2, limits=NEVER))
    told.run.after(60)
    if over:
        told.run.exits("worker:1", code=0)
        told.run.exits("worker:0", code=0)
    assert told.parts == {"unseen" if over else "startup": 60.0}
    assert (told.goodput.share, told.goodput.seen, told.most) == (None, False, "")


def test_a_run_that_ends_in_its_start_up() -> None:
    """It cannot be told what its program did before it said that the first step began."""
    told = Told(job(workers=1, restart=RestartRules(RestartPolicy.NEVER), limits=NEVER))
    told.run.after(5)
    told.reaches("worker:0", Stage.PREPARED)
    told.run.after(2)
    told.run.exits("worker:0", signal=SIGKILL)
    assert told.parts == {"unseen": 5.0, "compilation": 2.0}
    assert told.goodput.share is None


def test_a_run_that_fails_before_its_first_step_and_then_trains() -> None:
    """The recovery lasts until the first step."""
    told = Told(job(workers=1, restart=SOON, limits=NEVER))
    told.run.after(5)
    told.run.exits("worker:0", signal=SIGKILL)
    told.run.after(3)
    told.steps("worker:0", 1, 2, every=1)
    assert told.parts == {"startup": 5.0, "recovering": 4.0, "training": 1.0}
