"""The socket of a held task: whoever connects, and whatever they send, the run continues."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import termios
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from clusterkit.system import procfs
from clusterkit.system.exchange import parse_line
from tests.support import CHILDREN, Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

BREAKS = CHILDREN / "breaks.py"
HOLD = ("--breakpoints", "hold")
LEAVE = b'{"line": "c"}\n'
Start = Callable[..., Up]


def held(up: Start) -> tuple[Up, Path]:
    """A run with a held task, and its socket."""
    run = up("--workers", 1, *HOLD, BREAKS, "worker:0", 2, 3)
    run.wait_for("InDebugger")
    return run, run.run / "tasks/worker:0/debugger.sock"


def connected(path: Path) -> socket.socket:
    """A client of the socket."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        client.connect(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
    return client


def test_only_this_user_can_connect(up: Start) -> None:
    run, path = held(up)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    connected(path).close()
    assert run.wait(20) == 0


HOSTILE = [
    b"\0" * 100 + b"\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"{}\n", b'{"line": 7}\n', b'{"complete": [1]}\n',
    b'{"complete": ["p x", "a", {}]}\n', b'{"complete": []}\n', b'"line"\n', b"\n",
    b'{"line": "p 1", "interrupt": 1}\n',
    json.dumps({"line": "x" * 100_000}).encode() + b"\n", json.dumps({"line": "p '\0'"}).encode() + b"\n",
    json.dumps({"line": "(" * 100_000}).encode() + b"\n", json.dumps({"line": "a\nb\r\nc"}).encode() + b"\n",
    json.dumps({"line": "\ud800"}).encode() + b"\n",
    json.dumps({"line": "commands 99999999999999999999"}).encode() + b"\n",
    json.dumps({"line": "!import sys; sys.exit(3)"}).encode() + b"\n", json.dumps({"line": "until x"}).encode() + b"\n",
    json.dumps({"line": "tbreak nowhere:1"}).encode() + b"\n", json.dumps({"line": "up -99999"}).encode() + b"\n",
]  # fmt: skip


def messages(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """The task's messages, without one that an interrupt has torn; clients ignore those too."""
    for line in stream:
        if isinstance(message := parse_line(line), dict):
            yield message


def test_hostile_bytes_do_not_end_the_task(up: Start) -> None:
    run, path = held(up)
    with connected(path) as client:
        stream = client.makefile("rb")
        assert any("prompt" in message for message in messages(stream))
        client.sendall(b'{"interrupt": true}\n')  # drops what it comes with, as Ctrl-C does
        assert any("KeyboardInterrupt" in message.get("out", "") for message in messages(stream))
        for line in HOSTILE:
            client.sendall(line)
        client.sendall(b'{"line": "p 40 + 2"}\n')
        assert any(message.get("out") == "42\n" for message in messages(stream))
        client.sendall(b'{"line": "c"}\n')
        assert any("left" in message for message in messages(stream))
        stream.close()
    assert run.wait(20) == 0
    assert len(run.events("Spawned")) == 1


@pytest.mark.parametrize(
    "flood", [b"x" * (3 << 20), b'{"line": "p 1"}\n' * 5000, b'{"line": "commands 1"}\n{"line": "p']
)
def test_whoever_sends_too_much_or_half_a_line_is_disconnected_and_the_run_continues(up: Start, flood: bytes) -> None:
    run, path = held(up)
    with connected(path) as client:
        try:
            client.sendall(flood)
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass
        except OSError:
            pass
    assert run.wait(20) == 0
    assert len(run.events("Spawned")) == 1


def test_an_interrupt_within_a_message_tears_only_that_message(up: Start) -> None:
    """Printing a megabyte fills the socket's buffer, so that an interrupt comes while the message is sent.

    Not each does, since reading may let the task go on first: the first of ten that does is looked at.
    """
    run, path = held(up)
    seen: list[bytes] = []
    with connected(path) as client, client.makefile("rb") as stream:
        assert any("prompt" in message for message in messages(stream))
        task = run.pids()["worker:0"][-1]
        for _ in range(10):
            # 12 bytes each, as JSON: the answer is longer than the buffer.
            client.sendall(b'{"line": "p \'\\ud83d\\ude00\' * 70000"}\n')
            wait_until(
                lambda: unread(client) > 1 << 16 and procfs.thread_state(task, task) == "S", 20, "it can't go on"
            )
            before = waits(task)
            client.sendall(b'{"interrupt": true}\n')
            wait_until(partial(lambda before: waits(task) > before, before), 20, "the interrupt has reached it")
            client.sendall(b'{"line": "p 40 + 2"}\n')
            seen = []
            for line in stream:
                seen.append(line)
                if shows(line, "42\n"):
                    break
            if any(line != b"\n" and not is_json(line) for line in seen):
                break
        client.sendall(LEAVE)
        assert any("left" in message for message in messages(stream))
    assert run.wait(20) == 0
    assert [line[:9] for line in seen if not is_json(line)] == [b'{"out": "']
    assert any(shows(line, "*** KeyboardInterrupt\n") for line in seen)


def test_a_line_right_after_an_interrupt_is_not_lost(up: Start) -> None:
    """Whatever the task does then: interrupts come while a line is executed, or while one is awaited."""
    run, path = held(up)
    with connected(path) as client, client.makefile("rb") as stream:
        for number in range(300):
            client.sendall(b'{"line": "sum(range(1000))"}\n' * (number % 3) + b'{"interrupt": true}\n')
            client.sendall(b'{"line": "p %d"}\n' % number)
            assert any(message.get("out") == f"{number}\n" for message in messages(stream))
        client.sendall(LEAVE)
        assert any("left" in message for message in messages(stream))
    assert run.wait(20) == 0


def test_a_client_that_goes_while_the_program_runs_has_left_the_task(up: Start, tmp_path: Path) -> None:
    """The program runs until its next stop, but is not held: its time limits count."""
    program = tmp_path / "program.py"
    program.write_text("import time\nbreakpoint()\nfor _ in range(1):\n    print('works')\n    time.sleep(600)\n")
    run = up("--workers", 1, "--timeout", "10s", *HOLD, program)
    run.wait_for("InDebugger")
    with connected(run.run / "tasks/worker:0/debugger.sock") as client:
        client.sendall(b'{"line": "next"}\n' * 5)
        wait_until(lambda: "works" in run.output, 20, "the program runs")
    run.wait_for("LeftDebugger", 20)
    assert run.wait(40) == 124
    assert len(run.events("LeftDebugger")) == 1


def unread(client: socket.socket) -> int:
    """The number of bytes that wait to be read."""
    return int.from_bytes(fcntl.ioctl(client, termios.FIONREAD, bytes(4)), sys.byteorder)


def waits(task: int) -> int:
    """How often a task's main thread has started to wait."""
    return int(procfs.status_of(task, "voluntary_ctxt_switches") or 0)


def is_json(line: bytes) -> bool:
    """Whether a line is a whole message."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def shows(line: bytes, text: str) -> bool:
    """Whether a line is the message that shows this text."""
    return is_json(line) and json.loads(line).get("out") == text
