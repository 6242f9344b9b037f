"""A companion that ends: whatever it leaves unread, the run learns that it has ended, and nothing else happens."""

from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clusterkit.companions import Companion, Script
from clusterkit.store.directory import RunDirectory

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]
READY = """import os, sys, time
os.write(int(sys.argv[1]), b'"ready"\\n')
time.sleep(60)
"""


def argv(_: Script, descriptor: int) -> Sequence[str]:
    """A process that says that it is there, and reads nothing."""
    return [sys.executable, "-c", READY, str(descriptor)]


@pytest.mark.parametrize("unread", [0, 1, 100])
def test_one_that_is_killed_with_something_unread_has_ended(
    tmp_path: Path, unread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux says then that the connection was reset."""
    said = queue.SimpleQueue[Any]()
    monkeypatch.setattr(Script, "argv", argv)
    script = Script("idle", "", RunDirectory(tmp_path))
    companion = Companion(script, said.put, lambda: said.put("ended"), said.put)
    assert said.get(timeout=30) == "ready"
    for number in range(unread):
        companion.send({"number": number})
    os.kill(companion.pid, signal.SIGKILL)
    assert said.get(timeout=30) == "ended"
    companion.stop(5)
    assert said.empty()
