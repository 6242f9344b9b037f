"""Several rows of the tables one after the other, drawn at random: requests, timeouts, ends, suspensions."""

from __future__ import annotations

import secrets

import pytest

from tests.meetings.drawn import Drawn

ACTS = 30  # in each drawn run
RUNS = 150  # in each part of the test
SOAK = 12_000  # runs


def walk(seed: int) -> None:
    """Draw a run to its end. A failure names the seed and what was drawn."""
    drawn = Drawn(seed)
    try:
        for _ in range(ACTS):
            drawn.act()
            if drawn.run.over:
                if drawn.run.result.final:
                    break
                drawn.continue_run()
                drawn.check()
        drawn.finish()
    except Exception as error:
        story = "\n".join(drawn.done)
        raise AssertionError(f"seed {seed}: {error!r}\n{drawn.job}\n{story}") from error


@pytest.mark.parametrize("part", range(4))
def test_whatever_is_asked_for_in_any_order(part: int) -> None:
    """Each request is answered once, a pause is no stall, counts agree, every end has a reason, and nothing stays."""
    for seed in range(part * RUNS, (part + 1) * RUNS):
        walk(seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_more_of_them() -> None:
    """From seeds that nobody has seen."""
    first = secrets.randbits(40)
    print(f"seeds from {first}")
    for seed in range(first, first + SOAK):
        walk(seed)
