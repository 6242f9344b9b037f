"""The injector as a table: what it asks of the network, and what it tells of each fault."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from clusterkit.faults.injector import Injector
from clusterkit.faults.throttle import Throttle
from clusterkit.network.virtual import Layer, NetworkError, VirtualNetwork
from clusterkit.words.events import FaultTook
from clusterkit.words.grammar import parse_fault
from clusterkit.words.model import Task
from tests.histories import task

NEAR, FAR = [task("worker:1")], [task("chief:0"), task("ps:0")]
FULL = "every write of the tasks into /checkpoints fails: no space left on device"


class RecordedNetwork(VirtualNetwork):
    """Records its calls, and fails with the message `broken` if it is set."""

    def __init__(self, connections: int = 2, broken: str | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.connections = connections
        self.broken = broken

    def impair(self, number: int, a: Collection[Task], b: Collection[Task], layer: Layer) -> None:
        self._take("impair", number, list(a), list(b), layer)

    def reset(self, a: Collection[Task], b: Collection[Task]) -> int:
        self._take("reset", list(a), list(b))
        return self.connections

    def fill_disk(self, number: int) -> None:
        self._take("fill", number)

    def heal(self, number: int) -> None:
        self._take("heal", number)

    def _take(self, *call: Any) -> None:
        self.calls.append(call)
        if self.broken:
            raise NetworkError(self.broken)


def injector(network: VirtualNetwork | None, took: list[Any]) -> Injector:
    """An injector of a run whose tasks have no processes."""
    return Injector(Throttle(lambda _: None, took.append), network, PurePosixPath("/checkpoints"), 7, took.append)


@pytest.mark.parametrize(
    ("text", "call", "detail"),
    [
        ("partition worker:1", ("impair", 1, NEAR, FAR, Layer(cut=True)),
         "all packets are dropped between worker:1 and chief:0 and ps:0"),
        ("delay worker:1 by=20ms jitter=5ms", ("impair", 1, NEAR, FAR, Layer(delay=0.02, jitter=0.005)),
         "each packet takes 20 ms ± 5 ms longer between worker:1 and chief:0 and ps:0"),
        ("delay worker:1", ("impair", 1, NEAR, FAR, Layer(delay=0.1, jitter=0.0)),
         "each packet takes 100 ms longer between worker:1 and chief:0 and ps:0"),
        ("loss worker:1 share=5%", ("impair", 1, NEAR, FAR, Layer(loss=0.05)),
         "5 % of the packets are lost between worker:1 and chief:0 and ps:0"),
        ("rate worker:1 limit=1Mbit", ("impair", 1, NEAR, FAR, Layer(rate=125000.0)),
         "the rate is limited to 125000 bytes/s between worker:1 and chief:0 and ps:0"),
        ("reset worker:1", ("reset", NEAR, FAR),
         "2 connections were reset between worker:1 and chief:0 and ps:0"),
        ("disk-full", ("fill", 1), FULL),
    ],
)  # fmt: skip
def test_faults_of_the_network_and_the_disk(text: str, call: tuple[Any, ...], detail: str) -> None:
    """The injector converts the fault's amounts to the units of the network."""
    took: list[Any] = []
    network = RecordedNetwork()
    injector(network, took).inject(1, parse_fault(text), NEAR, FAR)
    assert network.calls == [call]
    assert took == [FaultTook(1, detail, True)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("partition worker:1", "the run uses the host's network; network faults need --network virtual"),
        ("reset worker:1", "the run uses the host's network; network faults need --network virtual"),
        ("disk-full", "the run must be started with a disk-full fault or with --network virtual"),
        ("memory worker:1", "worker:1 has no process"),
        ("corrupt-checkpoint", "there is no checkpoint in /checkpoints"),
        ("kill worker:1", "the injector does not support kill"),
    ],
)
def test_faults_that_can_not_be_injected(text: str, why: str) -> None:
    """Every fault is answered once, with the reason."""
    took: list[Any] = []
    injector(None, took).inject(3, parse_fault(text), NEAR, FAR)
    assert took == [FaultTook(3, why, False)]


def test_a_reset_without_connections_has_done_nothing() -> None:
    """The fault counts as not injected."""
    took: list[Any] = []
    injector(RecordedNetwork(connections=0), took).inject(1, parse_fault("reset worker:1"), NEAR, FAR)
    assert took == [FaultTook(1, "there is no connection between worker:1 and chief:0 and ps:0", False)]


def test_a_broken_network_is_reported() -> None:
    """Errors of the network are reported both on injection and on healing."""
    took: list[Any] = []
    network = RecordedNetwork(broken="The switch does not answer.")
    broken = injector(network, took)
    broken.inject(1, parse_fault("partition worker:1"), NEAR, FAR)
    broken.stop()
    assert took == [FaultTook(1, "The switch does not answer.", False)] * 2
    assert [call[0] for call in network.calls] == ["impair", "heal"]


def test_what_a_fault_of_the_network_did_before_it_failed_is_healed() -> None:
    """The switch may have impaired some ways, or do so late; the fault counts as not injected, so nobody else heals."""
    took: list[Any] = []
    network = RecordedNetwork(broken="The switch did not answer.")
    for number, text in enumerate(("partition worker:1", "disk-full", "reset worker:1"), 1):
        injector(network, took).inject(number, parse_fault(text), NEAR, FAR)
    assert [call[0] for call in network.calls] == ["impair", "heal", "fill", "heal", "reset"]
    assert not any(answer.done for answer in took)


def test_only_what_was_done_in_the_network_is_healed_there() -> None:
    """Each fault is healed by its number, and the remaining ones at the end."""
    took: list[Any] = []
    network = RecordedNetwork()
    healing = injector(network, took)
    for number, text in enumerate(("slow worker:1", "partition worker:1", "disk-full", "loss worker:1"), 1):
        healing.inject(number, parse_fault(text), NEAR, FAR)
    del network.calls[:]
    for number in (1, 2, 99):
        healing.heal(number)
    assert network.calls == [("heal", 2)]
    healing.stop()
    assert network.calls == [("heal", 2), ("heal", 3), ("heal", 4)]


def test_a_checkpoint_is_corrupted_otherwise_by_each_fault(tmp_path: Path) -> None:
    """The same bytes flipped twice would be intact again."""
    file = tmp_path / "model.keras"
    file.write_bytes(bytes(4096))
    took: list[Any] = []
    corrupting = Injector(Throttle(lambda _: None, took.append), None, PurePosixPath(tmp_path), 7, took.append)
    for number in (1, 2):
        corrupting.inject(number, parse_fault("corrupt-checkpoint"), [], [])
        assert took[-1] == FaultTook(number, "flipped 64 bytes in model.keras", True, "model.keras")
    assert file.read_bytes().count(0xFF) > 64
