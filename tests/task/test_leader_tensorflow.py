"""With real TensorFlow: no worker connects to a leader before it listens, which would cost a second."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.own_servers, pytest.mark.long, pytest.mark.timeout(120)]


def test_the_servers_of_workers_start_after_the_leaders(up: Callable[..., Up]) -> None:
    """According to TensorFlow's log, although the leader is a second late."""
    run = up("--workers", "3", CHILDREN / "late_leader.py")
    assert run.wait(90) == 0, run.output
    started = [began(run, f"worker:{index}") for index in range(3)]
    assert min(started[1:]) > started[0] - 0.1


def began(run: Up, name: str) -> float:
    """When a task's server was started."""
    log = (run.run / "tasks" / name / "attempt-1.log").read_text()
    found = re.search(r"00:00:(\d+\.\d+) .*Started server with target", log)
    assert found, log
    return float(found[1])
