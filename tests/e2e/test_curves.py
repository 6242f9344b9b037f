"""Loss curves without a line of code: ten programs as TensorFlow's pages write them, each unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.long, pytest.mark.timeout(240)]
TUTORIALS = CHILDREN / "tutorials"
PS = ("--workers", "2", "--ps", "1", "--keras", "2", "--servers", "builtin")

# A program with the options of `up`, whether it wants a directory, and the fewest points: of `fit` one for each epoch,
# of a loop of one's own two, since one a second is taken, and the last.
PROGRAMS: dict[str, tuple[tuple[str, ...], bool, int]] = {
    "main.py": (("--workers", "2"), True, 2),
    "callbacks.py": (("--workers", "2", "--fault", "kill worker:1 @ step=35"), True, 6),
    "creator.py": (PS, False, 3),
    **{
        f"keras_pages.py {page}": ((), False, 4)
        for page in ("quickstart", "mirrored", "regression", "text", "customized", "fine_tuned")
    },
    "keras_pages.py tensorboard": ((), False, 2),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_has_a_curve_that_falls(up: Callable[..., Up], tmp_path: Path, program: str) -> None:
    """It has as many points as it needs; the last one is in result.json."""
    options, with_directory, points = PROGRAMS[program]
    name, *page = program.split()
    run = up(*options, TUTORIALS / name, *page, *([tmp_path] if with_directory else []))
    assert run.wait(200) == 0, run.output[-4000:]
    curve = [
        (event["step"], event["metrics"]["loss"])
        for event in run.events("Progressed", task="chief:0" if "--ps" in options else "worker:0")
        if "loss" in (event["metrics"] or {})
    ]
    losses = [loss for _, loss in curve]
    assert len({*curve}) >= points, curve
    assert losses[-1] < losses[0], curve
    assert run.result["metrics"]["loss"] == losses[-1]
