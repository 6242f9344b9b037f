"""Every worker reads the files that the chief's callbacks write, with Keras 3 and 2: whole, and of the same save."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(150)]

Start = Callable[..., Up]
long = pytest.mark.long


def seen(up: Start, *arguments: object) -> list[Any]:
    """What both workers have printed, which is the same."""
    run = up("--workers", "2", "--restart", "never", "--timeout", "100", *arguments)
    assert run.wait(120) == 0, run.output[-4000:]
    logs = [run.log(f"worker:{index}").decode() for index in range(2)]
    first, second = (next(line for line in log.splitlines() if line.startswith("[")) for log in logs)
    assert first == second
    found: list[Any] = json.loads(first)
    return found


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        (".keras", ()),
        pytest.param(".weights.h5", (), marks=long),
        pytest.param(".weights.h5", ("--keras", "2"), marks=long),
    ],
)
def test_all_workers_read_the_best_model(up: Start, tmp_path: Path, suffix: str, options: tuple[str, ...]) -> None:
    """In each epoch and after `fit`, though the chief is slow to save. A callback of one worker delays nobody."""
    first, before, second, last = seen(
        up, *options, CHILDREN / "read_by_all.py", tmp_path / "out", "checkpoint", suffix
    )
    assert (first, second) == (True, True)
    assert before != last
    written = sorted(path.name for path in (tmp_path / "out").rglob("*"))
    assert written == [f"best{suffix}", "chief.keras"]


@long
def test_all_workers_resume_from_the_same_backup(up: Start, tmp_path: Path) -> None:
    """A second `fit` does not find the first one's backup, and all find one of which no epoch is left to train."""
    assert seen(up, CHILDREN / "read_by_all.py", tmp_path / "out", "backup") == [2, 3, 2, 0, False]
