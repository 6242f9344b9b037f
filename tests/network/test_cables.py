"""Cables between tasks: which packets take them, and which pass through the switch instead."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from clusterkit.network.virtual import Layer, VirtualNetwork, why_not
from tests.guests import Guest, await_round_trip, connect, round_trip
from tests.network.nets import A, B, C, Nets, passed
from tests.support import ROOT, wait_until

WHY_NOT = why_not(True, False)
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(60),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual network here: {WHY_NOT}"),
]
REFUSE = """
import errno, os, socket, sys
from clusterkit.network.switch import main, system
def refuse(*_): raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
if sys.argv[1:]: setattr(system.Netlink, sys.argv[1], refuse)
places = main.make_namespaces(["10.77.0.1", "10.77.0.2"], False)
print(places.hub is not None, sorted(name for _, name in socket.if_nameindex()))
"""
STREAM = """
import threading
why = []
def send():
    try:
        while True: c.sendall(bytes(1 << 16))
    except OSError as error:
        if error.errno != errno.EPIPE: why.append(error.errno)
pump = threading.Thread(target=send, daemon=True)
pump.start()
"""
WATCH = """
try:
    while c.recv(1 << 20): pass
except OSError as error:
    why.append(error.errno)
"""


def has_cables() -> bool:
    """Whether this kernel supports cables."""
    return tried().startswith("True")


def tried(*refused: str) -> str:
    """Whether there is a hub, and what devices a host has, on a kernel that refuses one of the requests."""
    words = [sys.executable, "-c", REFUSE, *refused]
    ran = subprocess.run(words, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, timeout=20, check=True)
    return ran.stdout.strip()


needs_cables = pytest.mark.skipif(WHY_NOT is None and not has_cables(), reason="this kernel has no cables")


@pytest.fixture
def network(nets: Nets) -> VirtualNetwork:
    """Three tasks' network."""
    return nets.make()


@pytest.fixture
def pair(network: VirtualNetwork, nets: Nets) -> tuple[Guest, Guest]:
    """Two guests with a connection."""
    return nets.pair(network)


def await_cables(a: Guest, b: Guest) -> None:
    """Wait until the packets between the two take cables."""

    def is_so() -> bool:
        before = passed(a, b)
        round_trip(a, b)
        return passed(a, b) == before

    wait_until(is_so, 10, "packets past the switch")


@needs_cables
def test_packets_of_a_pair_that_is_not_impaired_bypass_the_switch(
    network: VirtualNetwork, pair: tuple[Guest, Guest]
) -> None:
    """Not one packet, however many there are, even while another pair is impaired."""
    a, b = pair
    network.impair(1, [B], [C], Layer(delay=0.01))
    a.begins("total = 0\nwhile total < 1 << 22: total += len(c.recv(1 << 20))\nc.sendall(b'!')")
    b.does("c.sendall(bytes(1 << 22)); c.recv(1)")
    a.result()
    round_trip(a, b)
    assert passed(a, b) == (0, 0)


@needs_cables
def test_a_connection_moves_to_the_switch_and_back(
    network: VirtualNetwork, pair: tuple[Guest, Guest], nets: Nets
) -> None:
    """At once and unbroken; other connections keep their way."""
    (a, b), c = pair, nets.enter(network, C)
    c.does("s = socket.create_server(('', 2222))")
    for _ in range(3):
        network.impair(1, [A], [B], Layer(delay=0.005))
        before, _ = passed(a, b)
        assert round_trip(a, b, 10) >= 0.01
        assert passed(a, b)[0] >= before + 20
        b.does(f"socket.create_connection(('{network.addresses[C]}', 2222), 10).close()")
        network.heal(1)
        await_cables(a, b)
    assert passed(c) == (0, 0)


@needs_cables
def test_delayed_packets_arrive_when_the_route_changes_back(network: VirtualNetwork, pair: tuple[Guest, Guest]) -> None:
    """No delayed packet is lost, and none holds up later packets."""
    a, b = pair
    network.impair(1, [A], [B], Layer(delay=30))
    b.does("c.sendall(b'late')")
    network.heal(1)
    assert a.does("result = c.recv(10).decode()") == "late"
    await_cables(a, b)


@pytest.mark.parametrize("cables", [True, False])
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_idle_connections_are_reset_at_once(nets: Nets, cables: bool, host: str) -> None:
    """Both ends of each, also with a server that accepts IPv6 too, and after a while without packets."""
    network = nets.make(cables=cables)
    a, b = nets.enter(network, A), nets.enter(network, B)
    family = "family=socket.AF_INET6, dualstack_ipv6=True" if ":" in host else ""
    a.does(f"s = socket.create_server(('{host}', 2222), {family})")
    b.does(f"all = [socket.create_connection(('{network.addresses[A]}', 2222), 10) for _ in range(8)]")
    a.does("all = [s.accept()[0] for _ in range(8)]")
    assert network.reset([A], [B, C]) == 8
    for guest in (a, b):
        for index in range(8):
            assert guest.tries(f"all[{index}].settimeout(5); all[{index}].recv(1)")["errno"] == errno.ECONNRESET
    b.does(f"c = socket.create_connection(('{network.addresses[A]}', 2222), 10)")
    a.does("c, _ = s.accept()")
    await_round_trip(a, b, 0, 0.01)
    assert network.reset([A], [C]) == 0


@pytest.mark.parametrize("cables", [True, False])
def test_busy_connections_are_reset_at_once(nets: Nets, cables: bool) -> None:
    """While both ends send as fast as they can."""
    network = nets.make(cables=cables)
    a, b = nets.pair(network)
    for guest in (a, b):
        guest.does(STREAM)
    for guest in (a, b):
        guest.does("total = 0\nwhile total < 1 << 22: total += len(c.recv(1 << 20))")
        guest.begins(f"{WATCH}pump.join(5); result = [why, pump.is_alive()]")
    assert network.reset([B], [A]) == 1
    for guest in (a, b):
        assert guest.result() == [[errno.ECONNRESET], False]


def test_a_connection_behind_a_cut_is_reset(network: VirtualNetwork, pair: tuple[Guest, Guest]) -> None:
    """Although neither end's packets reach the other."""
    network.impair(1, [A], [B], Layer(cut=True))
    assert network.reset([A], [B]) == 1
    for guest in pair:
        assert guest.tries("c.recv(10)")["errno"] == errno.ECONNRESET


@needs_cables
def test_the_route_changes_back_after_a_reset(network: VirtualNetwork, nets: Nets) -> None:
    """Packets of later connections soon take cables."""
    a, b = nets.pair(network)
    assert network.reset([A], [B]) == 1
    connect(a, b, network.addresses[A], 3333)
    await_cables(a, b)


@needs_cables
@pytest.mark.parametrize("refused", ["add_cable", "forward"])
def test_without_support_for_cables_everything_passes_the_switch(refused: str) -> None:
    """Without a message, and a host's only device has its usual name."""
    assert tried() == "True ['eth0', 'lo', 'tun0']"
    assert tried(refused) == "False ['eth0', 'lo']"


@pytest.mark.parametrize("how", ["no cables", "pcap"])
def test_without_cables_everything_passes_the_switch(nets: Nets, tmp_path: Path, how: str) -> None:
    """So it does if packets are captured."""
    network = nets.make(cables=False) if how == "no cables" else nets.make(pcap=tmp_path / "all.pcap")
    a, b = nets.pair(network)
    round_trip(a, b, 10)
    assert passed(a, b)[0] >= 20
