"""Models that were saved and loaded, cloned or pickled train on several workers what they train in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import CHILDREN, Up
from tests.task.test_keras_tensorflow import OLD_KERAS

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(OLD_KERAS, reason="fit on several workers is refused with so old a Keras"),
]
PROGRAM = CHILDREN / "keras_copies.py"


@pytest.mark.long
def test_copies_train_alike(up: Callable[..., Up], tmp_path: Path) -> None:
    """So does a step with functions of its own: one for XLA, and one that its test step calls, too."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CLUSTERKIT", "TF_"))}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)], capture_output=True, text=True, timeout=120, env=clean
    )
    assert done.returncode == 0, done.stderr[-4000:]
    run = up("--workers", 2, "--restart", "never", PROGRAM, tmp_path)
    assert run.wait(180) == 0, run.output[-4000:]
    alone, *workers = (read(tmp_path / f"{name}.json") for name in ("alone", "worker-0", "worker-1"))
    for worker in workers:
        assert worker.keys() == alone.keys()
        for name, numbers in alone.items():
            assert worker[name].keys() == numbers.keys()
            for key, value in numbers.items():
                assert worker[name][key] == pytest.approx(value, rel=1e-5, abs=1e-5), (name, key)


def read(path: Path) -> dict[str, Any]:
    """What a process has found."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found
