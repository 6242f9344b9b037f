"""The lease: an agent has given up before its supervisor counts it lost, whatever the network does to them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterkit.backends.link.session import MARGIN
from tests.backends.link.world import Side, World

TIMEOUT = 30.0
SIDES: tuple[Side, Side] = ("agent", "supervisor")
seeds = st.integers(0, 2**32)


def world_with_messages(seed: int, slowest: Mapping[Side, float], lives: Sequence[float], until: float) -> World:
    """A world in which both sides send now and then, with the longest delays and the lives of connections given."""
    draw = random.Random(seed)
    world = World(draw, TIMEOUT, lambda side: draw.uniform(0, slowest[side]), lambda: draw.choice(lives))
    for side in SIDES:
        for _ in range(20):
            world.send_at(draw.uniform(0, until), side)
    return world


@pytest.mark.slow
@settings(max_examples=200)
@given(
    seed=seeds,
    slowest=st.fixed_dictionaries({side: st.sampled_from([0.01, 5.0, 20.0, 60.0]) for side in SIDES}),
    lives=st.lists(st.sampled_from([1000.0, 40.0, 5.0, 0.5]), min_size=1, max_size=3),
    dark=st.tuples(st.floats(0, 200), st.floats(0, 60)),
)
def test_the_agent_gives_up_first(
    seed: int, slowest: dict[Side, float], lives: list[float], dark: tuple[float, float]
) -> None:
    """By the margin at least; and whatever was delivered until then was in order, each message once.

    In the end nothing reaches the supervisor any more, and later nothing reaches the agent.
    """
    world = world_with_messages(seed, slowest, lives, 200.0)
    world.dark = {"supervisor": dark[0], "agent": sum(dark)}
    world.run(300.0)
    if "supervisor" in world.ended:
        assert world.ended["agent"] <= world.ended["supervisor"] - MARGIN
    assert "agent" in world.ended
    for sender, receiver in (SIDES, SIDES[::-1]):
        assert world.got[receiver] == list(range(1, len(world.got[receiver]) + 1))
        assert len(world.got[receiver]) <= world.put[sender]


@settings(max_examples=50)
@given(seed=seeds, lives=st.lists(st.sampled_from([2.0, 7.0, 1000.0]), min_size=1, max_size=3))
def test_short_cuts_lose_nothing(seed: int, lives: list[float]) -> None:
    """Where a connection comes back in time, nobody gives up, and everything arrives."""
    world = world_with_messages(seed, {"agent": 0.2, "supervisor": 0.2}, lives, 100.0)
    world.run(150.0)
    assert world.ended == {}
    for sender, receiver in (SIDES, SIDES[::-1]):
        assert world.put[sender] >= 18  # the supervisor can't send before there is a session
        assert world.got[receiver] == list(range(1, world.put[sender] + 1))
