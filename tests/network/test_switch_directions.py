"""Ways: which packets need no inspection, and which bypass the switch."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from clusterkit.network.switch.devices import Detours, Pair
from clusterkit.network.switch.directions import Direction, Directions
from clusterkit.network.switch.links import Layer
from clusterkit.network.switch.resets import forge

CUT, SLOW = Layer(cut=True), Layer(delay=5)


class RecordedDetours(Detours):
    """Detours that are only recorded."""

    def __init__(self) -> None:
        super().__init__([], [])
        self.calls: list[tuple[str, set[Pair]]] = []

    def make(self, pairs: Iterable[Pair]) -> None:
        self._note("make", set(pairs))

    def end(self, pairs: Iterable[Pair]) -> None:
        self._note("end", set(pairs))

    def _note(self, what: str, pairs: set[Pair]) -> None:
        self.calls += [(what, pairs)] if pairs else []


@pytest.fixture
def told() -> RecordedDetours:
    """The detours that the directions have requested."""
    return RecordedDetours()


@pytest.fixture
def directions(told: RecordedDetours) -> Directions:
    """Ways between three hosts."""
    made = three()
    made.detours = told
    return made


def three(captured: bool = False) -> Directions:
    """Ways between hosts whose devices are 100, 101 and 102."""
    return Directions([100, 101, 102], list("abc"), [f"10.77.0.{n}" for n in (1, 2, 3)], 7, captured=captured)


def impair(directions: Directions, pairs: list[Pair], layer: Layer = CUT, number: int = 1) -> list[Direction]:
    """Put a layer on both directions of each pair."""
    changed = directions.both_directions(pairs)
    for direction in changed:
        direction.link.impair(number, layer, 0)
    directions.update_routes(changed)
    return changed


def heal(directions: Directions, changed: Iterable[Direction], number: int = 1) -> None:
    """Remove the layer."""
    for direction in changed:
        direction.link.heal(number, 0)
    directions.update_routes(changed)


def test_impaired_pairs_have_a_detour_until_they_are_healed(directions: Directions, told: RecordedDetours) -> None:
    """All of them at once, each once; other pairs are left alone."""
    changed = impair(directions, [(0, 1), (1, 0), (2, 1)])
    assert told.calls == [("make", {(0, 1), (1, 2)})]
    heal(directions, changed)
    assert told.calls[1:] == [("end", {(0, 1), (1, 2)})]


def test_a_detour_lasts_as_long_as_anything_impairs_the_pair(directions: Directions, told: RecordedDetours) -> None:
    """It is made once."""
    changed = impair(directions, [(0, 1)], number=1)
    impair(directions, [(0, 1)], number=2)
    heal(directions, changed, number=1)
    assert told.calls == [("make", {(0, 1)})]
    heal(directions, changed, number=2)
    assert told.calls[1:] == [("end", {(0, 1)})]


def test_a_detour_lasts_until_nothing_waits_in_either_direction(directions: Directions, told: RecordedDetours) -> None:
    """Else later packets would overtake delayed ones."""
    there, back = impair(directions, [(0, 1)], SLOW)
    there.link.accept(bytes(100), 1)
    there.link.impair(1, Layer(), 1)
    heal(directions, [back])
    assert [call[0] for call in told.calls] == ["make"]
    list(there.link.pop_due(10))
    heal(directions, [there])
    assert [call[0] for call in told.calls] == ["make", "end"]


def test_a_pair_with_connections_that_are_reset_has_a_detour(directions: Directions, told: RecordedDetours) -> None:
    """Both directions share the flows, whichever was created first."""
    there, back = directions.of(0, 1), directions.of(1, 0)
    there.flows_to_reset.add(b"flow")
    directions.update_routes([back])
    assert told.calls == [("make", {(0, 1)})]
    back.flows_to_reset.clear()
    directions.update_routes([there])
    assert told.calls[1:] == [("end", {(0, 1)})]


def test_packets_of_clear_directions_need_no_inspection(directions: Directions) -> None:
    """The source's table has the devices at the end of clear directions, and of no impaired one."""
    changed = impair(directions, [(0, 1)])
    directions.update_routes([directions.of(0, 2)])
    assert directions.clear == [{directions.addresses[2]: 102}, {}, {}]
    heal(directions, changed)
    assert [len(table) for table in directions.clear] == [2, 1, 0]


def test_all_captured_packets_are_inspected() -> None:
    """And without cables there are no detours."""
    directions = three(captured=True)
    heal(directions, impair(directions, [(0, 1)]))
    assert directions.clear == [{}, {}, {}]


def test_a_packet_is_for_another_host_or_for_none(directions: Directions) -> None:
    """By its destination; not if it is for its sender or an unknown address, or of another IP version."""
    a, b, c = directions.addresses
    packet = forge(a + c + bytes(4), 0)
    assert directions.direction_of(0, packet) is directions.of(0, 2)
    assert directions.of(0, 2).device == directions.device_of(c) == 102
    assert directions.direction_of(2, packet) is None
    assert directions.direction_of(0, forge(a + b"\n\x4d\t\t" + bytes(4), 0)) is None
    assert directions.direction_of(0, b"\x60" + packet[1:]) is None
    assert b != c
