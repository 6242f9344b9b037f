"""A SIGTERM handler that the program sets before MultiWorkerMirroredStrategy, with the installed TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(150)]

Start = Callable[..., Up]


def test_a_handler_that_is_set_before_the_strategy_runs(up: Start) -> None:
    """Once for each signal, in every worker; TensorFlow's notifier is told, too."""
    run = up("--workers", "2", "--restart", "never", "--all-output", CHILDREN / "facts_sigterm.py")
    assert run.wait(120) == 0, run.output[-4000:]
    for task in ("worker:0", "worker:1"):
        assert b'["save", 1, 2]' in run.log(task)
        assert b"SIGTERM caught at" in run.log(task)
    lines = (CHILDREN / "facts_sigterm.py").read_text().splitlines()
    line = 1 + lines.index("signal.signal(signal.SIGTERM, save)")
    said = f"facts_sigterm.py, line {line}, sets a SIGTERM handler before MultiWorkerMirroredStrategy is created"
    assert said in run.log("worker:0").decode()
    assert said not in run.log("worker:1").decode()


@pytest.mark.long
def test_tensorflows_handler_takes_the_signal_from_it(up: Start, tmp_path: Path) -> None:
    """PreemptionCheckpointHandler saves, and all workers exit with its code, as without clusterkit."""
    run = up("--workers", "2", "--restart", "never", CHILDREN / "facts_sigterm.py", tmp_path / "checkpoints")
    assert run.wait(120) == 1
    assert run.output.count("exited with code 42 (requests a restart) (attempt 1)") >= 2
    assert list((tmp_path / "checkpoints").iterdir())
