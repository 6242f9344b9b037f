"""What TensorBoard's process sends: its address or why there is none; anything else is ignored."""

from __future__ import annotations

import queue
import sys
from pathlib import Path
from typing import Any

import pytest

from clusterkit.companions import Script
from clusterkit.store.directory import RunDirectory
from clusterkit.tensorboard.companion import start_tensorboard
from clusterkit.words.events import TensorBoardLost, TensorBoardReady

pytestmark = pytest.mark.process

PLAYED = "import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); s.sendall(eval(sys.argv[2])); {then}"
NONSENSE = b"\n".join([
    *(b"no JSON", b"\xff\xfe", b"", b"[]", b"5", b"{}", b'{"address": 7}', b'{"lost": null}', b"1" + b"0" * 5000),
    b"[" * 20_000,
])  # fmt: skip


def played(monkeypatch: pytest.MonkeyPatch, run: Path, sent: bytes, then: str) -> list[Any]:
    """What is posted when the process sends that, up to the first event, and after the stop."""
    program = PLAYED.format(then=then)
    monkeypatch.setattr(Script, "argv", lambda _, channel: [sys.executable, "-c", program, str(channel), repr(sent)])
    posted = queue.SimpleQueue[Any]()
    board = start_tensorboard(RunDirectory(run), posted.put)
    events = [posted.get(timeout=30)]
    board.stop()
    while not posted.empty():
        events.append(posted.get())
    return events


def test_what_makes_no_sense_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address after it is taken."""
    sent = NONSENSE + b'\n{"address": "http://localhost:6006/"}\n'
    assert played(monkeypatch, tmp_path, sent, "s.recv(1)") == [TensorBoardReady("http://localhost:6006/")]


@pytest.mark.parametrize("half", [b"", b'{"addr', b'{"address": "http://localh'])
def test_a_process_that_ends_within_a_line_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: bytes
) -> None:
    """As one that is killed; the log is named."""
    (event,) = played(monkeypatch, tmp_path, half, "")
    assert isinstance(event, TensorBoardLost)
    assert "its process has ended" in event.why


def test_the_reason_why_there_is_none_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its later end is no news."""
    (event,) = played(monkeypatch, tmp_path, b'{"lost": "no module"}\n', "")
    assert event == TensorBoardLost(f"no module (its log: {tmp_path / 'tensorboard.log'})")
