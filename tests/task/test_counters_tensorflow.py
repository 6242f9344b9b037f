"""Keras 3 on parameter servers counts every step and row, even if workers add at the same time; no result changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import CHILDREN, Lazily, Up, load
from tests.task.counted_sums import PROGRAMS, Program, add
from tests.task.test_keras_tensorflow import OLD_KERAS

tf: Any = Lazily("tensorflow")
keras: Any = Lazily("keras")
core: Any = Lazily("keras.src.backend.tensorflow.core")

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(150),
    pytest.mark.skipif(OLD_KERAS, reason="so old a Keras is not patched"),
]
STEPS = 400


@pytest.fixture
def effects(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The repairs that took effect in this process, in which Keras's variables are patched."""
    monkeypatch.setattr(core.Variable, "_direct_assign", core.Variable._direct_assign)
    found: list[str] = []
    monkeypatch.setattr(load("task/patches/told"), "effect", lambda name, _: found.append(name))
    return found


def patch() -> None:
    """Patch Keras's variables, until the end of the test."""
    load("task/patches/keras/counters").add_on_the_server(core, load)


def as_on_servers(replicas: int = 1) -> Any:
    """A ParameterServerStrategy without servers: the functions below are traced under it."""

    class Servers(tf.distribute.ParameterServerStrategy):  # type: ignore[misc]
        num_replicas_in_sync = replicas

        def __init__(self) -> None: ...

    return Servers()


def values(program: Program, monkeypatch: pytest.MonkeyPatch, strategy: Any = None, kind: Any = None) -> list[Any]:
    """The variable's value and what the step returns, after each of five steps in a single worker."""
    variable = (kind or keras.Variable)(program.value, dtype=program.dtype)
    step = tf.function(lambda: program.step(variable))
    with monkeypatch.context() as context:
        context.setattr(tf.distribute, "get_strategy", lambda: strategy or as_on_servers())
        step = step.get_concrete_function()
    found = []
    for _ in range(5):
        more = step()
        found.append((variable.numpy().tolist(), [] if more is None else [each.numpy().tolist() for each in more]))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_single_worker_computes_what_it_does_without_the_patch(
    effects: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Bit for bit; and what is an addition is added by the server."""
    program = PROGRAMS[name]
    plain = values(program, monkeypatch)
    assert effects == []
    patch()
    assert values(program, monkeypatch) == plain
    assert bool(effects) == program.adds
    assert {*effects} <= {"keras-ps"}


def test_a_worker_of_several_replicas_adds_nothing_up_twice(
    effects: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow aggregates what is assigned, unless it takes what the first replica assigns."""
    patch()
    for aggregation, adds in (("sum", False), ("mean", False), ("only_first_replica", True)):
        effects.clear()

        def kind(*args: Any, how: str = aggregation, **kwargs: Any) -> Any:
            return keras.Variable(*args, aggregation=how, **kwargs)

        assert values(Program(add, adds), monkeypatch, as_on_servers(2), kind)[-1] == (15.0, [])
        assert bool(effects) == adds, aggregation


def test_variables_of_the_program_keep_their_own_ways(effects: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that bounds what is assigned, one that assigns twice, and one that holds a variable of its own class."""

    class Bounded(core.Variable):  # type: ignore[misc]
        def _direct_assign(self, value: Any) -> None:
            super()._direct_assign(tf.minimum(value, 12.0))

    class Twice(core.Variable):  # type: ignore[misc]
        def _direct_assign(self, value: Any) -> None:
            super()._direct_assign(value)
            super()._direct_assign(value)

    class Saturated:
        """A variable of which only `assign` has a bound."""

        def __init__(self, variable: Any) -> None:
            self._variable = variable

        def __getattr__(self, name: str) -> Any:
            return getattr(self._variable, name)

        def assign(self, value: Any) -> Any:
            return self._variable.assign(tf.minimum(value, 12.0))

    class Holder(core.Variable):  # type: ignore[misc]
        def _initialize(self, value: Any) -> None:
            super()._initialize(value)
            this: Any = self
            this._value = Saturated(this._value)

    step = Program(lambda v: v._direct_assign(tf.identity(v._value.read_value()) + 1.0), False)
    for kind, last, adds in ((Bounded, 12.0, False), (Twice, 15.0, True), (Holder, 12.0, False)):
        with monkeypatch.context() as context:
            patch()
            effects.clear()
            assert values(step, context, kind=kind)[-1][0] == last
            assert bool(effects) == adds, kind


def test_nothing_is_rewritten_outside_parameter_servers(effects: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor eagerly, nor in a graph of TensorFlow 1, whose order is that of the program's own dependencies."""
    patch()
    assert values(Program(add, False), monkeypatch, tf.distribute.OneDeviceStrategy("CPU:0"))[-1] == (15.0, [])
    variable = keras.Variable(10.0)
    with monkeypatch.context() as context:
        context.setattr(tf.distribute, "get_strategy", as_on_servers)
        variable.assign_add(1.0)
        tf.compat.v1.wrap_function(lambda: variable.assign(variable + 1.0), [])()
    assert effects == []


def counted(up: Callable[..., Up], *options: str) -> list[int]:
    """The counts of a TensorFlow variable, the optimizer, two metrics and the rows of a third."""
    run = up(*options, "--workers", "2", "--ps", "1", "--restart", "never", CHILDREN / "ps_counts.py", str(STEPS))
    assert run.wait(120) == 0, run.output[-4000:]
    (numbers,) = re.findall(r"counted ([\d ]+)", run.output)
    return [int(number) for number in numbers.split()]


@pytest.mark.matrix
def test_two_workers_lose_no_counts(up: Callable[..., Up]) -> None:
    """Of 400 steps with eight rows each."""
    assert counted(up) == [STEPS, STEPS, STEPS, 8 * STEPS, 8 * STEPS]


@pytest.mark.long
def test_plain_keras_loses_counts(up: Callable[..., Up]) -> None:
    """If this fails, Keras has fixed it, and the patch can be removed."""
    exact, iterations, *_ = counted(up, "--no-patches")
    assert exact == STEPS
    assert iterations < STEPS


def test_a_value_that_was_read_before_another_write_is_assigned(up: Callable[..., Up]) -> None:
    """With one worker and one server, to what it is without the patch; the issue's numbers."""
    run = up("--workers", "1", "--ps", "1", "--restart", "never", CHILDREN / "ps_reads_first.py")
    assert run.wait(120) == 0, run.output[-4000:]
    assert "it is 5.0 now" in run.output
