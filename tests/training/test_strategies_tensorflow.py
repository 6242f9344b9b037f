"""Strategies by name and from TF_CONFIG, schedules and sharding: those of one process, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit import training
from tests.support import Lazily

pytestmark = pytest.mark.tensorflow
tf: Any = Lazily("tensorflow")
strategies: Any = Lazily("clusterkit.training.strategies")

CHILD = Path(__file__).parent.parent / "children" / "strategies.py"
PS_JOB = {"chief": ["h:1"], "worker": ["h:2", "h:3"], "ps": ["h:4", "h:5"]}
GANG = {"worker": ["h:1", "h:2"]}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CONFIG", "CLUSTERKIT_TASK", "TPU_NAME"):
        monkeypatch.delenv(name, raising=False)


def be(monkeypatch: pytest.MonkeyPatch, cluster: dict[str, list[str]], task: str) -> None:
    task_type, _, index = task.partition(":")
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": task_type, "index": int(index)}}))


def test_the_strategies_of_one_process(tmp_path: Path) -> None:
    """Each strategy takes a step with all its replicas; an unavailable one raises an error with a clear message."""
    env = {name: value for name, value in os.environ.items() if name not in ("TF_CONFIG", "TPU_NAME")}
    child = subprocess.run(
        [sys.executable, CHILD, tmp_path], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr[-4000:]
    seen: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    assert seen["mirrored 4"] == ["MirroredStrategy", 4, 10.0, 2, pytest.approx(0.4)]
    assert seen["central-storage 2"] == ["CentralStorageStrategy", 2, 3.0, 4, pytest.approx(0.2)]
    assert seen["mirrored None"][0] == "MirroredStrategy"
    assert seen["one-device None"] == ["OneDeviceStrategy", 1, 1.0, 8, pytest.approx(0.1)]
    assert seen["default None"][1:] == [1, 1.0, 8, pytest.approx(0.1)]
    kind, sentence = seen["too many"]
    assert kind == "StrategyUnavailable"
    assert "can't be split into 8 devices: TensorFlow is already initialized with 4" in sentence
    kind, sentence = seen["no tpu"]
    assert kind == "NoTPU"
    assert sentence.startswith("No TPU can be used here (")
    assert seen["no ps"] == ["StrategyUnavailable", "TF_CONFIG has no parameter servers."]
    assert seen["instead"] == seen["default None"][0]
    assert seen["printed"].endswith("Training with the default strategy instead.\n")
    assert seen["exported"][1:] == pytest.approx(2 * seen["exported"][:1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m.keras"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (lambda: ValueError("Please provide a TPU Name to connect to."), "Please provide a TPU Name to connect to"),
        (lambda: tf.errors.NotFoundError(None, None, "No TPU devices found"), "No TPU devices found"),
        (lambda: RuntimeError("libtpu.so was not found\nand more"), "libtpu.so was not found"),
        (ImportError, "ImportError"),
    ],
)
def test_what_a_resolver_says_of_a_missing_tpu(
    monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception], said: str
) -> None:
    """The resolver's error is quoted in one line."""

    def resolver(tpu: str | None) -> None:
        assert tpu == "grpc://10.0.0.2:8470"
        raise error()

    monkeypatch.setenv("TPU_NAME", "grpc://10.0.0.2:8470")
    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolver)
    with pytest.raises(training.NoTPU, match=rf"^No TPU can be used here \({said}\)\. Set TPU_NAME"):
        training.strategy("tpu", fallback=False)


def test_a_tpu_is_connected_and_initialized_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """It follows the order in TensorFlow's guide. This has not been tried on a real TPU."""
    calls: list[tuple[str, Any]] = []

    def note(name: str) -> Any:
        def call(given: Any) -> str:
            calls.append((name, given))
            return f"<{name}>"

        return call

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", note("resolver"))
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", note("connect"))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", note("initialize"))
    monkeypatch.setattr(tf.distribute, "TPUStrategy", note("strategy"))
    monkeypatch.setenv("TPU_NAME", "local")
    assert training.strategy("tpu") == "<strategy>"
    assert calls == [("resolver", "local"), *((name, "<resolver>") for name in ("connect", "initialize", "strategy"))]


def test_tf_config_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """By TF_CONFIG: parameter servers, several training tasks, the evaluator, or none of these."""
    made = SimpleNamespace(**{name: lambda *args, name=name, **options: name for name in ("ps", "gang")})
    monkeypatch.setattr(tf.distribute, "ParameterServerStrategy", made.ps)
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", made.gang)
    alone = tf.distribute.get_strategy()
    assert training.strategy() is alone
    for cluster, task, expected in [
        (PS_JOB, "chief:0", "ps"),
        (GANG, "worker:1", "gang"),
        (GANG, "evaluator:0", alone),
        (PS_JOB, "evaluator:0", alone),
        ({"worker": ["h:1"]}, "worker:0", alone),
    ]:
        be(monkeypatch, cluster, task)
        assert training.strategy() is expected, (cluster, task)
    be(monkeypatch, GANG, "evaluator:0")
    assert training.strategy("multi-worker") is alone


@pytest.mark.parametrize("task", ["ps:0", "worker:1"])
def test_servers_must_call_serve(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    """Every call raises an error that names serve()."""
    be(monkeypatch, PS_JOB, task)
    for name in (None, "parameter-server", "default"):
        with pytest.raises(
            training.StrategyUnavailable, match=rf"{task} can't create a strategy.*serve\(\) before strategy\(\)"
        ):
            training.strategy(name)


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "horovod"},
        {"devices": 2},
        {"name": "one-device", "devices": 2},
        {"name": "mirrored", "devices": 0},
        {"name": "multi-worker", "communication": "smoke"},
    ],
)
def test_invalid_arguments(arguments: dict[str, Any]) -> None:
    """Invalid arguments are rejected even with fallback."""
    with pytest.raises(ValueError, match=r"Unknown strategy|devices must be 1 or more|Unknown communication"):
        training.strategy(**arguments)


def test_partitioners_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partitioner splits a variable of 1 MB as its name says."""
    be(monkeypatch, PS_JOB, "chief:0")

    def pieces(text: str) -> list[int]:
        return list(strategies.partition(text)(tf.TensorShape([1024, 256]), tf.float32))

    assert pieces("fixed") == [2, 1]
    assert pieces("fixed:8") == [8, 1]
    assert pieces("min-size") == [2, 1]  # four pieces of 256 KiB would do, for two parameter servers
    assert pieces("min-size:2000000") == [1, 1]
    assert pieces("max-size") == [1, 1]
    assert pieces("max-size:100000") == [11, 1]
    for text in ("half", "fixed:x", "fixed:0", "min-size:-1"):
        with pytest.raises(ValueError, match=f"Unknown partitioner {text!r}"):
            strategies.partition(text)


@pytest.mark.parametrize(
    ("cluster", "policy", "expected"),
    [
        (None, None, "OFF"),
        (GANG, None, "DATA"),
        (PS_JOB, None, "OFF"),
        (GANG, "file", "FILE"),
        (GANG, "off", "OFF"),
        (None, "data", "DATA"),
    ],
)
def test_sharding(monkeypatch: pytest.MonkeyPatch, cluster: Any, policy: str | None, expected: str) -> None:
    """The policy is the given one, or the default for the job."""
    if cluster:
        be(monkeypatch, cluster, f"{next(iter(cluster))}:0")
    dataset = training.sharded(tf.data.Dataset.range(3), policy)
    assert dataset.options().experimental_distribute.auto_shard_policy.name == expected
    assert [int(number) for number in dataset] == [0, 1, 2]


def test_an_unknown_policy() -> None:
    """The error lists the policies."""
    with pytest.raises(ValueError, match="Unknown sharding policy 'auto': use one of file, data, off"):
        training.sharded(tf.data.Dataset.range(3), "auto")


def test_a_schedule_is_the_plain_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule scales in a cluster of four before, during and after the warm-up."""
    be(monkeypatch, {"worker": ["h"] * 4}, "worker:0")
    schedule = training.learning_rate(0.1, warmup_steps=10)
    for step in (0, 3, 10, 50):
        assert float(schedule(step)) == pytest.approx(training.scaled(0.1, step, 10))
    assert float(training.learning_rate(0.1)(0)) == pytest.approx(0.4)


def test_a_schedule_goes_over_to_another() -> None:
    """The schedule `after` starts where the warm-up ends, scaled in the same way, and works in a graph."""
    after = tf.keras.optimizers.schedules.PiecewiseConstantDecay([100], [0.1, 0.01])
    rate = tf.function(training.learning_rate(0.1, scale=2, warmup_steps=10, after=after))
    steps = [0, 5, 10, 110, 111]
    rates = [float(rate(tf.constant(step, tf.int64))) for step in steps]
    assert rates == pytest.approx([0.1, 0.15, 0.2, 0.2, 0.02])


def test_an_optimizer_with_a_schedule_can_be_made_again() -> None:
    """Keras can recreate the schedule from its configuration when it loads a model."""
    after = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 100, 0.5)
    optimizer = tf.keras.optimizers.SGD(training.learning_rate(0.1, scale=4, warmup_steps=10, after=after))
    config = json.loads(json.dumps(tf.keras.optimizers.serialize(optimizer)))
    again = tf.keras.optimizers.deserialize(config)._learning_rate
    for step in (0, 5, 50, 200):
        assert float(again(step)) == pytest.approx(float(optimizer._learning_rate(step)))
    assert again.get_config() == optimizer._learning_rate.get_config()


@pytest.mark.parametrize("bad", [{"base": 0}, {"base": 0.1, "scale": -1}, {"base": 0.1, "warmup_steps": -1}])
def test_invalid_learning_rates(bad: dict[str, Any]) -> None:
    """Invalid arguments are rejected when the schedule is created, not in the first step."""
    with pytest.raises(ValueError, match="must be above 0"):
        training.learning_rate(**bad)
