"""What `breakpoint()` does in a program's threads, in odd places, and when its client goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Up

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

HOLD = ("--breakpoints", "hold")
Start = Callable[..., Up]


def program(tmp_path: Path, *lines: str) -> Path:
    """A program of these lines."""
    (tmp_path / "program.py").write_text("\n".join([*lines, ""]))
    return tmp_path / "program.py"


THREADS = (
    "import threading",
    "together = threading.Barrier(4)",
    "def work(number):",
    "    together.wait()",
    "    breakpoint()",
    "    print('thread', number, 'ends')",
    "threads = [threading.Thread(target=work, args=[number]) for number in range(4)]",
    "for thread in threads:",
    "    thread.start()",
    "for thread in threads:",
    "    thread.join()",
)


def test_several_threads_call_the_first_breakpoint_at_once(up: Start, tmp_path: Path) -> None:
    """Each loads what holds a task; nobody can connect, and all continue."""
    run = up("--workers", 1, program(tmp_path, *THREADS))
    assert run.wait(40) == 0
    assert [f"thread {number} ends" in run.output for number in range(4)] == [True] * 4, run.output
    assert run.output.count("and the task continues") == 1
