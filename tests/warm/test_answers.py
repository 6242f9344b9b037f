"""Answers of a fork server other than a pid: each ends the server in time, and the attempt starts cold."""

from __future__ import annotations

import json
import os
import queue
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.job.plan import Start, TaskPlan
from clusterkit.system import exchange, procfs
from clusterkit.warm import fork_client as warm
from clusterkit.warm import warm_client
from clusterkit.warm.fork_client import ForkServer, NoForkServer, StartedServer
from clusterkit.words.events import Crashed, Noted
from clusterkit.words.model import ProgramKind, Task, TaskType

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

READY = json.dumps({"problem": None, "seconds": 0.1, "modules": {"json": "/lib"}}).encode() + b"\n"
PLAN = TaskPlan(Task(TaskType.WORKER, 0), ProgramKind.COMMAND, "python", "true", (), "/", {})
WITHIN = 0.5  # seconds, in place of those that a fork may take, where the answer never comes


class Stage:
    """A process in place of the fork server; the test has the ends of its socket and lifeline."""

    def __init__(self) -> None:
        ours, self.other = socket.socketpair()
        lifeline, self.held = os.pipe2(os.O_CLOEXEC)
        self.process = subprocess.Popen(["sleep", "60"])
        self.posted = queue.SimpleQueue[Noted | Crashed]()
        self.server = ForkServer(StartedServer(self.process.pid, ours.detach(), lifeline), self.posted.put)

    def ready(self) -> None:
        """Report the end of the imports."""
        os.write(self.held, READY)
        assert "is ready" in str(self.posted.get(timeout=10))

    def fork(self) -> int:
        """Request a fork for a command."""
        null = os.open(os.devnull, os.O_RDWR)
        try:
            return self.server.finish_fork(self.server.request_fork(Start(PLAN, {}, null, null)))
        finally:
            os.close(null)

    def end(self) -> None:
        """Stop the server, which has ended or is killed."""
        self.server.stop()
        self.process.wait(10)
        self.other.close()
        os.close(self.held)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A fork server whose answers the test writes."""
    made = Stage()
    yield made
    made.end()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the server less time."""
    monkeypatch.setattr(warm, "ANSWER_WITHIN", WITHIN)


def lost(stage: Stage) -> str:
    """Why the server was given up; its process has ended."""
    event = stage.posted.get(timeout=10)
    assert isinstance(event, Noted)
    assert stage.process.wait(10) == -9
    why = re.fullmatch(r"The fork server is gone \((.*)\); .*\.", event.text)
    assert why is not None
    return why[1]


NONSENSE = [
    b"no JSON\n",
    b"\xff\xfe\n",
    b"\n",
    b"[]\n",
    b"5\n",
    b"{}\n",
    b'{"pid": 1}\n',
    b'{"pid": "7"}\n',
    b'{"pid": true}\n',
    b'{"pid": -1}\n',
    b'{"pid": 1e999}\n',
    b'{"pid": 1%s}\n' % (b"0" * 400),
    b'{"pid": 1%s}\n' % (b"0" * 5000),
    b'{"errno": "x"}\n',
    b'{"errno": 1%s}\n' % (b"0" * 400),
    b'{"errno": 123456}\n',
    b"[" * 100_000 + b"\n",
    b"x" * (exchange.MAX_ANSWER + 1),
]


@pytest.mark.parametrize("answer", NONSENSE, ids=lambda answer: repr(answer[:20]))
def test_an_invalid_answer(stage: Stage, answer: bytes) -> None:
    """The server is killed with a message, and no process counts as a task."""
    stage.ready()
    writer = threading.Thread(target=stage.other.sendall, args=(answer,))
    writer.start()
    with pytest.raises(NoForkServer):
        stage.fork()
    assert lost(stage) == "its answer is invalid"
    stage.server._channel.close()
    writer.join(10)


@pytest.mark.parametrize("half", [b"", b'{"pid": '])
@pytest.mark.usefixtures("impatient")
def test_no_answer_or_an_incomplete_one(stage: Stage, half: bytes) -> None:
    """The server gets its time, and no more."""
    stage.ready()
    stage.other.sendall(half)
    begun = time.monotonic()
    with pytest.raises(NoForkServer):
        stage.fork()
    assert time.monotonic() - begun >= WITHIN
    assert lost(stage) == f"it did not answer within {WITHIN:g} s"


@pytest.mark.usefixtures("impatient")
def test_an_answer_that_never_ends(stage: Stage) -> None:
    """A byte now and then does not extend the time."""
    stage.ready()
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.05):
            stage.other.sendall(b" ")

    dripping = threading.Thread(target=drip)
    dripping.start()
    with pytest.raises(NoForkServer):
        stage.fork()
    over.set()
    dripping.join()


def test_an_error_is_that_of_the_start(stage: Stage) -> None:
    """As with any failed start; the server stays."""
    stage.ready()
    stage.other.sendall(b'{"errno": 11}\n')
    with pytest.raises(BlockingIOError):
        stage.fork()
    assert stage.process.poll() is None


def test_answers_that_arrive_together_are_kept_apart(stage: Stage) -> None:
    """Several forks are requested before the first answer is read; later answers are kept."""
    stage.ready()
    null = os.open(os.devnull, os.O_RDWR)
    asked = [stage.server.request_fork(Start(PLAN, {}, null, null)) for _ in range(4)]
    stage.other.sendall(b'{"errno": 11}\n{"errno": 12}\n{"err')
    with pytest.raises(BlockingIOError):
        stage.server.finish_fork(asked[0])
    with pytest.raises(OSError, match="Cannot allocate memory"):
        stage.server.finish_fork(asked[1])
    stage.other.sendall(b'no": 11}\n[]\n')
    with pytest.raises(BlockingIOError):
        stage.server.finish_fork(asked[2])
    with pytest.raises(NoForkServer):
        stage.server.finish_fork(asked[3])
    assert lost(stage) == "its answer is invalid"
    os.close(null)


@pytest.mark.usefixtures("impatient")
def test_pending_forks_of_a_server_that_is_given_up_start_cold(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their gates close, so a task that was forked meanwhile ends."""
    awaited: list[float] = []

    def answer(channel: socket.socket, until: float, received: bytearray) -> dict[str, Any]:
        awaited.append(until)
        return exchange.answer(channel, until, received)

    monkeypatch.setattr(warm, "answer", answer)
    stage.ready()
    null = os.open(os.devnull, os.O_RDWR)
    asked = [stage.server.request_fork(Start(PLAN, {}, null, null)) for _ in range(3)]
    gates = [f"pipe:[{os.fstat(one.opened).st_ino}]" for one in asked]
    for one, gate in zip(asked, gates, strict=True):
        assert gate in procfs.links(os.getpid())
        with pytest.raises(NoForkServer):
            stage.server.finish_fork(one)
        assert gate not in procfs.links(os.getpid())
    assert len(awaited) == 1, "the server has its time once"
    os.close(null)


@pytest.mark.parametrize("line", [b"no JSON\n", b"[]\n", b"{}\n", b'{"problem": null}\n', b"[" * 100_000 + b"\n"])
def test_a_server_with_an_invalid_report(stage: Stage, line: bytes) -> None:
    """The server does not count as ready."""
    writer = threading.Thread(target=os.write, args=(stage.held, line))
    writer.start()
    assert lost(stage) == "it did not become ready"
    writer.join(10)


def test_a_server_that_can_not_be_killed_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    """Neither during its imports nor later; the end of the run tries again."""
    monkeypatch.setattr(ForkServer, "_kill", lambda server: None)
    stage.server.stop()
    assert stage.process.poll() is None
    monkeypatch.undo()
    monkeypatch.setattr(stage.server, "stop", stage.process.kill)  # when the stage ends: monkeypatch outlives it


def test_a_warm_server_that_does_not_end_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers and continues, which the caller learns."""
    monkeypatch.setattr(warm_client, "ANSWER_WITHIN", 0.2)
    process = subprocess.Popen(["sleep", "60"])

    def serve() -> None:
        for _ in range(2):
            client, _ = listener.accept()
            with client:
                size = int.from_bytes(client.recv(4, socket.MSG_WAITALL))
                client.recv(size, socket.MSG_WAITALL)
                client.sendall(b'{"pid": %d}\n' % process.pid)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        serving = threading.Thread(target=serve)
        serving.start()
        assert warm_client.stop(tmp_path / "s") is False
        serving.join(10)
    process.kill()
    process.wait(10)


@pytest.mark.usefixtures("impatient")
def test_an_answer_that_has_arrived_counts_however_late_it_is_read(stage: Stage) -> None:
    """The supervisor may have been stopped. An answer that has not arrived by then is too late."""
    stage.ready()
    null = os.open(os.devnull, os.O_RDWR)
    asked = [stage.server.request_fork(Start(PLAN, {}, null, null)) for _ in range(2)]
    stage.other.sendall(b'{"errno": 11}\n{"errno"')
    time.sleep(2 * WITHIN)
    with pytest.raises(BlockingIOError):
        stage.server.finish_fork(asked[0])
    with pytest.raises(NoForkServer):
        stage.server.finish_fork(asked[1])
    assert lost(stage) == f"it did not answer within {WITHIN:g} s"
    os.close(null)


def test_a_task_that_dies_before_its_gate_opens_was_started(stage: Stage) -> None:
    """Something, such as the kernel's OOM killer, kills it at once: its exit shows that, as usual."""
    stage.ready()
    null = os.open(os.devnull, os.O_RDWR)
    asked = stage.server.request_fork(Start(PLAN, {}, null, null))
    body = stage.other.recv(4 + (1 << 16))  # and with it the task's end of the gate, which is closed
    assert body
    dead = subprocess.Popen(["true"])
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    stage.other.sendall(b'{"pid": %d}\n' % dead.pid)
    assert stage.server.finish_fork(asked) == dead.pid
    dead.wait(10)
    os.close(null)
