"""Where a step's time goes: only what was measured while steps were made, and nothing where that is too little."""

from __future__ import annotations

from collections.abc import Mapping

from clusterkit.store.usage import UsageSample
from clusterkit.views.step_use import StepUse, seconds_per_step, step_lines, step_use
from clusterkit.words import events as ev
from clusterkit.words.account import Goodput, Parts
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit
from tests.histories import task

FIRST, SECOND, PS = task("worker:0"), task("worker:1"), task("ps:0")
GOODPUT = Goodput(duration=20.0, share=0.5, parts=Parts(training=10.0), seen=True)
SPAWNED: list[tuple[float, ev.Event]] = [(100.0, ev.Spawned(FIRST, 1)), (100.0, ev.Spawned(SECOND, 1))]


def steps(since: int, until: int) -> list[tuple[float, ev.Event]]:
    """A hundred steps a second, reported once a second, beginning at step 0."""
    return [(float(at), ev.Progressed(FIRST, 1, 100 * (at - since))) for at in range(since, until + 1)]


def sample(at: float, uses: Mapping[Task, float], cores: int | None = 2, gpu: float = 0.0) -> UsageSample:
    """What tasks used since the sample before, in percent of a core."""
    return UsageSample(at, {one: (percent, 1) for one, percent in uses.items()}, {"0": (gpu, 1)} if gpu else {}, cores)


def said(use: StepUse | None) -> str:
    """The sentences, as one line."""
    return " ".join(" ".join(step_lines(use, 60)).split())


def test_tasks_that_use_every_core() -> None:
    """More workers have nowhere to run; a use outside of training, as of imports, does not count."""
    samples = [sample(at, {FIRST: 100.0 if at < 112 else 90.0, SECOND: 90.0}) for at in range(102, 124, 2)]
    use = step_use(GOODPUT, [*SPAWNED, *steps(110, 120)], samples)
    assert use == StepUse(0.01, 10.0, 2, 1.8, {FIRST: 0.9, SECOND: 0.9})
    assert said(use) == (
        "A step was made every 10 ms. The tasks used 1.8 of this machine's 2 cores: "
        "more workers on this machine can't be faster."
    )


def test_tasks_that_wait() -> None:
    """Each worker's share of a core; those that differ are named, and the parameter servers count with the rest."""
    low = {FIRST: 35.0, SECOND: 35.0}
    use = step_use(GOODPUT, [*SPAWNED, *steps(110, 120)], [sample(at, low, 8) for at in range(110, 122, 2)])
    assert said(use).endswith(
        "The tasks used 0.7 of this machine's 8 cores. Each worker used 35% of a core: "
        "most of a step is waiting, for input, other tasks or other programs."
    )
    uneven = {FIRST: 10.0, SECOND: 70.0, PS: 20.0}
    use = step_use(GOODPUT, [*SPAWNED, *steps(110, 120)], [sample(at, uneven, 8) for at in range(110, 122, 2)])
    assert "The tasks used 1.0 of this machine's 8 cores. Of a core, worker:0 10% and worker:1 70% was used." in said(
        use
    )


def test_one_worker_with_a_gpu_on_an_unknown_machine() -> None:
    """Nothing is said of cores, and a GPU may be what the worker waits for."""
    events = [(100.0, ev.Spawned(FIRST, 1)), *steps(110, 120)]
    use = step_use(GOODPUT, events, [sample(at, {FIRST: 20.0}, None, 80.0) for at in range(110, 122, 2)])
    assert said(use) == (
        "A step was made every 10 ms. The worker used 20% of a core: "
        "most of a step is waiting, for input, a GPU or other programs."
    )


def test_what_is_no_training_is_left_out() -> None:
    """A task that comes or goes, and time without a step; a task that is not sampled runs elsewhere."""
    both = {FIRST: 50.0, SECOND: 50.0}
    samples = [sample(at, both) for at in range(110, 132, 2)]
    events = [*SPAWNED, *steps(110, 130)]
    assert step_use(GOODPUT, events, samples).measured == 20.0  # type: ignore[union-attr]
    gone: list[tuple[float, ev.Event]] = [(115.0, ev.Exited(SECOND, 1, Exit(1)))]
    assert step_use(GOODPUT, events + gone, samples).measured == 18.0  # type: ignore[union-attr]
    paused = [(at, event) for at, event in events if not 113 <= at <= 119]
    assert step_use(GOODPUT, paused, samples).measured == 14.0  # type: ignore[union-attr]
    assert step_use(GOODPUT, events, [sample(at, {FIRST: 50.0}) for at in range(110, 132, 2)]) is None


def test_nothing_is_said_of_too_little() -> None:
    """Without samples, without steps, or with a training shorter than two samples."""
    events, samples = [*SPAWNED, *steps(110, 120)], [sample(at, {FIRST: 1.0, SECOND: 1.0}) for at in (110, 112, 113)]
    assert step_use(GOODPUT, events, []) is None
    assert step_use(GOODPUT, SPAWNED, samples) is None
    assert step_use(None, events, samples) is None
    assert step_use(GOODPUT, events, samples) is None
    assert step_lines(None) == []
    assert seconds_per_step(GOODPUT, events) == 0.01
