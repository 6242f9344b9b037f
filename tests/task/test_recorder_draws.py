"""What draws at random in a recorded task, and which layers are left out where workers are compared."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

from clusterkit.task.patches.recorder import draws as recorder_draws
from tests.support import load


class Output:
    """The record of a task, as lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[object, ...]] = []

    def write(self, kind: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append((kind, *fields.values()))


class Layer:
    """A layer of Keras, as far as it is looked at."""

    __module__ = "keras.src.layers.layer"
    name = "random_flip"

    def call(self, draw: Any) -> Any:
        """Draw."""
        return draw()


class RandomFlip(Layer):
    """One of the random layers."""


def drawing(monkeypatch: pytest.MonkeyPatch, name: str = "random_uniform") -> tuple[Any, Output]:
    """A patched operation, and the record that it is written to."""
    output = Output()
    monkeypatch.setattr(recorder_draws, "_draws", [recorder_draws.Draws(output, load)])
    module = ModuleType(recorder_draws.STATEFUL)

    def operation() -> float:
        return 0.5

    operation.__name__ = name
    operation.__module__ = module.__name__
    vars(module)[name] = operation
    recorder_draws.watch(module, load)
    return vars(module)[name], output


def called_from(file: str, draw: Any) -> Any:
    """Call a function from a file of this name."""
    space: dict[str, Any] = {"draw": draw, "__name__": "__main__"}
    exec(compile("result = draw()", file, "exec"), space)
    return space["result"]


def test_a_layer_that_draws_in_a_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the step is known to train; the operation returns what it did."""
    draw, output = drawing(monkeypatch)
    current = load("task/patches/recorder/rows").current
    monkeypatch.setattr(current, "drawn", [], raising=False)
    assert RandomFlip().call(draw) == 0.5
    assert current.drawn == [("RandomFlip random_flip", True)]
    assert not output.lines


def test_a_draw_in_the_data_is_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the layer, or the line of the program."""
    draw, output = drawing(monkeypatch)
    for _ in range(2):
        called_from("tensorflow/python/data/ops/structured_function.py", lambda: RandomFlip().call(draw))
    assert output.lines == [("draw", "data", "RandomFlip random_flip", True)]


IN_DATA = "tensorflow/python/data/ops/structured_function.py"


@pytest.mark.parametrize(
    "adapter", ["keras/src/trainers/data_adapters/array_data_adapter.py", "tf_keras/src/engine/data_adapter.py"]
)
def test_the_order_of_the_rows_of_fit_is_no_draw(adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras shuffles the rows of arrays in a function of tf.data; the rows are recorded themselves."""
    shuffle, output = drawing(monkeypatch, "random_shuffle")
    assert called_from(adapter, lambda: called_from(IN_DATA, shuffle)) == 0.5
    assert not output.lines
    # A shuffle of the program's own, in a function that it maps over its data.
    called_from(IN_DATA, shuffle)
    assert len(output.lines) == 1


def test_what_draws_in_the_data_of_a_model_is_not_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `fit` is among the callers of a function of its data."""
    draw, output = drawing(monkeypatch)
    RandomFlip().call(lambda: called_from(IN_DATA, draw))
    ((_, where, name, _),) = output.lines
    assert where == "data"
    assert "RandomFlip" not in str(name)


@pytest.mark.parametrize("file", ["train.py", "keras/src/initializers/random_initializers.py", "init_ops_v2.py"])
def test_other_draws_are_not_recorded(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of steps and data, and the first values of variables even in a step."""
    draw, output = drawing(monkeypatch)
    current = load("task/patches/recorder/rows").current
    monkeypatch.setattr(current, "drawn", None if file == "train.py" else [], raising=False)
    assert called_from(file, draw) == 0.5
    assert not current.drawn
    assert not output.lines


@pytest.mark.parametrize(
    ("name", "draws"),
    [
        ("random_uniform", True),
        ("stateless_truncated_normal_v2", True),
        ("stateful_uniform_int", True),
        ("stateless_random_get_key_counter", False),
        ("rng_read_and_skip", False),
        ("random_gamma_grad", False),
        ("random_uniform_eager_fallback", False),
        ("_random", False),
    ],
)
def test_operations_that_draw(name: str, draws: bool) -> None:
    """Not those that only read a state."""
    assert recorder_draws.draws_at_random(name) == draws


def test_random_layers_are_left_out_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They then behave as outside of training, and have the same signature."""

    class GaussianNoise:
        def call(self, inputs: float, training: bool = False) -> float:
            return inputs + 1 if training else inputs

    class Dense:
        def call(self, inputs: float, training: bool = False) -> float:
            return inputs * 2 if training else inputs

    GaussianNoise.__module__, Dense.__module__ = (
        "keras.src.layers.regularization.gaussian_noise",
        "keras.src.layers.core",
    )
    module = ModuleType("keras.src.layers")
    vars(module).update(GaussianNoise=GaussianNoise, Dense=Dense, other=3)
    monkeypatch.setenv("CLUSTERKIT_RECORD_STEPS", "0,1")
    recorder_draws.leave_out_layers(module, load)
    assert GaussianNoise().call(1, training=True) == 2
    monkeypatch.setenv("CLUSTERKIT_RECORD_STEPS", "0,1,no-dropout")
    recorder_draws.leave_out_layers(module, load)
    assert (GaussianNoise().call(1, True), GaussianNoise().call(1, training=True)) == (1, 1)
    assert Dense().call(1, True) == 2
    assert "training" in inspect.signature(GaussianNoise.call).parameters


def test_the_patched_modules_are_those_of_the_hook() -> None:
    """Two files name them, since the hook loads no other file."""
    hook = load("task/patches/hook")
    assert tuple(recorder_draws.MODULES) == hook.RANDOM_OPERATIONS
