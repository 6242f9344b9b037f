"""Which task is slower than its peers, as tables of what several looks showed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from clusterkit.machine.monitors.pace_comparison import Observation, Peers, compare, slow_tasks
from clusterkit.machine.monitors.stragglers import AGREEING, peers_of
from clusterkit.words.events import Pace, Slowness, StepTimes
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from tests.histories import job, task

GANG, SERVERS = peers_of(job(workers=3)), peers_of(job(workers=3, ps=2))
SECONDS, SAMPLES = 4.0, 16
# What a look shows of a task: in how many of 16 samples it was stopped and busy, seconds of CPU and of waiting for it.
Seen = tuple[int, int, float, float]
WORKS, WAITS, HALF = (0, 16, 3.5, 0.3), (0, 3, 0.6, 0.1), (0, 8, 1.8, 0.2)
SLOWED, SLIGHTLY, STARVED, CROWDED = (12, 4, 0.7, 0.1), (2, 12, 2.0, 0.2), (0, 15, 0.2, 3.4), (0, 14, 0.6, 9.0)


def sight(seen: Mapping[str, Seen], steps: Mapping[str, tuple[int, float]] | None = None) -> Observation:
    """One look at tasks."""
    paces = {
        task(name): Pace(SAMPLES, stopped, busy, SECONDS, cpu, delayed)
        for name, (stopped, busy, cpu, delayed) in seen.items()
    }
    return Observation(0.0, paces, {task(name): StepTimes(*times) for name, times in (steps or {}).items()})


def trio(*seen: Seen) -> dict[str, Seen]:
    """Three workers."""
    return {f"worker:{index}": one for index, one in enumerate(seen)}


def named(sights: Sequence[Observation], peers: Peers) -> dict[str, Slowness]:
    """Who is slower, and why."""
    return {str(one): finding.slowness for one, finding in slow_tasks(sights, peers).items()}


@pytest.mark.parametrize(
    ("seen", "who"),
    [
        (trio(WAITS, SLOWED, WAITS), {"worker:1": Slowness.STOPPED}),
        (trio(WAITS, WORKS, WAITS), {"worker:1": Slowness.BUSY}),
        (trio(HALF, WORKS, HALF), {"worker:1": Slowness.BUSY}),
        (trio(WAITS, STARVED, WORKS), {"worker:1": Slowness.STARVED}),
        (trio(WORKS, SLOWED, SLOWED), {"worker:1": Slowness.STOPPED, "worker:2": Slowness.STOPPED}),
        (trio(WAITS, WAITS, WAITS), {}),
        (trio(WORKS, WORKS, WORKS), {}),
        (trio(SLOWED, SLOWED, SLOWED), {}),  # all are slow
        (trio(CROWDED, CROWDED, CROWDED), {}),  # the machine is overloaded
        (trio(WORKS, WORKS, WAITS), {}),  # one is faster
        (trio(STARVED, STARVED, WORKS), {}),
        (trio(WORKS, SLIGHTLY, WORKS), {}),  # stopped for an eighth of the time
        ({"worker:0": WAITS, "worker:1": SLOWED}, {"worker:1": Slowness.STOPPED}),
        ({"worker:0": WAITS, "worker:1": WORKS}, {"worker:1": Slowness.BUSY}),
        ({"worker:1": SLOWED}, {}),  # its peers were not seen
        ({}, {}),
    ],
)
def test_who_is_slower_in_a_gang(seen: dict[str, Seen], who: dict[str, Slowness]) -> None:
    """What is stopped, starved or works, while its peers are not, starved less, or wait; nobody where all are alike."""
    assert named([sight(seen)] * AGREEING, GANG) == who


@pytest.mark.parametrize(
    ("seen", "steps", "who"),
    [
        ({}, {"worker:0": (20, 2.0), "worker:1": (4, 2.0), "worker:2": (19, 2.0)}, {"worker:1": Slowness.STEPS}),
        ({}, {"worker:0": (20, 2.0), "worker:1": (15, 2.0), "worker:2": (19, 2.0)}, {}),
        ({}, {"worker:0": (4, 2.0), "worker:1": (4, 2.0), "worker:2": (4, 2.0)}, {}),
        ({}, {"worker:0": (20, 2.0), "worker:1": (4, 2.0)}, {"worker:1": Slowness.STEPS}),
        ({}, {"worker:1": (4, 2.0)}, {}),
        ({}, {"worker:0": (20, 0.0), "worker:1": (4, 0.0)}, {}),
        (trio(WORKS, SLOWED, WORKS), {"worker:0": (20, 2.0), "worker:1": (4, 2.0)}, {"worker:1": Slowness.STOPPED}),
        (trio(WORKS, WAITS, WAITS), {"worker:0": (20, 2.0), "worker:1": (20, 2.0)}, {}),  # no gang: it waits for nobody
        ({"ps:0": WORKS, "ps:1": WAITS, "chief:0": WAITS, **trio(HALF, HALF, HALF)}, {}, {}),  # uneven shards
        ({"ps:0": SLOWED, "ps:1": WAITS, "chief:0": WAITS}, {}, {"ps:0": Slowness.STOPPED}),
        ({"ps:0": WAITS, "chief:0": SLOWED, **trio(HALF, HALF, HALF)}, {}, {"chief:0": Slowness.STOPPED}),
    ],
)
def test_who_is_slower_on_parameter_servers(
    seen: dict[str, Seen], steps: dict[str, tuple[int, float]], who: dict[str, Slowness]
) -> None:
    """A worker whose steps take longer; and whatever is stopped. What works more than its peers is not slower."""
    assert named([sight(seen, steps)] * AGREEING, SERVERS) == who


def test_a_straggler_is_named_with_what_was_measured() -> None:
    """The figure of its peers is beside its own."""
    stopped = slow_tasks([sight(trio(WAITS, SLOWED, WAITS))] * AGREEING, GANG)[task("worker:1")]
    timed = [sight({}, {"worker:0": (20, 2.0), "worker:1": (2, 2.5)})] * AGREEING
    steps = slow_tasks(timed, SERVERS)[task("worker:1")]
    assert (stopped.factor, stopped.why) == (4.0, "is stopped 75 % of the time (worker:0 and worker:2 0 %)")
    assert (steps.factor, steps.why) == (12.5, "takes 1.2 s for a step (worker:0 100 ms)")
    many = peers_of(job(workers=9))
    seen = {f"worker:{index}": WORKS if index == 4 else WAITS for index in range(9)}
    busy = slow_tasks([sight(seen)] * AGREEING, many)[task("worker:4")]
    assert busy.why == "works 100 % of the time (the 8 others 19 %)"


@pytest.mark.parametrize("peers", [GANG, SERVERS], ids=["gang", "parameter servers"])
@pytest.mark.parametrize("odd", range(AGREEING))
def test_a_single_look_names_nobody(peers: Peers, odd: int) -> None:
    """A moment's disturbance, however large, is not persistent."""
    usual = sight(trio(WAITS, WAITS, WAITS), {f"worker:{index}": (20, 2.0) for index in range(3)})
    disturbed = sight(trio(WAITS, (16, 0, 0.0, 0.0), WAITS), {"worker:0": (20, 2.0), "worker:1": (3, 30.0)})
    assert named([disturbed if at == odd else usual for at in range(AGREEING)], peers) == {}


def test_a_task_that_was_not_always_seen_is_not_compared() -> None:
    """It has restarted, or could not be read."""
    slow = sight(trio(WAITS, SLOWED, WAITS))
    assert named([slow, slow, sight({"worker:0": WAITS, "worker:2": WAITS}), slow, slow], GANG) == {}


def test_a_task_without_samples_is_not_compared() -> None:
    """The look ended before the first."""
    empty = Observation(0.0, {task(f"worker:{index}"): Pace(0, 0, 0, 0.0, 0.0, 0.0) for index in range(3)}, {})
    assert named([empty] * AGREEING, GANG) == {}
    assert compare([empty], GANG, Slowness.STOPPED).finding(task("worker:1")) is None


@pytest.mark.parametrize("alone", [job(workers=1), job(chief=1), job(workers=1, evaluator=1)])
def test_a_task_alone_has_no_peers(alone: JobSpec) -> None:
    """The evaluator is none: it does something else."""
    assert peers_of(alone).tasks == ()


def test_the_evaluator_is_no_peer() -> None:
    """It may be stopped, starved or busy."""
    for spec in (job(workers=2, evaluator=1), job(workers=2, ps=1, evaluator=1)):
        assert task("evaluator:0") not in {*peers_of(spec).tasks, *peers_of(spec).equal_workers}


def noisy(rng: random.Random, tasks: Sequence[Task], load: float, spread: float) -> Observation:
    """A look at tasks that are alike, each of which is busy for a share of the time that varies from look to look."""
    seen, steps = {}, {}
    for one in tasks:
        share = min(1.0, max(0.0, load + rng.uniform(-spread, spread)))
        busy = sum(rng.random() < share for _ in range(SAMPLES))
        cpu = SECONDS * share * rng.uniform(0.7, 1.3)
        seen[str(one)] = (0, busy, cpu, cpu * rng.uniform(2.0, 4.0))
        steps[str(one)] = (rng.randint(5, 20), 0.0)
    times = {name: (count, count * 0.1 * rng.uniform(0.8, 1.25)) for name, (count, _) in steps.items()}
    return sight(seen, times)


@settings(max_examples=40, deadline=None)
@seed(15)
@given(
    number=st.integers(0, 10**6),
    workers=st.integers(2, 6),
    load=st.floats(0, 1),
    gang=st.booleans(),
)
def test_equal_peers_name_nobody_however_noisy(number: int, workers: int, load: float, gang: bool) -> None:
    """Over forty looks, as in three minutes of a run."""
    rng = random.Random(number)
    spec = job(workers=workers) if gang else job(workers=workers, ps=1)
    tasks = [task(f"worker:{index}") for index in range(workers)]
    sights = [noisy(rng, tasks, load, 0.15) for _ in range(40)]
    for at in range(len(sights) - AGREEING):
        assert named(sights[at : at + AGREEING], peers_of(spec)) == {}


@settings(max_examples=40, deadline=None)
@seed(15)
@given(number=st.integers(0, 10**6), workers=st.integers(2, 6), share=st.floats(0.1, 0.5))
def test_one_that_is_slowed_is_named_and_nobody_else(number: int, workers: int, share: float) -> None:
    """Its peers are noisy, and it is stopped whenever its share of the time is over."""
    rng = random.Random(number)
    tasks = [task(f"worker:{index}") for index in range(workers)]
    slow, sights = rng.choice(tasks), []
    for _ in range(AGREEING):
        seen = noisy(rng, tasks, share, 0.15)
        stopped = sum(rng.random() > share for _ in range(SAMPLES))
        pace = Pace(SAMPLES, stopped, SAMPLES - stopped, SECONDS, share * SECONDS, 2.0)
        sights.append(Observation(0.0, {**seen.paces, slow: pace}, seen.steps))
    assert named(sights, peers_of(job(workers=workers))) == {str(slow): Slowness.STOPPED}
