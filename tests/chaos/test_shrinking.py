"""Shrinking: it comes to the planted culprits, asks nothing twice, and does not need many runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clusterkit.chaos.shrinking import Schedule, have_common, pinned, shrink
from clusterkit.words.events import FaultInjected
from clusterkit.words.faults import Fault, FaultAction
from clusterkit.words.model import Task, TaskType
from tests.histories import faults

A, B, C, D = faults("kill worker:0", "kill worker:1", "kill ps:0", "term chief:0")
CHIEF, WORKER = Task(TaskType.CHIEF, 0), Task(TaskType.WORKER, 1)


def played(start: Schedule, fails: Callable[[Schedule], bool], fell: Schedule = ()) -> tuple[Schedule, list[Schedule]]:
    """Answer each question by `fails`; what shrinking comes to, and what it asked."""
    search, asked = shrink(start, fell), list[Schedule]()
    try:
        candidate = next(search)
        while True:
            asked.append(candidate)
            candidate = search.send(fails(candidate))
    except StopIteration as over:
        best: Schedule = over.value
        return best, asked


@pytest.mark.parametrize("culprits", [{A}, {B}, {D}, {A, C}, {B, D}, {A, B, D}, {A, B, C, D}])
@pytest.mark.parametrize(
    "start", [(A, B, C, D), (D, C, B, A), (A, B, C, D, *faults(*(f"stop ps:{n} for=0.5s" for n in range(9))))]
)
def test_the_culprits_are_left(start: Schedule, culprits: set[Fault]) -> None:
    """Faults that only together do harm stay together, in their order."""
    best, asked = played(start, lambda left: culprits <= set(left))
    assert best == tuple(fault for fault in start if fault in culprits)
    assert len(asked) == len(set(asked)) <= 60
    assert start not in asked
    assert () not in asked


def test_one_fault_of_three_takes_few_runs() -> None:
    """Each run costs seconds."""
    best, asked = played((A, B, C), lambda left: C in left)
    assert best == (C,)
    assert len(asked) <= 4


@pytest.mark.parametrize(
    ("start", "best", "fails"),
    [
        ("stop ps:0 for=4s", "stop ps:0 for=0.5s", lambda fault: True),
        ("stop ps:0 for=4s", "stop ps:0 for=2s", lambda fault: (fault.seconds or 0) >= 2),
        ("kill ps:0 @ step=137", "kill ps:0 @ step=100", lambda fault: True),
        ("kill ps:0 @ step=137", "kill ps:0 @ step=130", lambda fault: fault.trigger.at >= 120),
        ("kill ps:0 @ step=137", "kill ps:0 @ step=137", lambda fault: fault.trigger.at > 130),
        ("kill ps:0 @ checkpoint=3", "kill ps:0 @ checkpoint", lambda fault: True),
        ("kill ps:0 @ 12.7s", "kill ps:0 @ 10s", lambda fault: True),
        ("kill ps:0,worker:1", "kill worker:1", lambda fault: "worker:1" in str(fault)),
        ("partition ps:0 | worker:0,worker:1 for=1s", "partition ps:0 | worker:0 for=0.5s", lambda fault: True),
    ],
)
def test_what_is_left_is_made_simple(start: str, best: str, fails: Callable[[Fault], bool]) -> None:
    """As short, as round and as narrow as it may be and still do harm."""
    assert played(faults(start), lambda left: fails(left[0]))[0] == faults(best)


def test_chance_is_taken_out_first() -> None:
    """The tasks as they were drawn tell faults apart; where that does no harm any more, the old words are kept."""
    start, fell = faults("kill any", "kill worker"), faults("kill worker:1", "kill worker:0")
    one, some = fell[1], start[1]
    assert played(start, lambda left: one in left, fell)[0] == (one,)
    assert played(start, lambda left: some in left, fell)[0] == (some,)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("chief:0 (attempt 2) continued from step 0: 50 steps lost.",
         "chief:0 (attempts 2, 3) continued from step 1: 1 step lost.", True),
        ("The final loss is 0.21.", "The final loss is 1.", True),
        ("The final loss is 0.21.", "The run left no result.", False),
    ],
)  # fmt: skip
def test_a_run_fails_alike_where_only_numbers_differ(one: str, other: str, same: bool) -> None:
    """One sentence in common is enough."""
    assert have_common(["Something else.", one], [other]) == same


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (FaultInjected(1, "kill any @ step=10", FaultAction.KILL, (WORKER,)), "kill worker:1 @ step=10"),
        (FaultInjected(1, "stop random(2) for=2s", FaultAction.STOP, (CHIEF, WORKER)), "stop chief:0,worker:1 for=2s"),
        (FaultInjected(1, "disk-full for=1s @ ready", FaultAction.DISK_FULL, ()), "disk-full for=1s @ ready"),
        (
            FaultInjected(1, "kill any @ every=5steps p=0.5", FaultAction.KILL, (CHIEF,), step=15),
            "kill chief:0 @ step=15",
        ),
        (FaultInjected(1, "partition chief", FaultAction.PARTITION, (CHIEF,), (WORKER,)), "partition chief:0"),
        (FaultInjected(1, "reset chief | any", FaultAction.RESET, (CHIEF,), (WORKER,)), "reset chief:0 | worker:1"),
    ],
)
def test_faults_are_pinned_to_what_they_hit(event: FaultInjected, text: str) -> None:
    """The tasks, and the moment where chance had a part in it."""
    assert pinned([event]) == faults(text)
