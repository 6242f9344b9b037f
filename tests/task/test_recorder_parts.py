"""What the recorder reads: the variables and their kinds, rows, what callbacks keep; and the seeds that it sets."""

from __future__ import annotations

import json
import random
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.random  # which NumPy imports late
import pytest

from clusterkit.task.patches import order
from clusterkit.task.patches.recorder import callbacks as recorder_callbacks
from clusterkit.task.patches.recorder import rows as recorder_rows
from clusterkit.task.patches.recorder import seeds as recorder_seeds
from clusterkit.task.patches.recorder import state as recorder_state
from clusterkit.task.patches.recorder.state import Registry, is_on_read, kind_of, leaf_of, sampled, scheduled_rates
from tests.support import load


class Plain:
    """A variable of TensorFlow, as far as the registry reads it."""

    def __init__(self, **attributes: object) -> None:
        self.trainable, self.dtype = True, "float32"
        vars(self).update(attributes)


class Whole(Plain):
    """A variable that consists of others: `_values` of a strategy, `_value` of Keras, `_v` of a parameter server."""


def test_a_variable_has_the_name_that_no_other_has() -> None:
    """In the order in which they are made, also if one of them is gone meanwhile."""
    registry, kept = Registry(), [Plain(), Plain(), Plain()]
    registry.add(kept[0], "kernel")
    registry.add(Plain(), "kernel")
    registry.add(kept[1], "kernel")
    registry.add(kept[2], "bias")
    assert [entry.name for entry, _ in registry.living()] == ["kernel", "kernel#3", "bias"]


def test_the_parts_of_a_variable_are_not_listed_and_use_up_no_name() -> None:
    """A replica is made before the variable of the strategy, and that before Keras's."""
    registry, replicas = Registry(), [Plain(), Plain()]
    for replica in replicas:
        registry.add(replica, "kernel")
    mirrored = Whole(_values=tuple(replicas))
    registry.add(mirrored, "kernel")
    keras = Whole(_path="dense/kernel", _value=mirrored)
    registry.add(keras, "dense/kernel")
    own = Plain()
    registry.add(own, "kernel")
    assert [(entry.name, variable) for entry, variable in registry.living()] == [
        ("dense/kernel", keras),
        ("kernel", own),
    ]
    assert leaf_of(keras) is replicas[0]
    keras._value = later = Whole(_v=Plain())  # type: ignore[attr-defined]  # given another value
    registry.add(later, "kernel")
    registry.add(keras, "dense/kernel")
    assert [entry.name for entry, _ in registry.living()] == ["dense/kernel", "kernel"]
    assert leaf_of(keras) is later._v  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("role", "name", "attributes", "kind"),
    [
        ("", "dense/kernel", {}, "weight"),
        ("", "dense/kernel", {"trainable": False}, "other"),
        ("", "rows_seen", {"dtype": "int64"}, "other"),
        ("", "norm/moving_mean", {"trainable": False}, "batch-norm"),
        ("", "moving_variance", {"trainable": False}, "batch-norm"),
        ("", "dropout/seed_generator_1/seed_generator_state", {"trainable": False}, "random"),
        ("", "StateVar", {"dtype": "int64"}, "random"),
        ("optimizer", "adam/dense_kernel_momentum", {}, "optimizer"),
        ("counter", "adam/iteration", {"dtype": "int64"}, "counter"),
        ("metric", "loss/total", {"trainable": False}, "metric"),
    ],
)
def test_what_a_variable_is_for(role: str, name: str, attributes: dict[str, object], kind: str) -> None:
    """Its role in an optimizer or metric comes before its name."""
    assert kind_of(role, name, Plain(**attributes)) == kind


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (Plain(), False),
        (Plain(_synchronization="on_read"), True),
        (Plain(synchronization=SimpleNamespace(name="ON_READ")), True),
        (Plain(synchronization=SimpleNamespace(name="ON_WRITE")), False),
        (Whole(_path="m", _value=Plain(synchronization=SimpleNamespace(name="ON_READ"))), True),
    ],
)
def test_replicas_may_differ_where_they_are_aggregated_on_reading(variable: Any, expected: bool) -> None:
    """As Keras writes it, and as TensorFlow does."""
    assert is_on_read(variable) is expected


def test_roles_are_those_of_optimizers_and_metrics() -> None:
    """Of several versions of Keras, which keep their variables in other attributes."""
    registry, v = Registry(), [Plain() for _ in range(6)]
    new = SimpleNamespace(_variables=[v[0], v[1], v[2]], _iterations=v[0], _learning_rate=v[1])
    legacy = SimpleNamespace(_weights=[v[3]], _iterations=v[3], _hyper={"learning_rate": v[4]})
    metric = SimpleNamespace(variables=[v[5]])
    registry.optimizers, registry.metrics = [lambda: new, lambda: legacy, lambda: None], [lambda: metric]
    roles = dict(registry.roles())
    assert [roles[id(one)] for one in v] == [
        "counter",
        "learning-rate",
        "optimizer",
        "counter",
        "learning-rate",
        "metric",
    ]


def test_a_learning_rate_that_follows_a_schedule_is_recorded_as_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the optimizer's count; what is no schedule, or raises an exception, has none."""

    class LearningRateSchedule:
        """As in Keras."""

        def __call__(self, step: Any) -> float:
            """The rate after a step."""
            return 0.5 ** int(step)

    class Fails(LearningRateSchedule):
        """One of the program's own."""

        def __call__(self, step: Any) -> float:
            """No rate."""
            raise KeyError("own")

    monkeypatch.setattr(recorder_state, "count_of", lambda optimizer: 3)
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.record", SimpleNamespace(stop_recording=nullcontext))
    rates: list[Any] = [LearningRateSchedule(), Fails(), Plain(), lambda: 0.1, None]
    optimizers = [SimpleNamespace(name="adam", _learning_rate=rate) for rate in rates]
    optimizers.append(SimpleNamespace(name="old", _hyper={"learning_rate": LearningRateSchedule()}))
    found = [(about["name"], about["kind"], float(value)) for about, value in scheduled_rates(optimizers)]
    assert found == [
        ("learning_rate of adam", "learning-rate", 0.125),
        ("learning_rate of old#6", "learning-rate", 0.125),
    ]


def test_a_large_variable_is_sampled_evenly() -> None:
    """The same elements each time; a small one is whole, in its shape."""
    small, large = np.arange(6).reshape(2, 3), np.arange(10).reshape(5, 2)
    assert sampled(small, 6) is small
    assert sampled(large, 4).tolist() == [0, 3, 6, 9]


@pytest.mark.parametrize(
    ("taken", "before", "now", "expected"),
    [
        ([["a", "b"]], 4, 5, [(5, ["a", "b"])]),
        ([["a"], ["b"]], 4, 5, [(5, ["a", "b"])]),  # two replicas
        ([["a"], ["b"]], 4, 6, [(5, ["a"]), (6, ["b"])]),  # two steps in one call
        ([["a"], ["b"], ["c"], ["d"]], 4, 6, [(5, ["a", "b"]), (6, ["c", "d"])]),
        ([["a"], ["b"], ["c"]], 4, 6, [(6, ["a", "b", "c"])]),
        ([], 4, 6, [(5, []), (6, [])]),
    ],
)
def test_rows_belong_to_the_steps_that_were_made(
    taken: list[list[str]], before: int, now: int, expected: list[tuple[int, list[str]]]
) -> None:
    """Evenly; otherwise to the last of them."""
    assert recorder_rows.distributed(taken, before, now) == expected


def test_equal_rows_have_equal_digests() -> None:
    """Rows of numbers, of single numbers and of strings, whose bytes in memory are only pointers."""
    digest = recorder_rows.digest_of
    numbers = np.array([[1, 2], [1, 2], [2, 1]], "float32")
    texts = np.array([[b"a", b"b" * 40], [b"a", b"b" * 40], [b"a", b"c"]], object)
    for rows in (numbers, numbers[:, 0], texts, texts[:, 1]):
        found = [digest(row) for row in rows]
        assert found[0] == found[1] != found[2]
        assert all(len(one) == 16 for one in found)


class EarlyStopping:
    """Keras's, as far as its state is read."""

    def __init__(self) -> None:
        self.wait, self.best, self.patience, self.monitor = 1, np.float32(0.5), 3, "loss"


EarlyStopping.__module__ = "keras.src.callbacks.early_stopping"


class Own(EarlyStopping):
    """A callback of a program's own."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.is_late, self._private, self.params = 7, True, 1, {"epochs": 2}


def test_what_callbacks_keep() -> None:
    """Of Keras's those attributes that change, of a program's own every public number."""
    values = recorder_callbacks.values_of([EarlyStopping(), Own(), EarlyStopping()])
    assert values == {
        "EarlyStopping.wait": 1, "EarlyStopping.best": 0.5, "EarlyStopping#2.wait": 1, "EarlyStopping#2.best": 0.5,
        "Own.wait": 1, "Own.best": 0.5, "Own.patience": 3, "Own.seen": 7, "Own.is_late": True,
    }  # fmt: skip
    logs = {
        "loss": np.float64(0.25),
        "several": np.zeros(2),
        "text": "x",
        "tensor": SimpleNamespace(dtype=1, numpy=lambda: 2),
    }
    assert recorder_callbacks.numbers(logs) == {"loss": 0.25, "tensor": 2.0}


def test_imports_do_not_move_the_seeded_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a warm task, whose modules were imported before, would have other numbers."""
    monkeypatch.setenv("CLUSTERKIT_RECORD", "/somewhere")
    monkeypatch.setenv("CLUSTERKIT_SEED", "run-1")
    kept = {name: getattr(sys.modules[name], how[0])() for name, how in recorder_seeds.STATES.items()}
    drawn = []
    for imports in (True, False):
        for name in recorder_seeds.STATES:
            recorder_seeds.seed(sys.modules[name], load)
        first = [random.random(), np.random.random()]
        if imports:
            recorder_seeds.keeper.find_spec("keras")
            random.random(), np.random.random()
            recorder_seeds.restore_states(SimpleNamespace(__name__="keras"), load)
        drawn.append([*first, random.random(), np.random.random()])
    for name, state in kept.items():
        getattr(sys.modules[name], recorder_seeds.STATES[name][1])(state)
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 4


@pytest.mark.parametrize(
    ("cluster", "task", "numbers"),
    [
        ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 1}, 2),
        ({"chief": ["a:1"], "worker": ["b:1"]}, {"type": "worker", "index": 0}, 2),
        ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 0}, 1),
        ({"worker": ["a:1", "b:1"], "ps": ["c:1"]}, {"type": "worker", "index": 1}, 1),
        ({}, {}, 1),
    ],
)
def test_each_worker_of_a_gang_has_its_own_numbers(
    cluster: dict[str, object], task: dict[str, object], numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without an exam: workers that shuffle in orders of their own are found. Layers have the same seeds."""
    monkeypatch.setenv("CLUSTERKIT_RECORD", "/somewhere")
    drawn, seeds = set(), set()
    for config in ("", json.dumps({"cluster": cluster, "task": task})):
        monkeypatch.setenv("TF_CONFIG", config)
        own = random.Random()
        recorder_seeds.seed(own, load)
        drawn.add(own.random())
        keras = SimpleNamespace(python_random=random)
        recorder_seeds.share_layer_seeds(keras, load)
        seeds.add(keras.python_random.randint(1, 10**9))
    assert (len(drawn), len(seeds)) == (numbers, 1)


def test_the_seed_of_a_recorded_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that every library takes, another one for each seed of a run; other tasks get none."""
    seeds = set()
    monkeypatch.setenv("CLUSTERKIT_RECORD", "/somewhere")
    for text in ("", "7", "run-1", "run-2", "a long name of a run" * 9):
        monkeypatch.setenv("CLUSTERKIT_SEED", text)
        seeds.add(order.recorded_seed())
    assert len(seeds) == 5
    assert all(seed is not None and 0 <= seed < 2**31 for seed in seeds)
    monkeypatch.delenv("CLUSTERKIT_RECORD")
    assert order.recorded_seed() is None


@pytest.mark.parametrize(
    ("config", "expected"),
    [("{}", False), ("", False), ("[]", False), ('{"cluster": {"worker": ["a:1"]}}', False),
     ('{"cluster": {"ps": ["a:1"]}}', True)],
)  # fmt: skip
def test_only_tasks_without_servers_are_deterministic(config: str, expected: bool) -> None:
    """Workers of parameter servers are not in step anyway."""
    assert recorder_seeds.has_servers(config) is expected
