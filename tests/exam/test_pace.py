"""How long runs take, when a first run has shown enough, and how many fit side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from clusterkit.chaos.model import Baseline
from clusterkit.exam.pace import (
    FirstRun,
    StepPace,
    about,
    announcement,
    cells_within,
    pace_of,
    recorded_end,
    runs_at_once,
    shortened,
)
from clusterkit.words.events import Checkpointed, Event, Progressed, Spawned
from clusterkit.words.model import Task, TaskType

TASK = Task(TaskType.WORKER, 0)


def steps(seconds: float, count: int, first: float = 4.0, total: int | None = None) -> list[tuple[float, Event]]:
    """Reports of steps, each so many seconds after the one before it."""
    return [
        (first + seconds * number, Progressed(TASK, 1, number + 1, {"loss": 1.0 / (number + 1)}, total))
        for number in range(count)
    ]


def test_the_pace_is_measured_between_the_first_step_and_the_last() -> None:
    """The start until the first step is another matter."""
    events: list[tuple[float, Event]] = [(1.0, Spawned(TASK, 1)), *steps(0.5, 9)]
    assert pace_of(events) == StepPace(startup=3.0, step=0.5)
    assert pace_of(events).seconds(10, attempts=2) == 1.0 + 2 * 3.0 + 10 * 0.5


@pytest.mark.parametrize("count", [0, 1])
def test_a_program_with_one_step_or_none_has_a_pace(count: int) -> None:
    """Nothing is divided by nothing."""
    assert pace_of([(1.0, Spawned(TASK, 1)), *steps(0.5, count)]).step == 0.0


@pytest.mark.parametrize(
    ("seconds", "count", "total", "saved", "enough"),
    [
        (3.0, 8, 320, 5, True),  # 16 minutes: after the first checkpoint and three steps, there is nothing to wait for
        (3.0, 7, 320, 5, False),  # one step later
        (3.0, 10, 320, None, False),  # there may be a checkpoint yet
        (3.0, 23, 320, None, True),  # there was none in twice the time
        (3.0, 8, 10, 5, False),  # it ends soon
        (3.0, 15, 16, 5, False),  # it has taken long, but is nearly done
        (3.0, 16, 16, 5, False),
        (3.0, 12, 24, 5, True),
        (3.0, 8, None, 5, False),  # nobody knows when it ends
        (3.0, 12, None, 5, True),
        (0.01, 300, 320, 5, False),
        (60.0, 2, 320, None, False),  # two steps say too little, however long they take
        (60.0, 4, 320, 1, True),
        (3.0, 8, 320, 0, False),  # the checkpoint of step 0 holds nothing that was learned
    ],
)
def test_a_first_run_that_takes_too_long_is_ended_when_it_has_shown_enough(
    seconds: float, count: int, total: int | None, saved: int | None, enough: bool
) -> None:
    """It may train for 30 s."""
    first = FirstRun(30.0)
    for at, event in steps(seconds, count, total=total):
        first.add(at, event)
    if saved is not None:
        first.add(5.0, Checkpointed(TASK, 1, saved, "ckpt"))
    assert first.is_enough() is enough


def test_before_the_first_step_nothing_is_enough() -> None:
    """An import may take long."""
    assert not FirstRun(30.0).is_enough()


def test_the_baseline_of_a_shorter_run_is_what_the_long_one_had_there() -> None:
    """Its step, its checkpoints and its metrics."""
    baseline = Baseline(9.0, 20, (5, 10, 15), {"loss": 0.05})
    short = shortened(baseline, steps(0.1, 20), 10)
    assert (short.last_step, short.checkpoints, short.metrics) == (10, (5, 10), {"loss": 0.1})


@pytest.mark.parametrize(
    ("point", "last", "step", "end"),
    [
        (50, 320, 0.01, 55),
        (54, 320, 0.01, 89),  # step 55 would show one step, and that of the continuation itself
        (50, 90, 0.01, None),  # 0.35 s are not worth it
        (50, 90, 1.0, 55),
        (300, 320, 1.0, None),
        (50, None, 1.0, None),
    ],
)
def test_a_run_is_ended_early_at_a_recorded_step_if_that_saves_time(
    point: int, last: int | None, step: float, end: int | None
) -> None:
    """Otherwise the program ends as it does."""
    assert recorded_end(point, (0, 1, 21, 55, 89, 144), last, StepPace(step=step)) == end


@pytest.mark.parametrize(
    ("cores", "gigabytes", "used_cores", "used_gigabytes", "runs"),
    [
        (2, 16, 0.9, 1.0, 2),
        (2, 16, 2.0, 1.0, 1),  # it keeps both cores busy by itself
        (2, 16, 0.1, 1.0, 2),  # never more than cores
        (8, 16, 1.0, 1.0, 8),
        (8, 16, 1.0, 4.0, 2),
        (8, 2, 1.0, 4.0, 1),
        (1, 16, 0.9, 1.0, 1),
        (8, math.inf, 2.0, 0.0, 5),
    ],
)
def test_as_many_runs_as_cores_and_memory_allow(
    cores: int, gigabytes: float, used_cores: float, used_gigabytes: float, runs: int
) -> None:
    """At least one, whatever was measured."""
    assert runs_at_once(cores, gigabytes * 1e9, used_cores, used_gigabytes * 1e9) == runs


@pytest.mark.parametrize(
    ("step", "costs", "left", "slots", "last", "text"),
    [
        (0.012, (20.0,) * 12, 240.0, 2, None, "A step takes 12 ms: 12 cells in about 2 min, 2 runs at a time."),
        (3.0, (60.0,) * 4, 240.0, 1, None, "A step takes 3.0 s: 4 cells in about 4 min."),
        (3.0, (60.0,) * 8, 240.0, 1, 8,
         "A step takes 3.0 s, and runs end after step 8: about 4 of 8 cells in 4 min."),
        (0.5, (10.0,), math.inf, 1, None, "A step takes 500 ms: 1 cell in about 10 s."),
    ],
)  # fmt: skip
def test_what_will_be_examined_is_said_before(
    step: float, costs: Sequence[float], left: float, slots: int, last: int | None, text: str
) -> None:
    """With the pace of the program, and how much fits into the time."""
    assert announcement(StepPace(step=step), costs, [1] * len(costs), left, slots, last) == text


def test_cells_that_begin_within_the_time_are_counted() -> None:
    """With all that their experiment serves."""
    assert cells_within([10.0, 10.0, 10.0], [1, 2, 4], 15.0, 1) == 3
    assert cells_within([10.0, 10.0, 10.0], [1, 2, 4], 15.0, 2) == 7
    assert cells_within([], [], 15.0, 2) == 0


@pytest.mark.parametrize(("seconds", "text"), [(1, "5 s"), (43, "45 s"), (58, "1 min"), (200, "3 min")])
def test_estimates_are_round(seconds: float, text: str) -> None:
    """They are no better than that."""
    assert about(seconds) == text
