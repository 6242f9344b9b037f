"""A worker of a real gang is held in the debugger while its peers wait in a collective."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up
from tests.terminal import on_terminal

pytestmark = pytest.mark.tensorflow


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=pytest.mark.soak)])
def test_a_gang_waits_for_a_worker_in_the_debugger(up: Callable[..., Up], home: Path, seconds: float) -> None:
    """The stall timeout, shorter than that, stands still; the run ends well, without a restart."""
    run = up(
        "--workers", "3", "--breakpoints", "hold", "--stall-warning", "3s", "--stall-timeout", "6s",
        CHILDREN / "gang_breaks.py", "worker:1", "12",
    )  # fmt: skip
    run.wait_for("InDebugger", deadline=100, task="worker:1")
    with on_terminal(home, "debug", "worker:1") as debug:
        debug.read_until(lambda text: "worker:1 (Pdb)" in text)
        debug.press(f"__import__('time').sleep({seconds})\r".encode())
        debug.read_until(lambda text: text.count("worker:1 (Pdb)") == 2, deadline=seconds + 30)
        debug.press(b"p number\r")
        debug.read_until(lambda text: text.count("worker:1 (Pdb)") == 3)
        debug.press(b"c\r")
        debug.finish(60)
    assert run.wait(60) == 0
    assert run.result["restarts"] == 0
    assert run.result["last_step"] == 12
    held, left = run.events("InDebugger")[0], run.events("LeftDebugger")[0]
    warned = [*run.events("Warned"), *run.events("Stalled")]
    assert [e["text"] for e in warned if held["m"] <= e["m"] <= left["m"]] == []
    assert left["m"] - held["m"] >= seconds
