"""Stand-ins for hosts that do not end by themselves."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from clusterkit.engines import processes
from clusterkit.engines.processes import Processes

pytestmark = pytest.mark.process


def test_agents_that_do_not_end_have_their_time_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And are killed then, not one after the other."""
    monkeypatch.setattr(processes, "END_WITHIN", 1.0)
    engine = Processes(30, tmp_path / "log")
    engine.agents = [subprocess.Popen(["sleep", "600"]) for _ in range(30)]
    begun = time.monotonic()
    engine.stop()
    assert [agent.returncode for agent in engine.agents] == [-signal.SIGKILL] * 30
    assert time.monotonic() - begun < 20
