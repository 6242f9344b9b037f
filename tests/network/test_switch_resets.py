"""Resets: which connections are ended, how often their ends are probed, and when a reset is over."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest

from clusterkit.network.switch import resets as module
from clusterkit.network.switch.directions import Directions
from clusterkit.network.switch.resets import ACK, PROBES, SYN, Resets, TcpSegment, probe, replies, reverse

NAMESPACES = [100, 101, 102]


class World:
    """Three hosts: the connections that each kernel lists, the packets sent to them, and a manual clock."""

    def __init__(self) -> None:
        self.directions = Directions([0, 0, 0], list("abc"), [f"10.77.0.{n}" for n in (1, 2, 3)], 7, captured=False)
        self.lists: dict[int, set[bytes]] = {namespace: set() for namespace in NAMESPACES}
        self.entered: list[int] = []
        self.sent: list[bytes] = []
        self.timers: list[tuple[float, int, Callable[[float], None]]] = []
        self.resets = Resets(NAMESPACES, self.directions, self.sent.append, self.later)

    def later(self, at: float, function: Callable[[float], None]) -> None:
        """Store a timer."""
        heapq.heappush(self.timers, (at, len(self.timers), function))

    def flow(self, a: int, b: int, port: int = 1) -> bytes:
        """From one host's port to port 2222 of the other."""
        return self.directions.addresses[a] + self.directions.addresses[b] + port.to_bytes(2) + (2222).to_bytes(2)

    def connects(self, a: int, b: int, port: int = 1) -> bytes:
        """Add a connection: each kernel lists its own end."""
        flow = self.flow(a, b, port)
        self.lists[NAMESPACES[b]].add(flow)
        self.lists[NAMESPACES[a]].add(reverse(flow))
        return flow

    def listed(self) -> set[bytes]:
        """The connections in the namespace that the switch entered last."""
        return self.lists[self.entered[-1]]

    def next(self) -> list[bytes]:
        """Advance the clock to the next timer; return the packets sent then."""
        self.sent.clear()
        at, _, function = heapq.heappop(self.timers)
        function(at)
        return self.sent


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world without connections."""
    made = World()
    monkeypatch.setattr(module, "enter", made.entered.append)
    monkeypatch.setattr(module, "local_flows", made.listed)
    return made


def probes(*flows: bytes) -> list[bytes]:
    """The probes to both ends of each connection, in any order."""
    return sorted(probe(both) for flow in flows for both in (flow, reverse(flow)))


def test_both_ends_of_every_connection_between_two_hosts_are_probed(world: World) -> None:
    """Whichever end opened it; other connections are left alone."""
    flows = [world.connects(0, 1, 1), world.connects(0, 1, 2), world.connects(1, 0, 3)]
    world.connects(0, 2, 4)
    world.connects(2, 1, 5)
    assert world.resets.begin([(1, 0), (0, 1)]) == 3
    assert sorted(world.sent) == probes(*flows)
    assert world.directions.of(0, 1).flows_to_reset == {both for flow in flows for both in (flow, reverse(flow))}
    assert not world.directions.of(0, 2).flows_to_reset


def test_a_connection_is_reset_once(world: World) -> None:
    """The second time it does not count, though the kernel may still list it."""
    world.connects(0, 1)
    assert world.resets.begin([(0, 1)]) == 1
    assert world.resets.begin([(0, 1)]) == 0
    assert len(world.timers) == 1


def test_without_connections_nothing_happens(world: World) -> None:
    """No probe, no timer."""
    assert world.resets.begin([(0, 1)]) == 0
    assert not world.sent
    assert not world.timers


def test_the_host_in_most_pairs_lists_the_connections(world: World) -> None:
    """Since listing a host's connections takes time."""
    for other in (0, 2):
        world.connects(1, other)
    assert world.resets.begin([(1, 0), (1, 2)]) == 2
    assert world.entered == [NAMESPACES[1]]


def test_ends_are_probed_again_until_the_reset_is_over(world: World) -> None:
    """Then the pair's packets need not pass the switch any longer."""
    flow = world.connects(0, 1)
    world.resets.begin([(0, 1)])
    for _ in range(PROBES - 2):
        assert sorted(world.next()) == probes(flow)
        assert not world.directions.of(1, 0).is_clear
    assert sorted(world.next()) == probes(flow)
    assert world.next() == []
    assert world.directions.of(0, 1).is_clear
    assert world.directions.of(1, 0).is_clear
    assert world.timers == []


def test_reused_ports_are_not_probed(world: World) -> None:
    """The new connection is not reset."""
    old, new = world.connects(0, 1, 1), world.connects(0, 1, 2)
    world.resets.begin([(0, 1)])
    doomed = world.directions.of(0, 1).flows_to_reset
    assert replies(TcpSegment(new, SYN, bytes(4)), doomed) is None
    assert sorted(world.next()) == probes(old)
    assert replies(TcpSegment(new, ACK, bytes(4)), doomed) is None
