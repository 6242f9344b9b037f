"""A program with two fits, each with a Backup in the default directory, neither loses nor repeats epochs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import CHILDREN

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]


def trained(directory: Path, die_after: int = 0) -> Any:
    """The numbers of batches that each fit trained, and a digest of the weights, or None if it was killed."""
    directory.mkdir(exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CLUSTERKIT", "TF_"))}
    words = [sys.executable, str(CHILDREN / "two_fits.py"), str(die_after)]
    done = subprocess.run(words, env=clean, cwd=directory, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == (9 if die_after else 0), done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
def test_two_fits_keep_their_checkpoints_apart(tmp_path: Path) -> None:
    """Both train their three epochs of four batches; killed in the second, the first one is not trained again."""
    batches, whole = trained(tmp_path / "whole")
    assert batches == [12, 12]
    assert trained(tmp_path / "broken", die_after=19) == [[12, 7], None]
    assert trained(tmp_path / "broken") == [[0, 6], whole]
