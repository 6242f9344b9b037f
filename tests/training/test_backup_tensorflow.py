"""A killed `fit` goes on where it was: in one process with Keras 2 and 3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]

CHILD = Path(__file__).parent.parent / "children" / "fits.py"


@pytest.mark.long
@pytest.mark.parametrize("keras", ["2", "3"])
def test_a_killed_fit_resumes(tmp_path: Path, keras: str) -> None:
    """Its weights equal those of an undisturbed fit bit for bit, and no epoch is repeated."""
    if keras == "2":
        pytest.importorskip("tf_keras")
    env = {**os.environ, "TF_USE_LEGACY_KERAS": str(int(keras == "2"))}
    env.pop("TF_CONFIG", None)
    child = subprocess.run(
        [sys.executable, CHILD, tmp_path], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr[-4000:]
    seen: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    whole = seen["undisturbed"]
    assert (whole["said"], whole["epochs"], whole["batches"]) == ("", 3, 30)
    for killed, resumed, said, batches in [
        ("killed", "resumed", "fit resumes in epoch 2 after batch 6: 16 steps are done\n", 20),
        ("killed between", "resumed at epoch", "fit resumes in epoch 2 after batch 0: 10 steps are done\n", 20),
        ("killed by twos", "resumed by twos", "fit resumes in epoch 2 after batch 6: 16 steps are done\n", 10),
    ]:
        assert seen[killed]["digest"] != whole["digest"]
        assert seen[resumed] == {"said": said, "epochs": 2, "batches": batches, "digest": whole["digest"]}, killed
    assert seen["over"]["said"] == "fit has already completed its 3 epochs (30 steps); its history is empty\n"
    assert (seen["over"]["epochs"], seen["over"]["digest"]) == (0, whole["digest"])
    assert seen["stopped"]["epochs"] == 2
    assert seen["stays stopped"]["said"] == "fit was stopped early in epoch 2, after 20 steps\n"
    assert (seen["stays stopped"]["epochs"], seen["stays stopped"]["digest"]) == (0, seen["stopped"]["digest"])
    assert seen["evaluator"] == [30, whole["digest"]]
    assert seen["strict"] == [1, False, True, 1]
    assert seen["unbuilt"].startswith("Backup can't restore a model that has no weights yet")
