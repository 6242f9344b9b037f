"""The virtual network: what tasks see of each other through the switch, with and without faults."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusterkit.network.switch.resets import checksum
from clusterkit.network.virtual import Layer, NetworkError, VirtualNetwork, why_not
from clusterkit.words.model import Task
from tests.guests import DEADLINE, Guest, await_round_trip, connect, round_trip
from tests.network.nets import A, B, C, Nets, passed
from tests.support import wait_until

WHY_NOT = why_not(True, False)
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(60),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual network here: {WHY_NOT}"),
]
TAKE_ALL = """
result = []
try:
    while True:
        result.append(int.from_bytes(u.recv(4)))
except BlockingIOError:
    pass
"""


@pytest.fixture(params=[True, False], ids=["cables", "switch"])
def network(request: pytest.FixtureRequest, nets: Nets) -> VirtualNetwork:
    """Three tasks' network, with cables and without."""
    return nets.make(cables=request.param)


@pytest.fixture
def pair(network: VirtualNetwork, nets: Nets) -> tuple[Guest, Guest]:
    """Two guests with a connection."""
    return nets.pair(network)


def test_tasks_reach_each_other_and_themselves(network: VirtualNetwork, pair: tuple[Guest, Guest]) -> None:
    a, b = pair
    assert network.endpoints == {A: "10.77.0.1:2222", B: "10.77.0.2:2222", C: "10.77.0.3:2222"}
    await_round_trip(a, b, 0, 0.01)
    for host in (network.addresses[A], "127.0.0.1", "localhost"):
        code = "s = socket.create_server(('0.0.0.0', 3333)); d = socket.create_connection(({!r}, 3333), 5)"
        a.does(code.format(host) + "; result = s.accept()[1][0]; s.close()")
    assert a.does("result = c.getpeername()[0]") == network.addresses[B]


def test_delays_add_up_and_heal(network: VirtualNetwork, pair: tuple[Guest, Guest]) -> None:
    network.impair(1, [A], [B, C], Layer(delay=0.02))
    await_round_trip(*pair, 0.04, 0.005)
    network.impair(2, [B], [A], Layer(delay=0.01, jitter=0.002))
    await_round_trip(*pair, 0.06, 0.008)
    network.heal(1)
    await_round_trip(*pair, 0.02, 0.006)
    network.heal(2)
    await_round_trip(*pair, 0, 0.005)


def lost(nets: Nets, network: VirtualNetwork, count: int, loss: float) -> set[int]:
    """The numbers of the datagrams from A to B that did not arrive."""
    a, b = nets.enter(network, A), nets.enter(network, B)
    network.impair(3, [A], [B], Layer(loss=loss))
    a.does(f"u = socket.socket(type=socket.SOCK_DGRAM); u.connect(('{network.addresses[B]}', 4444))")
    b.does("u = socket.socket(type=socket.SOCK_DGRAM); u.bind(('', 4444)); u.setblocking(False)")
    arrived = set[int]()
    for first in range(0, count, 200):  # as many as a socket has room for
        a.does(f"for n in range({first}, {first + 200}): u.send(n.to_bytes(4))")
        await_passage(network, a, first + 200)
        arrived |= set(b.does(TAKE_ALL))
    assert (passed(a)[0], passed(b)[1]) == (count, len(arrived))
    return set(range(count)) - arrived


def await_passage(network: VirtualNetwork, guest: Guest, count: int) -> None:
    """Wait until the switch has taken so many packets from a guest, and delivered or dropped the last one."""
    wait_until(lambda: passed(guest)[0] >= count, 10, "the packets' passage")
    network.heal(99)  # nothing: the switch answers once it has dealt with the packet


def test_a_share_is_lost_and_the_same_packets_in_a_replay(nets: Nets) -> None:
    first = lost(nets, nets.make(seed=5), 10_000, 0.1)
    assert 800 <= len(first) <= 1200
    assert lost(nets, nets.make(seed=5, cables=False), 1000, 0.1) == {number for number in first if number < 1000}
    assert lost(nets, nets.make(seed=6), 1000, 0.1) != {number for number in first if number < 1000}


def test_a_rate_holds(network: VirtualNetwork, pair: tuple[Guest, Guest]) -> None:
    a, b = pair
    network.impair(1, [A], [B], Layer(rate=2e6))
    took: list[float] = []

    def holds() -> bool:
        a.begins("total = 0\nwhile total < 1_000_000: total += len(c.recv(1 << 20))\nc.sendall(b'!')")
        sends = "begun = time.monotonic(); c.sendall(bytes(1_000_000)); c.recv(1); result = time.monotonic() - begun"
        took.append(b.does(sends))
        a.result()
        assert took[-1] > 0.4
        return took[-1] < 2

    wait_until(holds, DEADLINE, lambda: f"half a second for a megabyte; there were {took}")


def test_a_connection_survives_a_partition(network: VirtualNetwork, pair: tuple[Guest, Guest], nets: Nets) -> None:
    a, b = pair
    c = nets.enter(network, C)
    network.impair(1, [A], [B], Layer(cut=True))
    before, _ = passed(b)
    b.does("c.sendall(b'hello')")
    await_passage(network, b, before + 1)
    assert a.tries("c.settimeout(0.3); c.recv(10)")["error"] == "TimeoutError"
    network.heal(1)
    assert a.does("c.settimeout(10); result = c.recv(10).decode()") == "hello"
    connect(b, c, network.addresses[B], 5555)
    network.impair(1, [A], [B, C], Layer(cut=True))
    await_round_trip(b, c, 0, 0.01)


def test_a_reset_ends_connections_at_both_ends(network: VirtualNetwork, nets: Nets) -> None:
    a, b = nets.enter(network, A), nets.enter(network, B)
    for port in range(5000, 5004):
        connect(a, b, network.addresses[A], port)
        if port % 2:  # what was not acknowledged yet is between what was and what is expected
            round_trip(a, b)
            b.does("c.sendall(b'x')")
            a.does("c.recv(1)")
        assert network.reset([A], [B]) == 1
        for guest in (a, b):
            assert guest.tries("c.recv(10)")["errno"] == errno.ECONNRESET
    assert network.reset([A], [B]) == 0
    connect(a, b, network.addresses[A], 5000)
    await_round_trip(a, b, 0, 0.01)


def test_what_is_delivered_is_captured(nets: Nets, tmp_path: Path) -> None:
    network = nets.make(pcap=tmp_path / "all.pcap")
    a, b = nets.enter(network, A), nets.enter(network, B)
    connect(a, b, network.addresses[A])
    a.does("c.sendall(b'while it runs')")
    wait_until(lambda: b"while it runs" in (tmp_path / "all.pcap").read_bytes(), 5, "the packet in the file")
    network.impair(1, [A], [B], Layer(cut=True))
    before, _ = passed(a)
    a.does("c.sendall(b'never arrives')")
    await_passage(network, a, before + 1)
    _, delivered = passed(a, b)
    network.stop()
    packets = captured(tmp_path / "all.pcap")
    assert len(packets) == delivered
    assert not any(b"never arrives" in packet for packet in packets)
    for packet in packets:
        assert checksum(packet[:20]) == 0
        assert checksum(packet[12:20] + struct.pack("!HH", 6, len(packet) - 20) + packet[20:]) == 0


def test_a_switch_that_is_killed_at_its_end_has_captured_everything(
    nets: Nets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterkit.network.virtual.END_WITHIN", 0.2)
    network = nets.make(pcap=tmp_path / "all.pcap")
    a, b = nets.enter(network, A), nets.enter(network, B)
    connect(a, b, network.addresses[A])
    a.does("c.sendall(b'the last word')")
    assert b.does("result = c.recv(20).decode()") == "the last word"
    channel = network._channel

    def close() -> None:
        os.kill(network.pid, signal.SIGSTOP)
        channel.close()

    stopping = SimpleNamespace(
        settimeout=channel.settimeout, sendall=channel.sendall, recvmsg=channel.recvmsg, close=close
    )
    monkeypatch.setattr(network, "_channel", stopping)
    network.stop()
    assert any(b"the last word" in packet for packet in captured(tmp_path / "all.pcap"))


def captured(file: Path) -> list[bytes]:
    """The packets of a pcap file."""
    data = file.read_bytes()
    assert struct.unpack("=IHHiIII", data[:24]) == (0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    packets, position = [], 24
    while position < len(data):
        length = struct.unpack_from("=IIII", data, position)[2]
        packets.append(data[position + 16 : position + 16 + length])
        position += 16 + length
    assert position == len(data)
    return packets


def test_a_capture_that_finds_no_room_stops_alone(nets: Nets, tmp_path: Path) -> None:
    network = nets.make(pcap=Path("/dev/full"))
    a, b = nets.enter(network, A), nets.enter(network, B)
    connect(a, b, network.addresses[A])
    log = tmp_path / "switch.log"
    wait_until(log.read_text, 5, "a line in the log")
    await_round_trip(a, b, 0, 0.01)
    assert log.read_text() == "The capture /dev/full ends here: No space left on device.\n"


def test_strangers_reach_nothing(network: VirtualNetwork, pair: tuple[Guest, Guest]) -> None:
    server, address = pair[0], network.addresses[A]
    server.does("s = socket.create_server(('0.0.0.0', 2222)); s.settimeout(0.2)")
    with socket.socket() as host:
        host.settimeout(0.2)
        host.connect_ex(("127.0.0.1", 2222))  # somebody else may listen there
    assert server.tries("s.accept()")["error"] == "TimeoutError"
    scan = (
        f"import socket\ns = socket.socket()\nprint(sum(not s.connect_ex(('{address}', p)) for p in range(1, 65536)))"
    )
    stranger = ["unshare", "--net" if os.geteuid() == 0 else "-rn", sys.executable, "-S", "-c", scan]
    assert subprocess.run(stranger, capture_output=True, text=True, timeout=30, check=True).stdout == "0\n"


def test_the_end_of_the_switch_is_told(network: VirtualNetwork) -> None:
    assert select.select([network.pidfd], [], [], 0)[0] == []
    os.kill(network.pid, signal.SIGKILL)
    assert select.select([network.pidfd], [], [], 10)[0] == [network.pidfd]
    with pytest.raises(NetworkError, match="has ended"):
        network.heal(1)


def test_a_switch_that_does_not_answer_is_ended(network: VirtualNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterkit.network.virtual.END_WITHIN", 0.2)
    os.kill(network.pid, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr("clusterkit.network.virtual.ANSWER_WITHIN", 0.2)
        with pytest.raises(NetworkError, match=r"did not answer within 0\.2 s"):
            network.heal(1)
    os.kill(network.pid, signal.SIGCONT)
    assert network.reset([A], [B]) == 0  # the late answer is not taken for this one's
    os.kill(network.pid, signal.SIGSTOP)
    network.stop()


def test_what_can_not_be_made_is_told(nets: Nets, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"nowhere/all.pcap can't be written: no such file or directory\.$"):
        nets.make(pcap=tmp_path / "nowhere" / "all.pcap")


def test_many_tasks_have_their_addresses(nets: Nets) -> None:
    tasks = tuple(Task.parse(f"worker:{index}") for index in range(260))
    network = nets.make(tasks)
    assert network.addresses[tasks[250]] == "10.77.1.1"
    a, b = nets.enter(network, tasks[0]), nets.enter(network, tasks[259])
    connect(b, a, network.addresses[tasks[259]])
    await_round_trip(a, b, 0, 0.01)
