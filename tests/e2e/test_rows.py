"""The programs that people begin with train on every row once in an epoch, on several workers as in one process."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, ROOT, WORKLOADS, Up
from tests.task.test_keras_tensorflow import OLD_KERAS

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(OLD_KERAS, reason="fit on several workers is refused with so old a Keras"),
]
EPOCHS = re.compile(r"epochs=(\d+)")


def readme_program(directory: Path) -> Path:
    """The program that README shows."""
    text = (ROOT / "README.md").read_text().partition("<!-- file train.py -->")[2]
    program = directory / "train.py"
    program.write_text(text.partition("```python\n")[2].partition("```")[0])
    return program


def counted(up: Callable[..., Up], tmp_path: Path, program: Path, *args: object) -> Counter[str]:
    """How often two workers together have trained on each row."""
    run = up("--workers", "2", CHILDREN / "counted_rows.py", tmp_path / "rows", program, *map(str, args))
    assert run.wait(200) == 0, run.output[-4000:]
    every = [Counter(json.loads(file.read_text())) for file in tmp_path.glob("rows.worker:*")]
    assert len(every) == 2
    return every[0] + every[1]


def test_the_readmes_program_trains_on_every_row(up: Callable[..., Up], tmp_path: Path) -> None:
    """Arrays without a seed: of 4,096 rows, each is seen once in each of its epochs."""
    program = readme_program(tmp_path)
    (epochs,) = EPOCHS.findall(program.read_text())
    rows = counted(up, tmp_path, program)
    assert Counter(rows.values()) == {int(epochs): 4096}


@pytest.mark.long
@pytest.mark.parametrize(("workload", "epochs"), [("mwms_fit.py", 2), ("mnist_cnn.py", 1), ("imdb_text.py", 1)])
def test_workloads_train_on_every_row(up: Callable[..., Up], tmp_path: Path, workload: str, epochs: int) -> None:
    """At most once in an epoch: they leave out the rest that fills no batch."""
    rows = counted(up, tmp_path, WORKLOADS / workload, "--epochs", epochs)
    assert set(rows.values()) == {epochs} if workload == "mwms_fit.py" else max(rows.values()) <= epochs
    assert len(rows) > 500


@pytest.mark.long
def test_the_starter_trains_on_every_row(up: Callable[..., Up], tmp_path: Path) -> None:
    """What `clusterkit init` writes."""
    program = ROOT / "clusterkit" / "starter" / "train.py"
    rows = counted(up, tmp_path, program)
    assert len(set(rows.values())) == 1
    assert len(rows) == 4096
