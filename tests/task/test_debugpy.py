"""debugpy in a task, with a client that speaks the Debug Adapter Protocol as an editor does."""

from __future__ import annotations

import itertools
import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import editor as patch
from tests.strangers import STRANGER, connected, needs_root
from tests.support import CHILDREN, Up, wait_until

pytest.importorskip("debugpy")
pytestmark = [pytest.mark.process, pytest.mark.slow]

BREAKS = CHILDREN / "breaks.py"
Start = Callable[..., Up]


class Editor:
    """A client of the protocol: messages with a length, then JSON."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), 10)
        self._file = self._socket.makefile("rb")
        self._count = 0
        self._kept: list[dict[str, Any]] = []  # what came while an answer was waited for

    def close(self) -> None:
        """Disconnect."""
        self._file.close()
        self._socket.close()

    def ask(self, command: str, wait: bool = True, **arguments: Any) -> dict[str, Any]:
        """Send a request; return the body of its answer."""
        self._count += 1
        number = self._count
        text = json.dumps({"seq": number, "type": "request", "command": command, "arguments": arguments})
        self._socket.sendall(f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
        if not wait:
            return {}
        for answer in self.messages():
            if answer["type"] == "response" and answer["request_seq"] == number:
                break
            self._kept.append(answer)
        assert answer["success"], answer
        body: dict[str, Any] = answer.get("body") or {}
        return body

    def event(self, name: str) -> dict[str, Any]:
        """Wait for an event; return its body."""
        found = next(one for one in itertools.chain(self._kept, self.messages()) if one.get("event") == name)
        if found in self._kept:
            self._kept.remove(found)
        body: dict[str, Any] = found.get("body", {})
        return body

    def messages(self) -> Iterator[dict[str, Any]]:
        """The messages that arrive."""
        while True:
            size = 0
            while (line := self._file.readline().strip()) or not size:
                name, _, value = line.partition(b":")
                size = int(value) if name == b"Content-Length" else size
            yield json.loads(self._file.read(size))

    def attach(self) -> None:
        """Attach, as Visual Studio Code does."""
        self.ask("initialize", clientID="vscode", adapterID="debugpy", pathFormat="path", linesStartAt1=True)
        self.ask("attach", wait=False, justMyCode=True, connect={"host": "127.0.0.1"})
        self.event("initialized")


def line_of(text: str) -> int:
    """The number of the program's line with this text."""
    return next(number for number, line in enumerate(BREAKS.read_text().splitlines(), 1) if text in line)


def test_an_editor_attaches_sets_a_breakpoint_looks_and_continues(up: Start) -> None:
    """The program waits for it; time limits stand still meanwhile."""
    run = up(
        "--workers", 2, "--stall-timeout", "1s", "--timeout", "8s", "--debugpy", "worker:0", "--debugpy-wait",
        BREAKS, "worker:7", 0, 30,
    )  # fmt: skip
    ready = run.wait_for("EditorAwaited")
    assert (ready["task"], ready["waits"]) == ("worker:0", True)
    editor = Editor(ready["address"])
    try:
        editor.attach()
        where: dict[str, Any] = {
            "source": {"path": str(BREAKS)},
            "breakpoints": [{"line": line_of("return loss"), "condition": "number == 2"}],
        }
        assert editor.ask("setBreakpoints", **where)["breakpoints"][0]["verified"]
        editor.ask("configurationDone")
        stopped = editor.event("stopped")
        assert stopped["reason"] == "breakpoint"
        frame = editor.ask("stackTrace", threadId=stopped["threadId"])["stackFrames"][0]
        assert (frame["name"], frame["line"]) == ("step", line_of("return loss"))
        assert editor.ask("evaluate", expression="number * 21", frameId=frame["id"])["result"] == "42"
        run.wait_for("InDebugger", editor=True)
        wait_until(lambda: run.events("Exited", task="worker:1"), 20, "the end of worker:1, which waits for nobody")
        editor.ask("continue", threadId=stopped["threadId"])
        assert run.wait(30) == 0  # while the editor is attached, the limits stand still
    finally:
        editor.close()
    assert run.result["restarts"] == 0
    assert "behind, which clusterkit killed" not in run.output


def test_the_program_continues_when_an_editor_disconnects(up: Start, tmp_path: Path) -> None:
    """It continues, and the supervisor learns that it is not held."""
    program, go = tmp_path / "program.py", tmp_path / "go"
    program.write_text(f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\n")
    run = up("--workers", 1, "--debugpy", "worker:0", "--debugpy-wait", program)
    editor = Editor(run.wait_for("EditorAwaited")["address"])
    try:
        editor.attach()
        editor.ask("configurationDone")
        run.wait_for("InDebugger", editor=True)
        editor.ask("disconnect", terminateDebuggee=False)
    finally:
        editor.close()
    run.wait_for("LeftDebugger")
    go.touch()
    assert run.wait(30) == 0
    assert run.result["restarts"] == 0


@needs_root
def test_another_user_of_the_machine_can_not_attach(up: Start, tmp_path: Path) -> None:
    """An editor runs code in the task, so only this user may connect; a refused connection has no effect."""
    program = tmp_path / "program.py"
    program.write_text("print('begun')\n")
    run = up("--workers", "1", "--debugpy", "worker:0", "--debugpy-wait", program)
    address = run.wait_for("EditorAwaited")["address"]
    host, port = address.split(":")
    for _ in range(2):
        with connected((host, int(port))) as stranger:
            text = json.dumps({"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "x"}})
            with suppress(ConnectionResetError, BrokenPipeError):
                stranger.sendall(f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
                assert stranger.recv(1) == b""
    refused = f"the user {STRANGER} tried to attach to this task's debugpy"
    wait_until(lambda: refused in run.output, 20, "the line about the refused user")
    editor = Editor(address)
    try:
        editor.attach()
        editor.ask("configurationDone")
        assert run.wait(30) == 0
    finally:
        editor.close()
    assert run.output.count(refused) == 1  # said once of a user, however often that user tries


def test_a_debugpy_that_can_not_be_guarded_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a version opens its port in another way, every user could attach."""
    monkeypatch.setenv("CLUSTERKIT_DEBUGPY", "0")
    thread = SimpleNamespace(run=lambda: None)
    pydevd = SimpleNamespace(PyDB=SimpleNamespace(_WaitForConnectionThread=thread), create_server_socket=print)
    for found in (pydevd, SimpleNamespace()):
        for name, module in {"debugpy": SimpleNamespace(), "debugpy.server.api": None, "pydevd": found}.items():
            monkeypatch.setitem(sys.modules, name, module or SimpleNamespace())
        patch.start(None, lambda name: SimpleNamespace())
        assert "debugpy does not start: this version of it lets every user" in capsys.readouterr().err


def test_an_editor_is_told_of_an_address_that_it_can_connect_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """debugpy returns once its thread has bound the port, perhaps before it listens."""

    def bind(address: tuple[str, int], **_: bool) -> tuple[str, int]:
        bound.bind(address)
        name: tuple[str, int] = bound.getsockname()
        return name

    def report(_: str, port: int, **__: object) -> None:
        socket.create_connection(("127.0.0.1", port), 10).close()
        raise SystemExit

    monkeypatch.setenv("CLUSTERKIT_DEBUGPY", "0")
    monkeypatch.setitem(sys.modules, "debugpy", SimpleNamespace(configure=lambda **_: None, listen=bind))
    monkeypatch.setattr(patch, "guard", lambda peers: None)
    with socket.socket() as bound:
        monkeypatch.setattr(patch, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: bound.listen()))
        with pytest.raises(SystemExit):
            patch.start(None, lambda _: SimpleNamespace(report=report))


def test_a_program_need_not_wait_and_a_port_can_be_chosen(up: Start) -> None:
    """Without an editor it runs normally."""
    with socket.socket() as held:  # bound and not listening: nobody else is given the port, and debugpy can share it
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        run = up("--workers", 1, "--debugpy", f"worker:0={port}", BREAKS, "worker:0", 2, 4)
        assert run.wait(30) == 0
    assert f"worker:0 runs debugpy at 127.0.0.1:{port}, for an editor to attach to." in run.output
    assert not run.events("InDebugger")


def test_a_port_that_is_taken_does_not_stop_the_task(up: Start) -> None:
    """The task prints a message."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = up("--workers", 1, "--debugpy", f"worker={taken.getsockname()[1]}", BREAKS, "worker:7", 2, 4)
        assert run.wait(30) == 0
    assert "debugpy does not start" in run.output


def test_without_debugpy_nothing_is_started(up: Start, tmp_path: Path) -> None:
    """With one clear error."""
    (tmp_path / "bare").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (tmp_path / "bare").chmod(0o755)
    run = up("--debugpy", "worker:0", "--python", tmp_path / "bare", BREAKS, "worker:0", 2, 4)
    assert run.wait(20) == 2
    assert "--debugpy needs debugpy, which the interpreter" in run.output
    assert "pip install 'tf-clusterkit[debugpy]'" in run.output
