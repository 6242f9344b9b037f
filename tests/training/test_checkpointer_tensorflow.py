"""Checkpoints with TensorFlow, in this one process: what is saved comes back, and what does not fit is said."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit import training
from clusterkit.training import background, progress, resumption
from tests.support import Lazily

pytestmark = pytest.mark.tensorflow
tf: Any = Lazily("tensorflow")


@pytest.fixture(autouse=True)
def messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The messages to the supervisor, recorded instead of written."""
    for name in ("TF_CONFIG", "CLUSTERKIT_TASK", "CLUSTERKIT_CHECKPOINT_DIR", "CLUSTERKIT_ATTEMPT"):
        monkeypatch.delenv(name, raising=False)
    sent: list[dict[str, Any]] = []

    class Recorder(progress.ProgressChannel):
        def _write(self, line: bytes) -> bool:
            sent.append(json.loads(line))
            return True

    fd = os.open(os.devnull, os.O_WRONLY)
    monkeypatch.setattr(progress, "_channel", Recorder(fd, 1))
    yield sent
    background.finish_all()
    os.close(fd)


def but_phases(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages except for phases."""
    return [message for message in messages if message["kind"] != "phase"]


def phases(messages: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """The phases: their names, and whether they begin."""
    return [(message["phase"], message["begun"]) for message in messages if message["kind"] == "phase"]


def variable(value: float = 0.0, size: int = 3) -> Any:
    return tf.Variable([value] * size)


def test_save_and_restore(tmp_path: Path, messages: list[dict[str, Any]]) -> None:
    """The newest state is restored with its step, and both operations are reported."""
    weights = variable()
    saver = training.Checkpointer(tmp_path, keep=2, weights=weights)
    for step in (10, 20, 30):
        weights.assign([float(step)] * 3)
        saver.save(step)
    restored = variable()
    assert training.Checkpointer(tmp_path, weights=restored).restore() == 30
    assert restored.numpy().tolist() == [30.0] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ckpt-20", "ckpt-30"]
    path = str(tmp_path / "ckpt-30")
    assert phases(messages) == 4 * [("checkpoint", True), ("checkpoint", False)]
    assert but_phases(messages)[-2:] == [
        {"kind": "checkpoint", "attempt": 1, "step": 30, "path": path},
        {"kind": "resumed", "attempt": 1, "step": 30, "path": path},
    ]


def test_nothing_to_restore(tmp_path: Path, messages: list[dict[str, Any]]) -> None:
    """Without a checkpoint, restore returns step 0 and changes nothing."""
    weights = variable(7.0)
    assert training.Checkpointer(tmp_path / "none", weights=weights).restore() == 0
    assert weights.numpy().tolist() == [7.0] * 3
    assert but_phases(messages) == [{"kind": "resumed", "attempt": 1, "step": 0, "path": None}]


def test_damaged_is_skipped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A truncated newest checkpoint loses its steps only; the next save removes it."""
    weights = variable()
    saver = training.Checkpointer(tmp_path, weights=weights)
    for step in (10, 20):
        weights.assign([float(step)] * 3)
        saver.save(step, wait=True)
    (data,) = (tmp_path / "ckpt-20").glob("state.data*")
    data.write_bytes(data.read_bytes()[:-3])
    resumed = training.Checkpointer(tmp_path, weights=weights)
    assert resumed.restore() == 10
    warning = capfd.readouterr().err
    assert f"clusterkit: worker:0 skipped the checkpoint {tmp_path / 'ckpt-20'}: {data.name} has " in warning
    assert weights.numpy().tolist() == [10.0] * 3
    resumed.save(15, wait=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ckpt-10", "ckpt-15"]


@pytest.mark.parametrize(
    "changed",
    [{"weights": 4}, {"weights": 3, "more": 3}, {"other": 3}],
    ids=["shape", "more", "renamed"],
)
def test_changed_program(tmp_path: Path, changed: dict[str, int]) -> None:
    """An intact checkpoint that does not fit is an error; it is never skipped for an older one."""
    training.Checkpointer(tmp_path, weights=variable()).save(10)
    with pytest.raises(training.CheckpointMismatch, match=r"ckpt-10 is intact but does not fit this program"):
        training.Checkpointer(tmp_path, **{name: variable(size=size) for name, size in changed.items()}).restore()


def test_less_than_was_saved(tmp_path: Path) -> None:
    """Values for which the program has no variable are an error too: they would be lost at the next save."""
    training.Checkpointer(tmp_path, weights=variable(), optimizer=variable()).save(10)
    with pytest.raises(training.CheckpointMismatch, match="build the model and the optimizer before restore"):
        training.Checkpointer(tmp_path, weights=variable()).restore()


def test_step_saved_twice(tmp_path: Path) -> None:
    """A step repeated after a restart replaces its checkpoint."""
    weights = variable(1.0)
    saver = training.Checkpointer(tmp_path, weights=weights)
    saver.save(10)
    weights.assign([2.0] * 3)
    saver.save(10)
    weights.assign([3.0] * 3)
    assert saver.restore() == 10
    assert weights.numpy().tolist() == [2.0] * 3


def be(monkeypatch: pytest.MonkeyPatch, task: str, **cluster: int) -> None:
    task_type, _, index = task.partition(":")
    spec = {name: [f"h:{n}" for n in range(size)] for name, size in cluster.items()}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": spec, "task": {"type": task_type, "index": int(index)}}))


def test_other_workers_keep_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: list[dict[str, Any]]
) -> None:
    """A worker other than the chief takes part in saving and leaves nothing behind."""
    be(monkeypatch, "worker:1", worker=2)
    assert training.Checkpointer(tmp_path, weights=variable()).save(10) is None
    assert list(tmp_path.iterdir()) == []
    assert but_phases(messages) == []


@pytest.mark.parametrize("task", ["worker:0", "ps:0", "evaluator:0"])
def test_tasks_that_must_not_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    """Saving is an error in servers and in the evaluator."""
    be(monkeypatch, task, chief=1, worker=1, ps=1, evaluator=1)
    with pytest.raises(RuntimeError, match=f"{task} called Checkpointer.save"):
        training.Checkpointer(tmp_path, weights=variable()).save(10)


def test_the_evaluator_does_not_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: list[dict[str, Any]]
) -> None:
    """The evaluator restores the newest checkpoint, but does not report that training resumed."""
    training.Checkpointer(tmp_path, weights=variable(1.0)).save(10, wait=True)
    be(monkeypatch, "evaluator:0", worker=1, evaluator=1)
    messages.clear()
    weights = variable()
    assert training.Checkpointer(tmp_path, weights=weights).restore() == 10
    assert weights.numpy().tolist() == [1.0] * 3
    assert but_phases(messages) == []


@pytest.mark.parametrize("reads", ["its names", "its values"])
def test_a_checkpoint_that_is_removed_while_it_is_read_is_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    """The chief keeps the newest ones, and an evaluator may be slow: the one after it is restored."""
    weights = variable(1.0)
    saver = training.Checkpointer(tmp_path, weights=weights)
    saver.save(10)
    weights.assign([2.0] * 3)
    saver.save(20, wait=True)
    be(monkeypatch, "evaluator:0", worker=1, evaluator=1)
    slow = training.Checkpointer(tmp_path, weights=weights)
    from tensorflow.python.ops import io_ops

    where, name = {"its names": (tf.train.Checkpoint, "read"), "its values": (io_ops, "restore_v2")}[reads]
    real = getattr(where, name)

    def late(*args: Any, **kwargs: Any) -> Any:
        shutil.rmtree(tmp_path / "ckpt-20", ignore_errors=True)
        return real(*args, **kwargs)

    monkeypatch.setattr(where, name, late)
    assert slow.restore(training.Checkpoint(20, str(tmp_path / "ckpt-20"))) == 10
    assert weights.numpy().tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("arguments", "why"),
    [({"keep": 0}, "at least 1"), ({}, "nothing to save"), ({"background": 3}, "must be True or False")],
)
def test_bad_arguments(tmp_path: Path, arguments: dict[str, Any], why: str) -> None:
    """Invalid arguments are rejected by the constructor."""
    with pytest.raises(ValueError, match=why):
        training.Checkpointer(tmp_path, **arguments)


@pytest.mark.parametrize("step", [-1, 1.5])
def test_bad_step(tmp_path: Path, step: Any) -> None:
    """An invalid step is rejected before anything is written."""
    with pytest.raises(ValueError, match="an integer from 0 up"):
        training.Checkpointer(tmp_path, weights=variable()).save(step)
    assert list(tmp_path.iterdir()) == []


def test_keras_model_and_optimizer(tmp_path: Path) -> None:
    """A built Keras model and its optimizer are restored exactly."""
    model, optimizer = keras_pair()
    optimizer.apply([tf.ones_like(v) for v in model.trainable_variables], model.trainable_variables)
    training.Checkpointer(tmp_path, model=model, optimizer=optimizer).save(1)
    other, other_optimizer = keras_pair()
    assert training.Checkpointer(tmp_path, model=other, optimizer=other_optimizer).restore() == 1
    for saved, restored in zip(model.get_weights(), other.get_weights(), strict=True):
        assert (saved == restored).all()
    assert int(other_optimizer.iterations.numpy()) == 1


def test_what_dropout_draws_next_is_restored(tmp_path: Path) -> None:
    """A loop with Dropout that is resumed draws the masks of one that was not interrupted."""
    (model, optimizer), x = keras_pair(tf.keras.layers.Dropout(0.5)), tf.ones((3, 4))
    model(x, training=True)
    training.Checkpointer(tmp_path, model=model, optimizer=optimizer).save(1)
    expected = [model(x, training=True).numpy() for _ in range(3)]
    other, other_optimizer = keras_pair(tf.keras.layers.Dropout(0.5))
    training.Checkpointer(tmp_path, model=other, optimizer=other_optimizer).restore()
    assert [(other(x, training=True).numpy() == values).all() for values in expected] == [True] * 3


def test_a_checkpoint_without_random_states_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an earlier clusterkit has saved it."""
    model, optimizer = keras_pair(tf.keras.layers.Dropout(0.5))
    with monkeypatch.context() as before:
        before.setattr(resumption, "random_states", lambda objects: {})
        training.Checkpointer(tmp_path, model=model, optimizer=optimizer).save(1)
    other, other_optimizer = keras_pair(tf.keras.layers.Dropout(0.5))
    assert training.Checkpointer(tmp_path, model=other, optimizer=other_optimizer).restore() == 1
    assert all((one == two).all() for one, two in zip(model.get_weights(), other.get_weights(), strict=True))


def test_nothing_restored_is_told_from_step_0(tmp_path: Path) -> None:
    """`restore` returns 0 for both; `restored` tells them apart."""
    checkpointer = training.Checkpointer(tmp_path, weights=variable())
    assert (checkpointer.restore(), checkpointer.restored) == (0, None)
    path = checkpointer.save(0, wait=True)
    assert (checkpointer.restore(), checkpointer.restored) == (0, (0, path))


def keras_pair(*hidden: Any) -> tuple[Any, Any]:
    model = tf.keras.Sequential([tf.keras.Input((4,)), *hidden, tf.keras.layers.Dense(2)])
    optimizer = tf.keras.optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def test_report_progress_callback(messages: list[dict[str, Any]]) -> None:
    """The callback reports the optimizer's step and the loss, every so many batches and after each epoch."""
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    data, target = tf.zeros((40, 4)), tf.zeros((40, 1))
    model.fit(data, target, batch_size=4, epochs=2, verbose=0, callbacks=[training.ReportProgress(every=5)])
    assert [message["step"] for message in messages] == [5, 10, 10, 15, 20, 20]
    assert all(message["metrics"] == {"loss": 0.0} for message in messages)


def test_report_progress_callback_reports_evaluations(messages: list[dict[str, Any]]) -> None:
    """A long validation does not count as a stall."""
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    data = (tf.zeros((8, 4)), tf.zeros((8, 1)))
    model.fit(*data, verbose=0, validation_data=data, epochs=2, callbacks=[training.ReportProgress()])
    assert phases(messages) == 2 * [("evaluation", True), ("evaluation", False)]


def test_every_name_is_there() -> None:
    """All names in `__all__` can be imported."""
    assert all(getattr(training, name) is not None for name in training.__all__)
    assert set(training.__all__) <= set(dir(training))


def test_report_takes_tensors(messages: list[dict[str, Any]]) -> None:
    """TensorFlow and NumPy scalars are accepted as steps and as metrics."""
    training.report(tf.constant(3), loss=tf.constant(0.5), rate=tf.constant(0.5).numpy())
    assert messages == [{"kind": "progress", "attempt": 1, "step": 3, "metrics": {"loss": 0.5, "rate": 0.5}}]
