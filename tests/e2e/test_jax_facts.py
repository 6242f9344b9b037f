"""What JAX does when a process dies, with nobody to help it: the table of docs/jax.md. Each row is a test."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import CHILDREN, ROOT, wait_until

pytest.importorskip("jax", reason="JAX is not installed: pip install 'tf-clusterkit[jax]'")
pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(500)]
NEVER = 0
ROWS = re.findall(r"`(jax_\w+)` \|$", (ROOT / "docs/jax.md").read_text(), re.M)


@dataclass
class Pair:
    """Two processes of JAX that compute together."""

    processes: list[subprocess.Popen[bytes]]
    outputs: list[Path]

    def printed(self, number: int) -> str:
        """What one has printed so far."""
        return self.outputs[number].read_text(errors="replace")

    def ends(self, number: int, within: float) -> float:
        """Wait until one has ended with SIGABRT; return how long that took."""
        began = time.monotonic()
        assert self.processes[number].wait(within) == -signal.SIGABRT, self.printed(number)[-3000:]
        return time.monotonic() - began


@contextmanager
def pair(directory: Path, raises: tuple[int, int] = (NEVER, NEVER)) -> Iterator[Pair]:
    """Two processes that have begun to compute; their port is held, as a run's supervisor holds it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        outputs = [directory / f"output-{number}" for number in range(2)]
        processes = []
        for number, output in enumerate(outputs):
            words = [sys.executable, str(CHILDREN / "jax_sums.py"), address, "2", str(number), str(raises[number])]
            with output.open("wb") as file:
                processes.append(subprocess.Popen(words, stdout=file, stderr=file))
        made = Pair(processes, outputs)
        try:
            wait_until(lambda: all("trains" in made.printed(n) for n in range(2)), 120, "both compute", pause=0.1)
            yield made
        finally:
            for process in processes:
                process.kill()
                process.wait(10)


def test_jax_process_0_is_killed(tmp_path: Path) -> None:
    """The coordination service is gone with it, and the other process ends itself at once."""
    with pair(tmp_path) as both:
        both.processes[0].kill()
        both.ends(1, 15)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_jax_process_1_is_killed(tmp_path: Path, whole: bool) -> None:
    """The other process gets an error soon, and waits at its exit until heartbeats have been missing for long."""
    with pair(tmp_path) as both:
        both.processes[1].kill()
        wait_until(lambda: re.search(r"Error: .*Gloo [\w-]+ failed", both.printed(0)), 15, "the error", pause=0.1)
        with pytest.raises(subprocess.TimeoutExpired):
            both.processes[0].wait(2)
        assert not whole or both.ends(0, 150) > 60


@pytest.mark.soak
@pytest.mark.parametrize("number", [0, 1])
def test_jax_a_process_raises(tmp_path: Path, number: int) -> None:
    """It waits at its exit for the other one, and that for it: neither ends for five minutes."""
    with pair(tmp_path, (40, NEVER) if number == 0 else (NEVER, 40)) as both:
        wait_until(lambda: "ValueError: mine" in both.printed(number), 60, "the error", pause=0.1)
        for process in both.processes:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
        assert both.ends(number, 400) > 250


@pytest.mark.soak
@pytest.mark.parametrize("number", [0, 1])
def test_jax_a_process_is_stopped(tmp_path: Path, number: int) -> None:
    """The other one ends itself when heartbeats have been missing for long."""
    with pair(tmp_path) as both:
        both.processes[number].send_signal(signal.SIGSTOP)
        assert both.ends(1 - number, 150) > 60


@pytest.mark.soak
def test_jax_process_1_gets_sigterm(tmp_path: Path) -> None:
    """JAX catches it, and both continue."""
    with pair(tmp_path) as both:
        both.processes[1].terminate()
        wait_until(lambda: "SIGTERM caught" in both.printed(1), 15, "the line", pause=0.1)
        with pytest.raises(subprocess.TimeoutExpired):
            both.processes[1].wait(2)


def test_each_row_of_the_table_is_a_test() -> None:
    """And no other."""
    assert set(ROWS) == {name.removeprefix("test_") for name in globals() if name.startswith("test_jax_")}
