"""The connection over real sockets: messages in order, once, both ways; sessions begin, close and get lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.backends.agents.stream import FileRange
from tests.backends.agents.wires import Ends, both_ends

pytestmark = pytest.mark.process


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    """A listener and its agents."""
    with both_ends(tmp_path) as made:
        yield made


def test_messages_arrive_in_order_on_both_sides(ends: Ends) -> None:
    agent = ends.agent()
    agent.wait_for("connected")
    assert ends.supervisor.wait_for("connected") == "n1"
    for number in range(1000):
        agent.connections[0].send({"number": number}, b"x" * number)
        ends.supervisor.connections[0].send({"number": -number, "text": ["\n", "\udc80", {}, None, 0.5]})
    agent.wait_for_messages(1000)
    ends.supervisor.wait_for_messages(1000)
    assert [message["number"] for message in ends.supervisor.messages] == list(range(1000))
    assert [len(body) for body in ends.supervisor.bodies] == list(range(1000))
    assert [message["number"] for message in agent.messages] == [-number for number in range(1000)]
    assert agent.messages[0]["text"] == ["\n", "\udc80", {}, None, 0.5]


def test_a_part_of_a_file_is_read_when_it_is_sent(ends: Ends, tmp_path: Path) -> None:
    agent = ends.agent()
    agent.wait_for("connected")
    (tmp_path / "spool").write_bytes(b"0123456789")
    agent.connections[0].send({}, FileRange(tmp_path / "spool", 3, 4))
    ends.supervisor.wait_for_messages(1)
    assert ends.supervisor.bodies == [b"3456"]


def test_an_agent_that_closes_is_lost_after_its_last_message(ends: Ends) -> None:
    agent = ends.agent()
    agent.wait_for("connected")
    agent.connections[0].send({"last": True})
    agent.connections[0].close("The agent was asked to end.")
    assert agent.wait_for("lost") == "The agent was asked to end."
    assert ends.supervisor.wait_for("lost") == "The agent was asked to end."
    assert ends.supervisor.messages == [{"last": True}]


def test_an_agent_that_the_supervisor_closes_ends(ends: Ends) -> None:
    agent = ends.agent()
    agent.wait_for("connected")
    ends.supervisor.wait_for("connected")
    ends.supervisor.connections[0].send({"last": True})
    ends.supervisor.connections[0].close("The run has ended.")
    assert agent.wait_for("lost") == "The run has ended."
    assert ends.supervisor.wait_for("lost") == "The run has ended."
    assert agent.messages == [{"last": True}]
