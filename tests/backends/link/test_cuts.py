"""Cuts: a short one loses nothing, a long one ends the agent before its supervisor counts it lost."""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from clusterkit.backends.link import dialer, listener, session
from clusterkit.backends.link.connection import Connection
from clusterkit.backends.link.frames import JSON
from clusterkit.backends.link.stream import FileRange
from tests.backends.link.proxy import bad_network
from tests.backends.link.wires import Ends, Records, both_ends
from tests.support import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

OUTPUT = 50_000_000  # bytes
CUTS = 20
SEED = 3


class Collected(Records):
    """Records that keep of bodies no more than their digest and size."""

    def __init__(self) -> None:
        super().__init__()
        self.digest, self.size = hashlib.sha256(), 0

    def message(self, connection: Connection, message: Mapping[str, JSON], body: bytes) -> None:
        """Keep the message, and count the body."""
        self.digest.update(body)
        self.size += len(body)
        super().message(connection, message, b"")


class Clock:
    """The clock of the agents that start from now on, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead, real = 0.0, dialer._now
        monkeypatch.setattr(dialer, "_now", lambda: real() + self._ahead)

    def move(self, ends: Ends, seconds: float) -> None:
        """Let the newest agent find that so much time has passed."""
        self._ahead += seconds
        ends.dialers[-1]._poller.do(lambda: None)  # it looks at its clock before each wait


def spool(path: Path, draw: random.Random) -> str:
    """Write a host's output; return its digest."""
    data = draw.randbytes(OUTPUT)
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def parts_of(path: Path, draw: random.Random) -> list[FileRange]:
    """The whole file, in pieces of any size."""
    parts, at = list[FileRange](), 0
    while at < OUTPUT:
        size = min(draw.randint(1, 1 << 18), OUTPUT - at)
        parts.append(FileRange(path, at, size))
        at += size
    return parts


def test_output_is_byte_exact_across_cuts(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    digest = spool(tmp_path / "spool", draw)
    parts = parts_of(tmp_path / "spool", draw)
    collected = Collected()
    with both_ends(tmp_path, 30.0, collected) as ends:
        cuts = [draw.randrange(10_000, OUTPUT) for _ in range(CUTS)]
        with bad_network(ends.address, random.Random(SEED), cuts) as network:
            agent = ends.agent(address=network.address)
            agent.wait_for("connected")
            for number, part in enumerate(parts):
                agent.connections[0].send({"number": number}, part)
                collected.connections[0].send({"number": number})
            wait_until(lambda: collected.size >= OUTPUT, 60, lambda: f"{OUTPUT} bytes, but {collected.size}")
            agent.wait_for_messages(len(parts))
            assert network.cuts_left == 0
    assert collected.digest.hexdigest() == digest
    numbers = list(range(len(parts)))
    assert [message["number"] for message in collected.messages] == numbers
    assert [message["number"] for message in agent.messages] == numbers
    assert collected.kinds.count("resumed") + collected.kinds.count("cut") >= CUTS
    assert "lost" not in collected.kinds + agent.kinds


def test_messages_arrive_in_order_through_delays(tmp_path: Path) -> None:
    with both_ends(tmp_path) as ends, bad_network(ends.address, random.Random(SEED), (), 0.05) as network:
        agent = ends.agent(address=network.address)
        agent.wait_for("connected")
        for number in range(300):
            agent.connections[0].send({"number": number}, b"x" * 100 * number)
        ends.supervisor.wait_for_messages(300)
        assert [message["number"] for message in ends.supervisor.messages] == list(range(300))


def test_an_agent_that_closes_during_a_cut_delivers_everything_after_it(tmp_path: Path) -> None:
    with both_ends(tmp_path) as ends, bad_network(ends.address, random.Random(SEED)) as network:
        agent = ends.agent(address=network.address)
        agent.wait_for("connected")
        network.darken()
        network.cut()
        agent.wait_for("cut")
        agent.connections[0].send({"last": True})
        agent.connections[0].close("The agent was asked to end.")
        network.cut()
        network.lighten()
        assert agent.wait_for("lost") == "The agent was asked to end."
        assert ends.supervisor.wait_for("lost") == "The agent was asked to end."
        assert ends.supervisor.messages == [{"last": True}]


def test_a_supervisor_that_closes_during_a_cut_tells_the_agent_when_it_comes_back(tmp_path: Path) -> None:
    with both_ends(tmp_path) as ends, bad_network(ends.address, random.Random(SEED)) as network:
        agent = ends.agent(address=network.address)
        agent.wait_for("connected")
        network.darken()
        network.cut()
        ends.supervisor.wait_for("cut")
        ends.supervisor.connections[0].close("The run has ended.")
        assert ends.supervisor.wait_for("lost") == "The run has ended."
        network.cut()
        network.lighten()
        assert agent.wait_for("lost") == "The supervisor has given up the agent on n1. The run has ended."


def test_what_is_sent_during_a_cut_arrives_after_it(tmp_path: Path) -> None:
    with both_ends(tmp_path) as ends, bad_network(ends.address, random.Random(SEED)) as network:
        agent = ends.agent(address=network.address)
        agent.wait_for("connected")
        network.darken()
        network.cut()
        ends.supervisor.wait_for("cut")
        agent.wait_for("cut")
        agent.connections[0].send({"from": "agent"})
        ends.supervisor.connections[0].send({"from": "supervisor"})
        network.cut()
        network.lighten()
        agent.wait_for("resumed")
        agent.wait_for_messages(1)
        ends.supervisor.wait_for_messages(1)
        assert agent.messages == [{"from": "supervisor"}]
        assert ends.supervisor.messages == [{"from": "agent"}]
        assert ends.supervisor.kinds == ["connected", "cut", "resumed"]


def test_an_agent_in_the_dark_gives_up_before_it_is_counted_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    with both_ends(tmp_path, 60.0) as ends, bad_network(ends.address, random.Random(SEED)) as network:
        agent = ends.agent(address=network.address)
        agent.wait_for("connected")
        network.darken()
        clock.move(ends, 31.0)
        agent.wait_for("cut")
        clock.move(ends, 30.0)
        why = agent.wait_for("lost")
        [(_, known)] = ends.listener._agents.values()
        between = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()  # the agent's clock and the supervisor's
        assert ends.dialers[0]._session.lease - between <= known.lost_at - session.MARGIN
        assert "lost" not in ends.supervisor.kinds

        def grow_old() -> None:
            known.heard_at -= 100.0
            ends.listener._check_by(0.0)

        ends.listener._poller.do(grow_old)
        assert re.fullmatch(r"Nothing was received from n1 for \d+\.\d s\.", ends.supervisor.wait_for("lost"))
        assert why.startswith(f"The supervisor at 127.0.0.1:{network.address[1]} was not reached for 60 s: ")
        assert agent.kinds[:2] == ["connected", "cut"]


def test_a_dead_connection_is_replaced_while_there_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the network swallows what is sent, TCP finds out too late."""
    clock = Clock(monkeypatch)
    with both_ends(tmp_path, 60.0) as ends, bad_network(ends.address, random.Random(SEED)) as network:
        agent = ends.agent(address=network.address)
        agent.wait_for("connected")
        cut = agent.cut

        def cut_and_lighten(connection: Connection, why: str) -> None:
            cut(connection, why)
            network.lighten()  # in the thread that connects anew after that

        monkeypatch.setattr(agent, "cut", cut_and_lighten)
        network.darken()
        clock.move(ends, 31.0)
        assert agent.wait_for("cut").startswith("nothing was received for ")
        agent.wait_for("resumed")
        agent.connections[0].send({"still": "here"})
        ends.supervisor.wait_for_messages(1)


def test_an_agent_that_comes_back_too_late_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "SupervisorSession", Impatient)
    with both_ends(tmp_path, 5.0) as ends, bad_network(ends.address, random.Random(SEED)) as network:
        agent = ends.agent(address=network.address)
        agent.wait_for("connected")
        why = ends.supervisor.wait_for("lost")
        assert agent.wait_for("lost") == f"The supervisor has given up the agent on n1. {why}"


class Impatient(session.SupervisorSession):
    """A supervisor's session whose clock is much too fast."""

    @property
    def lost_at(self) -> float:
        """Soon."""
        return self.heard_at + 0.3
