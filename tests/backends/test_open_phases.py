"""Phases that a task begins and never ends: their number has a bound; those of ordinary programs are all passed on."""

from __future__ import annotations

import random

from clusterkit.backends.local.open_phases import MOST, OpenPhases
from clusterkit.words.events import PhaseChanged
from clusterkit.words.model import Task

TASK = Task.parse("worker:0")


def test_phases_that_end_are_passed_on() -> None:
    """However many there are in a run; also one that begins twice."""
    phases = OpenPhases()
    for number in range(10 * MOST):
        for begun in (True, True, False):
            assert phases.admits(PhaseChanged(TASK, 1, f"p{number}", begun))


def test_phases_without_end_have_a_bound() -> None:
    """What is not passed on has no end either. The next attempt begins anew."""
    phases = OpenPhases()
    begun = [phases.admits(PhaseChanged(TASK, 1, f"p{number}", True)) for number in range(1000)]
    assert begun == [True] * MOST + [False] * (1000 - MOST)
    assert not phases.admits(PhaseChanged(TASK, 1, "p999", False))
    assert phases.admits(PhaseChanged(TASK, 1, "p0", False))
    assert phases.admits(PhaseChanged(TASK, 1, "p999", True))
    assert phases.admits(PhaseChanged(TASK, 2, "other", True))


def test_whoever_follows_keeps_as_few() -> None:
    """A reader that adds and removes what is passed on never has more than the bound."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    phases, kept, attempt = OpenPhases(), set[str](), 1
    for _ in range(20_000):
        if chance.random() < 0.0005:
            attempt, kept = attempt + 1, set()
        event = PhaseChanged(TASK, attempt, f"p{chance.randrange(300)}", chance.random() < 0.7)
        if phases.admits(event):
            kept = kept | {event.phase} if event.begun else kept - {event.phase}
        assert len(kept) <= MOST
