"""What a Checkpointer saves without being told its name, and where it waits, in this one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterkit import training
from tests.support import Lazily
from tests.training.test_checkpointer_tensorflow import keras_pair, variable
from tests.training.test_checkpointer_tensorflow import messages as messages

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("messages")]
tf: Any = Lazily("tensorflow")


def test_objects_whose_kind_names_them(tmp_path: Path) -> None:
    """Models, optimizers and a tf.train.Checkpoint need no name, before the directory or after it."""
    weights, (model, optimizer) = variable(4.0), keras_pair()
    training.Checkpointer(tf.train.Checkpoint(weights=weights, model=model), str(tmp_path)).save(3, wait=True)
    other = variable()
    assert training.Checkpointer(tmp_path, model, weights=other).restore() == 3
    assert other.numpy().tolist() == [4.0] * 3
    both = training.Checkpointer(model, optimizer, directory=tmp_path / "both")
    both.save(1, wait=True)
    assert training.Checkpointer(tmp_path / "both", model=model, optimizer=optimizer).restore() == 1


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: training.Checkpointer(variable()), "can't name a ResourceVariable: pass it by name, such as weights="),
        (lambda: training.Checkpointer("a", "b", w=variable()), "can't name a str"),
        (lambda: training.Checkpointer(tf.train.Checkpoint(w=variable()), w=variable()), "got w twice"),
        (lambda: training.Checkpointer(w=variable(), max_to_keep=3), "It is called keep here"),
    ],
)
def test_objects_without_a_usual_name(make: Callable[[], object], why: str) -> None:
    """The message says what to write."""
    with pytest.raises(TypeError, match=why):
        make()


def test_the_end_of_a_block_waits(tmp_path: Path) -> None:
    """Unless it ends with an exception, which stays the one that is raised."""
    with training.Checkpointer(tmp_path, weights=variable()) as saver:
        saver.save(1)
    assert (tmp_path / "ckpt-1").is_dir()
    with pytest.raises(KeyError), saver:
        raise KeyError
