"""How a recorded task takes over another run's variables, and how its weights are nudged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterkit.task.patches.recorder import following, state


class Leaf:
    """A variable of TensorFlow."""

    def __init__(self, values: Any, kind: str = "float32", trainable: bool = True) -> None:
        self.values, self.trainable = np.array(values, kind), trainable
        self.dtype = type("Type", (), {"name": kind, "as_numpy_dtype": np.dtype(kind).type})()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


def registry(monkeypatch: pytest.MonkeyPatch, **leaves: Leaf) -> state.Registry:
    """The registry of these variables, which are read and written without TensorFlow."""
    monkeypatch.setattr(state, "read", lambda leaf: leaf.values.copy())
    monkeypatch.setattr(state, "write", lambda leaf, values: setattr(leaf, "values", values))
    made = state.Registry()
    for name, leaf in leaves.items():
        made.add(leaf, name)
    return made


def test_a_nudge_changes_each_weight_in_its_last_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else: neither what is not trained nor numbers that are not rounded."""
    kernel, mean, count = Leaf([1.0, -2.0, 0.0]), Leaf([1.0], trainable=False), Leaf([1], "int64")
    registry(monkeypatch, kernel=kernel, moving_mean=mean, count=count).nudge()
    apart = np.abs(kernel.values - np.array([1.0, -2.0, 0.0], "float32"))
    assert (apart[:2] > 0).all()
    assert (apart[:2] < 5e-7).all()
    assert kernel.values.dtype == "float32"
    assert (apart[2], mean.values[0], count.values[0]) == (0, 1, 1)


def test_a_nudge_is_as_large_as_the_rounding_of_the_type_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float16 a change of the last bit of a float32 would be lost."""
    monkeypatch.setattr(state, "compute_type", lambda: "float16")
    kernel = Leaf([1.0])
    registry(monkeypatch, kernel=kernel).nudge()
    assert abs(kernel.values[0] - 1) == pytest.approx(2.0**-10)


def write_record(directory: Path) -> None:
    """Write the record of a task with one state after step 3, as the recorder does."""
    directory.mkdir(parents=True)
    kinds = {"kernel": "weight", "iteration": "counter", "seed": "random", "words": "other", "ema": "other"}
    values = [np.ones(2, "float32"), np.array(3), np.ones(2, "float32"), np.array([1]), np.ones(1, "float32")]
    arrays: dict[str, Any] = {str(number): each for number, each in enumerate(values)}
    np.savez(directory / "worker-0.1.3.npz", **arrays)
    variables = [{"name": name, "kind": kind} for name, kind in kinds.items()]
    lines = [
        {"kind": "state", "moment": "begin", "step": 0, "file": "none.npz", "variables": []},
        {"kind": "rows", "step": 1, "rows": []},
        {"kind": "state", "moment": "step", "step": 3, "file": "worker-0.1.3.npz", "variables": variables},
    ]
    (directory / "worker-0.1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_the_variables_of_another_run_are_read(tmp_path: Path) -> None:
    """Those that both runs compute: no counters, no states of generators."""
    write_record(tmp_path / "several" / "recorded")
    own = str(tmp_path / "alone" / "recorded")
    followed = following.followed_of("0,1,3,follow=several/worker-0.1,nudge", own)
    assert followed is not None
    assert sorted(followed.values(3)) == ["ema", "kernel"]
    assert followed.values(2) == {}
    assert following.followed_of("0,1,3,nudge", own) is None


def test_variables_are_taken_over_if_their_shapes_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one was too large to be recorded whole, all are left as they are: half of a state is none."""
    kernel, bias, other = Leaf([0.0, 0.0]), Leaf([0.0]), Leaf([5.0])
    made = registry(monkeypatch, kernel=kernel, bias=bias, other=other)
    assert made.take({"kernel": np.array([1.0, 2.0])})
    assert not made.take({"kernel": np.array([3.0, 4.0]), "bias": np.zeros(7)})
    assert (list(kernel.values), list(bias.values), list(other.values)) == ([1.0, 2.0], [0.0], [5.0])
