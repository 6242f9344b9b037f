"""Checkpoints that are written while training continues: whatever changes or dies meanwhile, they are whole."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit import training
from clusterkit.training import background, checkpoint_store
from tests.support import CHILDREN, Lazily, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]
tf: Any = Lazily("tensorflow")
snapshot: Any = Lazily("clusterkit.training.snapshot")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One task, which leaves nothing in progress."""
    for name in ("TF_CONFIG", "CLUSTERKIT_TASK", "CLUSTERKIT_CHECKPOINT_DIR", "CLUSTERKIT_PROGRESS"):
        monkeypatch.delenv(name, raising=False)
    yield
    background.finish_all()
    background._writers_in_use.clear()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Checkpoints are complete only after this is set."""
    go, seal = threading.Event(), checkpoint_store._seal

    def wait_and_seal(directory: Path, step: int) -> None:
        assert go.wait(60)
        seal(directory, step)

    monkeypatch.setattr(checkpoint_store, "_seal", wait_and_seal)
    yield go
    go.set()
    background.finish_all()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))


def test_the_values_are_those_of_the_save(tmp_path: Path, held: threading.Event) -> None:
    """Variables may change in every way while they are written; the checkpoint appears when it is complete."""
    dense, sparse = tf.Variable(tf.ones((1000,))), tf.Variable(tf.ones((100, 10)))
    iterator = iter(numbers())
    saver = training.Checkpointer(tmp_path, dense=dense, sparse=sparse, iterator=iterator)
    assert next(iterator) == 0
    assert saver.save(10) == str(tmp_path / "ckpt-10")
    assert next(iterator) == 1
    dense.assign_add(tf.ones((1000,)))
    sparse.scatter_update(tf.IndexedSlices(tf.zeros((1, 10)), [5]))
    dense.assign(tf.zeros((1000,)))
    assert names(tmp_path) == []
    held.set()
    saver.wait()
    assert names(tmp_path) == ["ckpt-10"]
    assert saver.restore() == 10
    assert (dense.numpy() == 1).all()
    assert (sparse.numpy() == 1).all()
    assert next(iterator) == 1


def test_one_at_a_time(tmp_path: Path, held: threading.Event) -> None:
    """A save waits for the one before; so does whoever restores, or cleans the directory."""
    weights = tf.Variable([1.0])
    saver = training.Checkpointer(tmp_path, weights=weights)
    saver.save(10)
    late = threading.Timer(0.1, held.set)
    late.start()
    saver.save(20)
    late.join()
    assert "ckpt-10" in names(tmp_path)
    other = training.Checkpointer(tmp_path, weights=tf.Variable([0.0]))
    assert names(tmp_path) == ["ckpt-10", "ckpt-20"]
    saver.save(30)
    assert other.restore() == 30


@pytest.mark.parametrize("waiting", [{"wait": True}, {}], ids=["wait", "not in the background"])
def test_a_save_that_returns_with_the_checkpoint(tmp_path: Path, waiting: dict[str, bool]) -> None:
    """Whoever reads the directory at once can ask for that, for one save or for all."""
    saver = training.Checkpointer(tmp_path, background=bool(waiting), weights=tf.Variable([1.0]))
    path = saver.save(10, **waiting)
    assert names(tmp_path) == ["ckpt-10"]
    assert tf.train.load_checkpoint(f"{path}/state").get_tensor("weights/.ATTRIBUTES/VARIABLE_VALUE") == [1.0]


def no_room(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("place", ["write", "publish"])
@pytest.mark.parametrize("next_call", ["save", "wait", "restore"])
def test_a_failure_is_raised_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, next_call: str
) -> None:
    """Nothing half-written is left, the older checkpoint is, and a later save is possible."""
    saver = training.Checkpointer(tmp_path, weights=tf.Variable([1.0]))
    saver.save(10, wait=True)
    with monkeypatch.context() as patch:
        owner = snapshot.Snapshot if place == "write" else checkpoint_store.CheckpointStore
        patch.setattr(owner, place, no_room)
        saver.save(20)
        background.finish_all()
    with pytest.raises(training.CheckpointNotSaved, match=r"step 20 could not be saved .* No space left on device"):
        getattr(saver, next_call)(*([30] if next_call == "save" else []))
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-10"]
    saver.save(40, wait=True)
    assert names(tmp_path) == ["ckpt-10", "ckpt-40"]


@pytest.mark.parametrize("in_background", [True, False])
def test_no_directory(tmp_path: Path, in_background: bool) -> None:
    """A directory that can't be made is a failure of the save, too, wherever it is written."""
    place = tmp_path / "file" / "checkpoints"
    saver = training.Checkpointer(place, background=in_background, weights=tf.Variable([1.0]))
    (tmp_path / "file").touch()
    with pytest.raises(
        training.CheckpointNotSaved, match=r"step 10 could not be saved .* NotADirectoryError"
    ) as raised:
        saver.save(10, wait=True)
    assert isinstance(raised.value.__cause__, NotADirectoryError)


def test_a_file_with_the_name_of_a_checkpoint_is_skipped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As a damaged one is, with a warning; the next save removes it."""
    (tmp_path / "ckpt-100").touch()
    saver = training.Checkpointer(tmp_path, weights=tf.Variable([1.0]))
    assert saver.restore() == 0
    assert "skipped the checkpoint" in capfd.readouterr().err
    saver.save(100, wait=True)
    assert names(tmp_path) == ["ckpt-100"]
    assert saver.restore() == 100


def keras_state() -> dict[str, Any]:
    layers = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(8), layers.BatchNormalization(), layers.Dense(2)])
    optimizer = tf.keras.optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)
    return {"model": model, "optimizer": optimizer}


def plain_state() -> dict[str, Any]:
    kinds = [
        tf.Variable("text"),
        tf.Variable(tf.zeros((2, 0))),
        tf.Variable(True),
        tf.Variable([1.5], dtype=tf.bfloat16),
    ]
    nested = tf.train.Checkpoint(list=kinds, again=kinds[0], complex=tf.Variable(1 + 2j))
    return {"nested": nested, "iterator": iter(numbers()), "table": filled_table()}


def numbers() -> Any:
    """A dataset without a thread that reads ahead, so that its iterator's state does not change by itself."""
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.range(9).with_options(options)


def filled_table() -> Any:
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(["one", "two"], [1, 2])
    return table


def mirrored_state() -> dict[str, Any]:
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        on_read = tf.Variable(
            2.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM
        )
        return {"mirrored": tf.Variable([1.0, 2.0]), "on_read": on_read}


@pytest.mark.parametrize("make", [keras_state, plain_state, mirrored_state])
def test_the_files_are_those_of_tensorflow(tmp_path: Path, make: Any) -> None:
    """They equal what `tf.train.Checkpoint.write` writes, byte for byte, for the first save and for later ones."""
    state = make()
    saver = training.Checkpointer(tmp_path, **state)
    assert saver._snapshots.take() is not None
    for step in (1, 2, 3):
        if step == 2:
            next(state["iterator"]) if "iterator" in state else None
        path = saver.save(step, wait=True)
        plain = tf.train.Checkpoint(**state).write(str(tmp_path / f"plain-{step}"))
        for suffix in (".index", ".data-00000-of-00001"):
            assert Path(f"{path}/state{suffix}").read_bytes() == Path(plain + suffix).read_bytes()
    tf.train.Checkpoint(**state).read(f"{path}/state").assert_consumed()


def test_the_state_may_grow(tmp_path: Path) -> None:
    """Variables that are added, replaced or renamed after a save are in the next one."""
    holder = tf.train.Checkpoint(old=tf.Variable(1.0))
    saver = training.Checkpointer(tmp_path, holder=holder)

    def saved(step: int) -> dict[str, float]:
        reader = tf.train.load_checkpoint(f"{saver.save(step, wait=True)}/state")
        keys = [key for key in reader.get_variable_to_shape_map() if key.startswith("holder")]
        return {key.split("/")[1]: float(reader.get_tensor(key)) for key in keys}

    assert saved(1) == {"old": 1.0}
    holder.new = tf.Variable(2.0)
    assert saved(2) == {"old": 1.0, "new": 2.0}
    holder.old = tf.Variable(3.0)
    assert saved(3) == {"old": 3.0, "new": 2.0}
    holder.renamed = holder.new
    del holder.new
    assert saved(4) == {"old": 3.0, "renamed": 2.0}


def test_a_tensorflow_without_that_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then training waits for the writing, and the checkpoint is the same."""
    weights = tf.Variable([1.0])
    saver = training.Checkpointer(tmp_path, weights=weights)
    monkeypatch.delattr(type(saver._checkpoint._saver), "_gather_serialized_tensors")
    assert saver._snapshots.take() is None
    monkeypatch.undo()
    monkeypatch.setattr(snapshot.Snapshots, "take", lambda snapshots: None)
    saver.save(10)
    weights.assign([2.0])
    assert saver.restore() == 10
    assert weights.numpy() == [1.0]


@pytest.mark.parametrize(
    "kills", [2, pytest.param(150, marks=[pytest.mark.soak, pytest.mark.timeout(900)])], ids=["short", "long"]
)
def test_kills_and_ends(tmp_path: Path, kills: int) -> None:
    """After every kill the newest checkpoint is whole and restores; other ends wait for theirs, or report a failure."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    argv = [sys.executable, str(CHILDREN / "saves.py"), str(tmp_path / "checkpoints"), str(seed), str(kills)]
    child = subprocess.run(argv, env=os.environ, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr[-4000:]
    seen: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    assert len(seen["killed"]) == kills
    assert seen["killed"] == sorted(seen["killed"])
    last = seen["killed"][-1]
    assert last > 0
    assert seen["end_at_once"] == [0, "", last + 1]
    assert seen["end_with_a_full_disk"] == [1, "", last + 1]
    assert f"clusterkit: worker:0: The checkpoint of step {last + 2} could not be saved in" in child.stderr
    code, said, newest = seen["save_twice_on_a_full_disk"]
    assert (code, newest) == (5, last + 1)
    assert said.startswith(f"The checkpoint of step {last + 2} could not be saved in")
    assert seen["is_preempted"] == [42, "", last + 3]
    assert seen["restored"] == last + 3
    assert [name for name in seen["left"] if name.startswith(".")] == []


def test_with_parameter_servers(up: Any) -> None:
    """Sharded and plain variables are copied from the ps in one call, and are those of the save."""
    run: Up = up("--workers", "1", "--ps", "2", CHILDREN / "ps_saves.py")
    assert run.wait(200) == 0, run.output[-6000:]
    told = [json.loads(line) for line in run.log("chief:0").decode().splitlines() if line.startswith("{")]
    assert told == [{"same": True, "restored": [10, 1.0], "direct": [20, 2.0]}]
