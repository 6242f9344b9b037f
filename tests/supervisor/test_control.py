"""The control server by itself: whatever clients send, and however slowly they read, it serves the next one."""

from __future__ import annotations

import fcntl
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.client.control import Client, Refused
from clusterkit.client.control_socket import connect
from clusterkit.client.directory import RunDirectory
from clusterkit.supervisor.control import ControlServer
from clusterkit.supervisor.subscription import CHUNK, Subscription
from clusterkit.words.events import Impaired
from clusterkit.words.protocol import LONGEST
from tests.support import no_descriptors

LONG: dict[str, Any] = {"event": "RestartPlanned", "tail": "x" * (20 * CHUNK)}


class Served:
    """A control server with a journal, and a lock as if a supervisor held it."""

    def __init__(self, run: Path) -> None:
        self.run = RunDirectory(run)
        self.journal = self.run.journal.open("ab", buffering=0)
        self.lock = self.run.lock_file.open("wb")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.posted = queue.SimpleQueue[Any]()
        self.server = ControlServer(self.run, {"run_id": "r"}, self.posted.put)

    def write(self, *events: dict[str, Any]) -> list[int]:
        """Append events; returns the offsets after them."""
        offsets = []
        for event in events:
            self.journal.write(json.dumps(event).encode() + b"\n")
            offsets.append(self.journal.tell())
        self.server.wake()
        return offsets

    def answers(self) -> bool:
        """Whether a new client is served."""
        with Client(self.run) as client:
            return bool(client.call("hello")["run_id"] == "r")

    def close(self) -> None:
        """End the server."""
        self.server.stop()
        self.journal.close()
        self.lock.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server that is stopped after the test."""
    made = Served(tmp_path)
    yield made
    made.close()


HUGE = 2**70
WRONG: dict[tuple[str, str], list[Any]] = {
    ("subscribe", "from"): [HUGE, -HUGE, -1, 1, 2**62, True, 1.0, 1e999, "0", None, [], {}],
    ("kill", "tasks"): [
        7,
        None,
        True,
        "worker:0",
        {"a": 1},
        [7],
        [[]],
        [None],
        ["x" * 60_000],
        ["worker:" + "9" * 4000],
    ],
    ("kill", "signal"): [HUGE, 10**4000, -1, 0, 65, True, 9.0, 1e999, "9", None, [9]],
    ("profile", "steps"): [HUGE, 0, -1, True, 1.5, "20", None, []],
    ("profile", "seconds"): [HUGE, 10**4000, 0, -1, True, float("nan"), 1e999, "30", None, []],
    ("fault", "fault"): [7, None, True, [], {}, [[]]],
    ("down", "force"): [7, None, "yes", []],
}
PARAMS = [(method, {name: value}) for (method, name), values in WRONG.items() for value in values]


@pytest.mark.parametrize(("method", "params"), PARAMS, ids=lambda value: str(value)[:40])
def test_a_parameter_of_the_wrong_kind_is_refused(served: Served, method: str, params: dict[str, Any]) -> None:
    """With a sentence; the client stays connected, and nothing is asked of the run."""
    with Client(served.run) as client:
        with pytest.raises(Refused) as caught:
            client.call(method, **params)
        assert str(caught.value).endswith(".")
        assert len(str(caught.value)) < 70_000
        assert client.call("hello")
    assert served.posted.empty()
    assert served.answers()


@pytest.mark.parametrize("deep", [b"[" * 60_000, b'{"a":' * 12_000], ids=["lists", "objects"])
@pytest.mark.parametrize("method", [b"subscribe", b"kill", b"hello"])
def test_a_request_of_great_depth_is_cut_off(served: Served, method: bytes, deep: bytes) -> None:
    """The parser's own limit is an error of the client's."""
    with connect(served.run, 10) as stranger:
        stranger.sendall(b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{"from":%b}}\n' % (method, deep))
        answer = b"".join(iter(lambda: stranger.recv(4096), b""))
    assert json.loads(answer)["error"]["code"] == -32700
    assert served.answers()


def test_an_event_longer_than_a_chunk_is_delivered(served: Served) -> None:
    """And what comes before and after it, with the offset after each, from which one can go on."""
    near = ({"e": "é" * CHUNK}, {"e": "x" * (CHUNK - 9)}, {"e": "x" * (CHUNK - 8)}, {"e": ""})  # of a chunk's length
    events: list[dict[str, Any]] = [{"event": "Began"}, LONG, *near]
    offsets = served.write(*events)
    for first, start in enumerate([0, *offsets[:-1]]):
        with Client(served.run) as client:
            found = client.events(start, timeout=10)
            assert [next(found) for _ in events[first:]] == list(zip(offsets, events, strict=True))[first:]


def test_answers_come_between_events_and_never_within_one(served: Served) -> None:
    """Each line that a client gets is a message, whatever it asks for meanwhile."""
    served.write(*[LONG] * 5)
    ask = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":{"from":0}}\n'
    with connect(served.run, 10) as client:
        client.sendall(b"".join(ask % (n, b"subscribe" if n % 7 == 0 else b"hello") for n in range(50)))
        lines, seen, events = client.makefile("rb"), set[int](), 0
        while len(seen) < 50 or events < 5:
            message = json.loads(lines.readline())
            seen |= {message["id"]} if "id" in message else set()
            events += message.get("method") == "event"
        lines.close()


def test_a_subscriber_that_reads_nothing_takes_a_chunk_of_memory(served: Served) -> None:
    """However long the journal is; another client is served meanwhile."""
    served.write(LONG, *[{"event": "x"}] * 100_000, LONG)
    with connect(served.run, 10) as slow:
        slow.sendall(b'{"jsonrpc":"2.0","id":1,"method":"subscribe"}\n')
        assert served.answers()
        (client,) = [known for known in served.server._clients.values() if known.subscription is not None]
        assert len(client.unsent) < 16 * CHUNK
        messages = slow.makefile("rb")
        assert len([messages.readline() for _ in range(100_003)]) == 100_003
        messages.close()


def test_a_client_that_asks_and_never_reads_is_hung_up_on(served: Served) -> None:
    """Also in the midst of an event."""
    served.write(LONG)
    ask = b'{"jsonrpc":"2.0","id":1,"method":"hello"}\n'
    with connect(served.run, 10) as rude:
        rude.sendall(b'{"jsonrpc":"2.0","id":1,"method":"subscribe"}\n')
        with pytest.raises(OSError, match=r"Broken pipe|reset|timed out"):
            rude.sendall(ask * 100_000)
    assert served.answers()


def test_no_more_than_a_chunk_of_a_journal_is_in_memory(tmp_path: Path) -> None:
    """Events of every length; the last one is not complete, and waits."""
    sizes = [1, 100, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 7, 10 * CHUNK]
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"".join(b'"%b"\n' % (b"x" * size) for size in sizes) + b"[" * 3 * CHUNK)
    descriptor = os.open(journal, os.O_RDONLY)
    subscription, pieces = Subscription(descriptor, 0), list[bytes]()
    while piece := subscription.next():
        pieces.append(piece)
    os.close(descriptor)
    assert max(map(len, pieces)) <= 2 * CHUNK
    messages = [json.loads(line)["params"] for line in b"".join(pieces).splitlines()]
    assert [len(message["event"]) for message in messages] == sizes
    assert [message["offset"] for message in messages] == [sum(sizes[: n + 1]) + 3 * (n + 1) for n in range(len(sizes))]


def test_no_descriptor_for_a_client_is_told_once_and_passes(served: Served) -> None:
    """The client stays at the door, the server sleeps meanwhile, and serves it when a descriptor is free."""
    clients = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    with no_descriptors():
        for client in clients:
            client.settimeout(10)
            client.connect(str(served.run.control_socket))
            client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"hello"}\n')
        told = served.posted.get(timeout=10)
        used = time.process_time()
        threading.Event().wait(1.0)
        assert time.process_time() - used < 0.5
    assert [json.loads(client.recv(LONGEST))["id"] for client in clients] == [1, 1, 1]
    for client in clients:
        client.close()
    assert isinstance(told, Impaired)
    assert "Too many open files" in told.what
    assert served.posted.empty()
