"""The control server by itself: whatever clients send, and however slowly they read, it serves the next one."""

from __future__ import annotations

import fcntl
import json
import queue
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.store.control import Client, Refused, connect, listen
from clusterkit.store.directory import RunDirectory
from clusterkit.supervisor.control import ControlServer
from clusterkit.words.events import Impaired
from clusterkit.words.protocol import LONGEST
from tests.support import no_descriptors


class Served:
    """A control server, and a lock as if a supervisor held it."""

    def __init__(self, run: Path) -> None:
        self.run = RunDirectory(run)
        self.lock = self.run.lock_file.open("wb")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.posted = queue.SimpleQueue[Any]()
        self.server = ControlServer(self.run, {"run_id": "r"}, self.posted.put)

    def answers(self) -> bool:
        """Whether a new client is served."""
        with Client(self.run) as client:
            return bool(client.call("hello")["run_id"] == "r")

    def close(self) -> None:
        """End the server."""
        self.server.stop()
        self.lock.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server that is stopped after the test."""
    made = Served(tmp_path)
    yield made
    made.close()


HUGE = 2**70
WRONG: dict[tuple[str, str], list[Any]] = {
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
@pytest.mark.parametrize("method", [b"kill", b"hello"])
def test_a_request_of_great_depth_is_cut_off(served: Served, method: bytes, deep: bytes) -> None:
    """The parser's own limit is an error of the client's."""
    with connect(served.run, 10) as stranger:
        stranger.sendall(b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{"tasks":%b}}\n' % (method, deep))
        answer = b"".join(iter(lambda: stranger.recv(4096), b""))
    assert json.loads(answer)["error"]["code"] == -32700
    assert served.answers()


@pytest.mark.parametrize("place", ["run", "d" * 110], ids=["short path", "long path"])
def test_who_finds_the_socket_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """The socket has its name only once it listens."""
    run, early = RunDirectory(tmp_path / place), list[str]()
    run.path.mkdir()

    class Watched(socket.socket):
        def listen(self, *args: int) -> None:
            assert not run.control_socket.exists()
            early.append(self.getsockname())
            super().listen(*args)

    monkeypatch.setattr(socket, "socket", Watched)
    with listen(run):
        assert early
        connect(run, 10).close()


def test_requests_that_arrive_together_are_answered_in_their_order(served: Served) -> None:
    """Each line that a client gets is one answer."""
    ask = b'{"jsonrpc":"2.0","id":%d,"method":"hello"}\n'
    with connect(served.run, 10) as client, client.makefile("rb") as lines:
        client.sendall(b"".join(ask % number for number in range(50)))
        assert [json.loads(lines.readline())["id"] for _ in range(50)] == list(range(50))


def test_a_client_that_asks_and_never_reads_is_hung_up_on(served: Served) -> None:
    """Its answers are not kept without limit."""
    ask = b'{"jsonrpc":"2.0","id":1,"method":"hello"}\n'
    with connect(served.run, 10) as rude, pytest.raises(OSError, match=r"Broken pipe|reset|timed out"):
        rude.sendall(ask * 100_000)
    assert served.answers()


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
