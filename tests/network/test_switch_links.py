"""Links: the effect of layers on packets, with the time as an argument."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from clusterkit.network.switch import links as module
from clusterkit.network.switch.links import BACKLOG, BURST, Layer, NetworkLink


def link(*layers: Layer, seed: int = 1, name: str = "a") -> NetworkLink:
    """A link with these layers, numbered from 0."""
    made = NetworkLink(seed, name, "b")
    for number, layer in enumerate(layers):
        made.impair(number, layer, 0)
    return made


def times(on: NetworkLink, packets: Sequence[tuple[float, int]]) -> list[float | None]:
    """When packets that arrive at these times, with these sizes, leave; None for lost ones."""
    found: list[float | None] = []
    for number, (now, size) in enumerate(packets):
        taken = on.accept(number.to_bytes(2) * (size // 2), now)
        found.append(on._waiting[-1][0] if taken else None)
    return found


def test_a_link_without_layers_lets_everything_through_at_once() -> None:
    """And is clear."""
    plain = link()
    assert plain.is_clear
    assert plain.accept(b"packet", 5)
    assert list(plain.pop_due(5)) == [b"packet"]
    assert plain.is_clear


@pytest.mark.parametrize(
    ("layers", "leaves"),
    [
        ([Layer(delay=0.02)], 1.02),
        ([Layer(delay=0.02), Layer(delay=0.5)], 1.52),
        ([Layer(delay=0.02), Layer(cut=True)], None),
        ([Layer(loss=1.0)], None),
        ([Layer(loss=0.0, rate=1e9)], 1.0),
        ([Layer()], 1.0),
    ],
)
def test_layers_combine(layers: list[Layer], leaves: float | None) -> None:
    """Delays add up; one cut is enough."""
    assert times(link(*layers), [(1.0, 100)]) == [pytest.approx(leaves)]


def test_losses_combine_independently() -> None:
    """Two losses of a half let a quarter through."""
    both = link(Layer(loss=0.5), Layer(loss=0.5))
    assert sum(both.accept(b"packet", 0) for _ in range(10_000)) == pytest.approx(2500, abs=150)


def test_chance_is_one_number_per_packet_from_the_seed() -> None:
    """It depends on the seed, the layer and the direction, and not on other layers."""
    expected = random.Random("1/0/a>b")
    lossy = link(Layer(loss=0.3, jitter=0.001, delay=0.01))
    fates = [lossy.accept(b"packet", n) for n in range(200)]
    assert fates == [expected.random() >= 0.3 for _ in range(200)]

    cut_meanwhile = link(Layer(loss=0.3))
    for n in range(200):
        if n == 50:
            cut_meanwhile.impair(7, Layer(cut=True), n)
        if n == 100:
            cut_meanwhile.heal(7, n)
        assert cut_meanwhile.accept(b"packet", n) == (fates[n] and not 50 <= n < 100)

    for other in (link(Layer(loss=0.3), seed=2), link(Layer(loss=0.3), name="c"), link(Layer(), Layer(loss=0.3))):
        assert [other.accept(b"packet", n) for n in range(200)] != fates


def test_jitter_is_around_the_delay() -> None:
    """It is uniform, and never moves a packet into the past."""
    trembling = link(Layer(delay=0.1, jitter=0.05))
    late = [at - n for n, at in enumerate(times(trembling, [(n, 100) for n in range(500)])) if at is not None]
    assert 0.05 <= min(late) < 0.055
    assert 0.145 < max(late) <= 0.15
    assert sum(late) / len(late) == pytest.approx(0.1, abs=0.005)
    rough = link(Layer(jitter=0.05))
    assert min(at - n for n, at in enumerate(times(rough, [(n, 100) for n in range(50)])) if at is not None) == 0


def test_no_packet_overtakes_another() -> None:
    """Even if jitter exceeds the time between packets."""
    trembling = link(Layer(delay=0.1, jitter=0.1))
    packets = [n.to_bytes(2) for n in range(500)]
    assert all(trembling.accept(packet, n / 1000) for n, packet in enumerate(packets))
    assert list(trembling.pop_due(10)) == packets


def test_a_rate_spaces_packets_after_a_burst() -> None:
    """After it was idle, a link lets one packet of any size pass at once."""
    slow = link(Layer(rate=BURST))
    assert times(slow, [(5, BURST // 2)] * 4) == [5, 5, 5.5, 6]
    assert times(slow, [(20, BURST // 2)] * 3) == [20, 20, 20.5]


def test_the_smallest_rate_counts_and_a_delay_is_added() -> None:
    """Packets are delayed after they have passed the rate."""
    slow = link(Layer(rate=BURST), Layer(rate=10 * BURST, delay=1))
    assert times(slow, [(5, BURST), (5, BURST)]) == [6, 7]


def test_packets_beyond_the_backlog_are_lost() -> None:
    """Until a part of the backlog has passed."""
    slow = link(Layer(rate=BURST))
    count = 1 + BACKLOG // BURST
    assert times(slow, [(5, BURST)] * (count + 2)) == [5.0 + n for n in range(count)] + [None, None]
    assert times(slow, [(6, BURST)]) == [5.0 + count]


def test_waiting_packets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delay would otherwise buffer any number of packets."""
    monkeypatch.setattr(module, "MOST_WAITING", 1000)
    far = link(Layer(delay=100))
    assert [far.accept(bytes(400), n) for n in range(3)] == [True, True, False]
    assert len(list(far.pop_due(100))) == 1
    assert far.accept(bytes(400), 100)


def test_healing_releases_waiting_packets() -> None:
    """In order; a healed fault holds up no packet."""
    far = link(Layer(delay=100), Layer(delay=1))
    assert far.accept(b"first", 1)
    assert far.accept(b"second", 2)
    far.heal(0, 10)
    assert far.next_due == 11
    assert far.accept(b"third", 10.5)
    far.heal(1, 10.5)
    assert not far.is_clear
    assert list(far.pop_due(10.5)) == [b"first", b"second", b"third"]
    assert far.is_clear
    assert far.next_due is None


def test_healing_a_rate_releases_the_backlog() -> None:
    """At the remaining rate, if any."""
    slow = link(Layer(rate=BURST), Layer(rate=10 * BURST))
    times(slow, [(5, BURST)] * 4)
    list(slow.pop_due(5))
    slow.heal(0, 5)
    assert [at for at, _ in slow._waiting] == pytest.approx([5.1, 5.2, 5.3])
    slow.heal(1, 5)
    assert [at for at, _ in slow._waiting] == [5, 5, 5]


def test_a_new_delay_does_not_affect_packets_under_way() -> None:
    """A change applies to later packets; order is kept."""
    near = link(Layer(delay=1))
    assert near.accept(b"first", 0)
    near.impair(5, Layer(delay=10), 0.5)
    assert near.next_due == 1
    assert times(near, [(0.5, 10)]) == [11.5]
    near.heal(99, 0.6)  # one that is not there
    assert near.next_due == 1
