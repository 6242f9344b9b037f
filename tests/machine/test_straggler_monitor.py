"""When the tasks' paces are looked at, what counts of it, and what is said: histories."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest

from clusterkit.machine.monitors.stragglers import AGREEING, CAUGHT_UP, LONG_INTERVAL, QUIET, SETTLING, SHORT_INTERVAL
from clusterkit.words import events as ev
from clusterkit.words.actions import Inspect
from clusterkit.words.job import JobSpec, Limits
from tests.histories import History, job, task
from tests.machine.test_pauses import begins, ends

LIMITS = Limits(stall_warning=0, startup=0)
GANG, SERVERS = job(workers=3, limits=LIMITS), job(workers=2, ps=1, evaluator=1, limits=LIMITS)
USUAL, SLOWED = (0, 4), (12, 4)  # of 16 samples: stopped, and busy


@dataclass
class Run(History):
    """A run whose tasks have paces; those in `slow` are stopped for most of the time."""

    slow: set[str] = field(default_factory=set)
    step: int = 0

    def trains(self, seconds: float, *others: str) -> None:
        """The leader, and these, report a step a second."""
        for _ in range(int(seconds)):
            self.paces()
            self.step += 1
            for name in (str(self.job.leader), *others):
                self.progresses(name, self.step)
            self.after(1)

    def paces(self) -> None:
        """What a look will find."""
        for one in self.job.tasks:
            pace = ev.Pace(16, *(SLOWED if str(one) in self.slow else USUAL), 4.0, 1.0, 0.5)
            self.vitals[str(one)] = ev.Vitals(1, False, "S", pace=pace)

    def looks(self) -> int:
        """How many looks at paces were asked for."""
        return len([look for look in self.asked(Inspect) if look.look is ev.Look.PACE])

    def named(self) -> list[tuple[str, int]]:
        """Who was said to be slower, in which attempt."""
        return [(str(one.task), one.attempt) for one in self.decided(ev.Straggling)]


def settled(spec: JobSpec, *slow: str) -> Run:
    """A run that has trained since a while, when some tasks become slow."""
    run = Run(spec)
    run.begin()
    run.trains(SETTLING + 5)
    assert run.named() == []
    run.slow = set(slow)
    return run


@pytest.mark.parametrize(("spec", "name"), [(GANG, "worker:1"), (SERVERS, "worker:1"), (SERVERS, "ps:0")])
def test_a_task_that_is_slow_for_long_is_named_once(spec: JobSpec, name: str) -> None:
    """However long it lasts; with what was measured."""
    run = settled(spec, name)
    run.trains(SHORT_INTERVAL + 2)
    assert run.named() == []
    run.trains(300)
    assert run.named() == [(name, 1)]
    (said,) = run.decided(ev.Straggling)
    assert said.slowness is ev.Slowness.STOPPED
    assert 2 < said.factor <= 4
    assert re.fullmatch(r"is stopped (6|7)\d % of the time \(.* 0 %\)", said.why)
    assert SHORT_INTERVAL < said.seconds < AGREEING * (SHORT_INTERVAL + 2)
    assert run.decided(ev.KeepsUp) == []


def test_it_is_over_when_the_task_keeps_up_again() -> None:
    """And nothing is said for a while if it begins again, so that one that comes and goes does not fill the log."""
    run = settled(GANG, "worker:1")
    run.trains(60)
    run.slow = set()
    run.trains(60)
    (over,) = run.decided(ev.KeepsUp)
    assert (over.task, over.attempt) == (task("worker:1"), 1)
    for _ in range(30):
        for slow in ({"worker:1"}, set[str]()):
            run.slow = slow
            run.trains(40)
    assert 3 <= len(run.named()) <= 6
    assert len(run.decided(ev.KeepsUp)) in (len(run.named()), len(run.named()) - 1)
    assert QUIET * 2**4 < 30 * 80 + 120


@pytest.mark.parametrize("spec", [GANG, SERVERS], ids=["gang", "parameter servers"])
def test_equal_tasks_are_looked_at_and_nobody_is_named(spec: JobSpec) -> None:
    """Seldom, as long as there are steps."""
    run = settled(spec)
    run.trains(AGREEING * SHORT_INTERVAL + LONG_INTERVAL)
    before = run.looks()
    run.trains(120)
    assert 120 / (LONG_INTERVAL + 2) <= run.looks() - before <= 120 / LONG_INTERVAL
    assert run.named() == []
    before = run.looks()
    run.after(1000)
    assert run.looks() - before <= 1, "nobody looks while training stands still"


@pytest.mark.parametrize("spec", [GANG, SERVERS], ids=["gang", "parameter servers"])
def test_a_look_that_shows_a_difference_is_followed_by_others_soon(spec: JobSpec) -> None:
    """So that a task which becomes slow after long is named little later than one that is slow from the start."""
    run = settled(spec)
    run.trains(120)
    run.slow = {"worker:1"}
    run.trains(LONG_INTERVAL + 2 + AGREEING * (SHORT_INTERVAL + 2))
    assert run.named() == [("worker:1", 1)]
    run.trains(120)
    before = run.looks()
    run.trains(60)
    assert run.looks() - before >= 60 / (SHORT_INTERVAL + 2), "until it keeps up"
    run.slow = set()
    run.trains(CAUGHT_UP * (SHORT_INTERVAL + 2))
    assert len(run.decided(ev.KeepsUp)) == 1


def test_all_that_are_slow_are_nobody() -> None:
    """None of them is slower than its peers."""
    run = settled(GANG, "worker:0", "worker:1", "worker:2")
    run.trains(120)
    assert run.named() == []


@pytest.mark.parametrize("spec", [job(workers=1, limits=LIMITS), job(workers=1, evaluator=1, limits=LIMITS)])
def test_a_task_without_peers_is_not_looked_at(spec: JobSpec) -> None:
    """Nothing could be said."""
    run = settled(spec, "worker:0", "evaluator:0")
    run.trains(120)
    assert (run.looks(), run.named()) == (0, [])


def test_the_evaluator_is_not_compared() -> None:
    """It is not waited for."""
    run = settled(SERVERS, "evaluator:0")
    run.trains(120)
    assert run.looks() > AGREEING
    assert run.named() == []


def test_nothing_is_said_before_training_begins() -> None:
    """A start and a compilation take one task longer than another."""
    run = Run(GANG)
    run.slow = {"worker:1"}
    run.begin()
    run.paces()
    run.after(300)
    assert run.looks() == 0
    run.trains(4)
    assert run.named() == []


def test_a_phase_does_not_count() -> None:
    """The chief writes a checkpoint, or evaluates, while the others wait; also one that a look did not see."""
    run = settled(GANG, "worker:1")
    begins(run, "worker:0", "checkpoint")
    before = run.looks()
    run.trains(60, "worker:1")
    assert (run.looks(), run.named()) == (before, [])
    ends(run, "worker:0", "checkpoint")
    run.paces()
    for step in range(1000, 1060):
        begins(run, "worker:0", "checkpoint")
        ends(run, "worker:0", "checkpoint")
        run.progresses("worker:0", step)
        run.after(1)
    assert run.looks() > before + 10
    assert run.named() == [("worker:1", 1)], "a look between two phases counts"


@pytest.mark.parametrize(
    ("phases", "counts"),
    [
        (((0.2, 0.3),), True),
        (((0.2, 0.9),), False),
        (((0.1, 0.2), (0.4, 0.5), (0.7, 0.8)), False),
        (((0.9, None),), True),
        (((0.2, None),), False),
    ],
)
def test_a_look_with_long_phases_does_not_count(phases: tuple[tuple[float, float | None], ...], counts: bool) -> None:
    """One whose answer comes after a second, of which phases took so much; the last one may go on."""
    run = settled(GANG)
    run.slow = {"worker:1"}
    run.paces()
    said = []
    for step in range(100, 120):
        run.machine.handle(ev.Progressed(task("worker:0"), 1, step), run.now)
        run.now += LONG_INTERVAL + 1
        assert Inspect(ev.Look.PACE) in run.machine.handle(ev.Ticked(), run.now)
        for begin, end in phases:
            run.machine.handle(ev.PhaseChanged(task("worker:0"), 1, "checkpoint", True), run.now + begin)
            if end is not None:
                run.machine.handle(ev.PhaseChanged(task("worker:0"), 1, "checkpoint", False), run.now + end)
        run.now += 1
        seen = {one: run.vitals[str(one)] for one in run.job.tasks}
        said += run.machine.handle(ev.Inspected(seen, ev.Look.PACE), run.now)
        run.machine.handle(ev.PhaseChanged(task("worker:0"), 1, "checkpoint", False), run.now)
    assert len(said) == counts


def test_a_phase_that_a_death_ends_is_over() -> None:
    """Nobody reports its end; the program that starts again has none."""
    run = settled(SERVERS, "worker:1")
    begins(run, "chief:0", "checkpoint")
    run.exits("chief:0", signal=9)
    run.trains(SETTLING + LONG_INTERVAL + 2 * AGREEING * SHORT_INTERVAL)
    assert run.named() == [("worker:1", 1)]


def test_a_task_that_is_paused_is_not_slow() -> None:
    """By hand or by a fault: that is known."""
    run = settled(SERVERS, "worker:1")
    run.send(ev.Requested(1, ev.Verb.PAUSE, (task("worker:1"),)))
    run.trains(120)
    assert run.named() == []


def test_a_restart_begins_anew() -> None:
    """What was said of the attempt before is over with it; the next one gets its time to connect and compile."""
    run = settled(SERVERS, "worker:1")
    run.trains(60)
    run.exits("worker:1", signal=9)
    run.trains(SETTLING + 2 * AGREEING)
    assert run.named() == [("worker:1", 1)]
    run.trains(60)
    assert run.named() == [("worker:1", 1), ("worker:1", 2)]
    assert run.decided(ev.KeepsUp) == []


def test_looks_at_two_attempts_are_not_mixed() -> None:
    """Also where none was made in between, since training stood still while the task started."""
    run = settled(SERVERS, "worker:1")
    run.trains(LONG_INTERVAL + 2 * SHORT_INTERVAL)
    run.exits("worker:1", signal=9)
    run.after(SETTLING + 5)
    run.trains((AGREEING - 1) * SHORT_INTERVAL)
    assert run.named() == []


def test_a_gang_that_restarts_begins_anew() -> None:
    """The peers' attempts, too, are not those that were compared."""
    run = settled(GANG, "worker:1")
    run.trains(SHORT_INTERVAL + 2)
    run.exits("worker:2", signal=9)
    run.after(10)
    run.trains(SETTLING - 5)
    assert run.named() == []
    run.trains(60)
    assert {attempt for _, attempt in run.named()} == {2}


def test_a_coordinators_steps_are_compared() -> None:
    """Only those of the coordinator's present attempt, and of workers that the job has."""
    run = settled(SERVERS)
    for _ in range(60):
        times = {task("worker:0"): ev.StepTimes(10, 1.0), task("worker:1"): ev.StepTimes(3, 1.5)}
        run.send(ev.StepsTimed(task("chief:0"), 2, dict(reversed(times.items()))))  # of an attempt that never was
        run.send(ev.StepsTimed(task("chief:0"), 1, {**times, task("worker:7"): ev.StepTimes(9, 99.0)}))
        run.trains(1)
    (said,) = run.decided(ev.Straggling)
    assert (said.task, said.slowness, said.factor) == (task("worker:1"), ev.Slowness.STEPS, 5.0)
    assert said.why == "takes 500 ms for a step (worker:0 100 ms)"
    run.trains(60)
    assert run.decided(ev.KeepsUp) == [], "no step is no sign that it keeps up"


def test_an_answer_that_never_comes_is_not_waited_for() -> None:
    """Its host is gone, and nobody noticed."""
    run = settled(GANG)
    steps = iter(range(1000, 2000))
    run.machine.handle(ev.Progressed(task("worker:0"), 1, next(steps)), run.now + 10)
    assert Inspect(ev.Look.PACE) in run.machine.handle(ev.Ticked(), run.now + 10 + LONG_INTERVAL)
    asked = []
    for at in range(26, 200):
        run.machine.handle(ev.Progressed(task("worker:0"), 1, next(steps)), run.now + at)
        asked += run.machine.handle(ev.Ticked(), run.now + at)
    assert asked.count(Inspect(ev.Look.PACE)) == 2


def test_hostile_figures_change_nothing() -> None:
    """Of tasks that are not there, of other attempts, without samples, and a look that nobody asked for."""
    run = settled(GANG)
    odd = ev.Pace(0, 5, -3, -1.0, float("inf"), -2.0)
    seen = ev.Vitals(1, False, "S", pace=odd)
    for _ in range(50):
        run.send(ev.Inspected({task("worker:9"): seen, task("worker:1"): seen}, ev.Look.PACE))
        run.progresses("worker:0", 500 + _)
        run.vitals = {"worker:1": ev.Vitals(1, False, "T", pace=odd), "worker:2": ev.Vitals(1, False, "S")}
        run.after(3)
    assert run.named() == []
