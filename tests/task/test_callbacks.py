"""Keras's callbacks on several workers, with stand-ins: where each writes, what is removed, and a kill meanwhile."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import callbacks
from tests.support import load


def makedirs(path: str) -> None:
    """Like TensorFlow's."""
    Path(path).mkdir(parents=True, exist_ok=True)


def rename(source: str, target: str, overwrite: bool) -> None:
    """Like TensorFlow's."""
    assert overwrite
    Path(source).replace(target)


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as worker:1, with the part of TensorFlow that is used."""
    files = SimpleNamespace(
        makedirs=makedirs, rmtree=shutil.rmtree, rename=rename, isdir=lambda path: Path(path).is_dir()
    )
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(io=SimpleNamespace(gfile=files)))
    monkeypatch.setenv("TF_CONFIG", '{"task": {"type": "worker", "index": 1}}')


class Model:
    """A model like Keras's, which can be killed while it saves, and which looks at its attributes."""

    state, dies = 0, False

    def save(self, filepath: str, overwrite: bool = True, zipped: bool = False) -> None:
        assert vars(self).keys() <= {"state", "dies"}
        assert Path(filepath).suffix == ".keras"
        Path(filepath).write_text("half of it" if self.dies else str(self.state))
        if self.dies:
            raise KeyboardInterrupt

    save_weights = save


for method in (Model.save, Model.save_weights):
    method.__module__ = "keras.src.models.model"


class OwnModel(Model):
    """A model with a method of the program's, which writes another file beside it."""

    def save(self, filepath: str, overwrite: bool = True, zipped: bool = False) -> None:
        super().save(filepath)
        Path(filepath).with_suffix(".txt").write_text("words")


def model_checkpoint() -> Any:
    """A class like Keras's."""

    class ModelCheckpoint:
        def __init__(self, filepath: Path | str) -> None:
            self.filepath, self.model, self.save_weights_only = filepath, Model(), False

        def set_model(self, model: Any) -> None:
            self.model = model

        def _save_model(self, **options: Any) -> None:
            self.model.save(str(self.filepath), **(options or {"overwrite": True}))

        def save(self, epoch: int) -> None:
            path = Path(str(self.filepath).format(epoch=epoch))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("model")

        def on_train_end(self, logs: Any = None) -> None:
            self.ended = True

    return ModelCheckpoint


def backup() -> Any:
    """A class like Keras's, which can be killed while it saves."""

    class BackupAndRestore:
        def __init__(self, backup_dir: str, double_checkpoint: bool = False) -> None:
            self.backup_dir = backup_dir
            self.double_checkpoint = double_checkpoint
            self._weights_path = f"{backup_dir}/latest.weights.h5"
            self._training_metadata_path = f"{backup_dir}/training_metadata.json"
            self.state, self.dies = 0, False
            self.meanwhile: Callable[[], None] = lambda: None
            self.model: Any = None

        def set_model(self, model: Any) -> None:
            self.model = model

        def on_train_begin(self, logs: Any = None) -> None:
            self.begun = True

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch

        def _save_model(self) -> None:
            Path(self.backup_dir).mkdir(parents=True, exist_ok=True)
            self.meanwhile()
            Path(self._weights_path).write_text("half of it" if self.dies else str(self.state))
            if self.dies:
                raise KeyboardInterrupt
            Path(self._training_metadata_path).write_text(json.dumps({"epoch": self.state}))

        def restored(self) -> tuple[str, int]:
            return (
                Path(self._weights_path).read_text(),
                json.loads(Path(self._training_metadata_path).read_text())["epoch"],
            )

        def on_train_end(self, logs: Any = None) -> None:
            shutil.rmtree(self.backup_dir)

    return BackupAndRestore


@pytest.mark.parametrize("name", ["model.keras", "epoch-{epoch}.weights.h5", "epoch-{epoch}/model.keras"])
def test_a_worker_writes_beside_the_chiefs_files(tmp_path: Path, name: str) -> None:
    """In its own directory, also if the path contains an epoch; the directory is removed at the end of fit."""
    kind = model_checkpoint()
    callbacks.write_separately(SimpleNamespace(ModelCheckpoint=kind), load)
    made = kind(tmp_path / name)
    made.save(3)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written == [tmp_path / "workertemp_1" / name.format(epoch=3)]
    made.on_train_end()
    assert made.ended
    assert list(tmp_path.iterdir()) == []


def test_two_callbacks_share_the_directory(tmp_path: Path) -> None:
    """The second one to end finds the directory removed."""
    kind = model_checkpoint()
    callbacks.write_separately(SimpleNamespace(ModelCheckpoint=kind), load)
    first, second = kind(tmp_path / "a.keras"), kind(tmp_path / "b.keras")
    first.on_train_end()
    second.on_train_end()
    assert list(tmp_path.iterdir()) == []


def test_keras_2_needs_the_patch_for_its_csv_logger_alone(tmp_path: Path) -> None:
    """Its other callbacks do that by themselves, and wait for the chief."""
    checkpoint, logger = model_checkpoint(), type("CSVLogger", (), {"on_train_end": lambda self, logs: None})
    logger.__init__ = lambda self, filename: setattr(self, "filename", filename)  # type: ignore[misc]
    callbacks.separate_keras_2(SimpleNamespace(ModelCheckpoint=checkpoint, CSVLogger=logger), load)
    made: Any = logger(str(tmp_path / "log.csv"))
    assert made.filename == str(tmp_path / "workertemp_1_log" / "log.csv")  # its own checkpoints remove workertemp_1
    assert checkpoint(tmp_path / "a.keras").filepath == tmp_path / "a.keras"


def whole_checkpoint(path: Path) -> Any:
    """The chief's callback."""
    kind = model_checkpoint()
    callbacks.save_atomically(SimpleNamespace(ModelCheckpoint=kind), load)
    return kind(path)


def test_a_killed_save_leaves_the_previous_model(tmp_path: Path) -> None:
    """Nothing is left beside the next one, and the model is as it was."""
    made = whole_checkpoint(tmp_path / "best.keras")
    made.model.state = 1
    made._save_model()
    made.model.state, made.model.dies = 2, True
    with pytest.raises(KeyboardInterrupt):
        made._save_model()
    assert (tmp_path / "best.keras").read_text() == "1"
    made.model.dies = False
    made._save_model()
    assert (tmp_path / "best.keras").read_text() == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["best.keras"]
    assert vars(made.model).keys() == {"state", "dies"}


def test_a_link_to_the_model_stays_a_link(tmp_path: Path) -> None:
    """The file that it leads to is replaced."""
    (tmp_path / "best.keras").symlink_to(tmp_path / "disk.keras")
    whole_checkpoint(tmp_path / "best.keras")._save_model()
    assert (tmp_path / "best.keras").is_symlink()
    assert (tmp_path / "disk.keras").read_text() == "0"


def test_a_models_own_method_saves_where_it_is_told_to(tmp_path: Path) -> None:
    """It may write other files, too."""
    made = whole_checkpoint(tmp_path / "best.keras")
    made.set_model(OwnModel())
    made._save_model()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.keras", "best.txt"]


def test_other_ways_to_save_are_left_alone(tmp_path: Path) -> None:
    """With arguments of a subclass; into a directory, which fails as usual; where no other file may be made."""
    made = whole_checkpoint(tmp_path / "best.keras")
    made._save_model(zipped=True)
    assert (tmp_path / "best.keras").read_text() == "0"
    (tmp_path / "best.keras.part").write_text("no directory")
    made.model.state = 1
    made._save_model()
    assert (tmp_path / "best.keras").read_text() == "1"
    (tmp_path / "taken.keras").mkdir()
    with pytest.raises(IsADirectoryError):
        whole_checkpoint(tmp_path / "taken.keras")._save_model()


def test_all_workers_restore_what_the_chief_has_saved(tmp_path: Path) -> None:
    """They save elsewhere, and remove only their own files."""
    place = str(tmp_path / "backup")
    chief = backup()(place)
    chief.state = 4
    chief._save_model()
    kind = backup()
    callbacks.write_separately(SimpleNamespace(BackupAndRestore=kind), load)
    worker = kind(place)
    worker.state = 7
    worker._save_model()
    assert worker.restored() == ("4", 4)
    assert (tmp_path / "workertemp_1" / "backup" / "latest.weights.h5").read_text() == "7"
    worker.on_train_end()
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "backup",
        "latest.weights.h5",
        "training_metadata.json",
    ]
    chief.on_train_end()
    worker.on_train_end()


@pytest.mark.parametrize("place", ["backup", "backup/"])
def test_the_chief_may_end_while_a_worker_still_saves(tmp_path: Path, place: str) -> None:
    """The chief removes its backup, and not the worker's."""
    kind = backup()
    chief = kind(str(tmp_path / "backup"))
    chief._save_model()
    kind = backup()
    callbacks.write_separately(SimpleNamespace(BackupAndRestore=kind), load)
    worker = kind(f"{tmp_path}/{place}")
    worker.meanwhile = chief.on_train_end
    worker._save_model()
    worker.on_train_end()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_backup_leaves_the_previous_one(tmp_path: Path) -> None:
    """The next attempt restores that one, and saves again."""
    kind = backup()
    callbacks.back_up_atomically(SimpleNamespace(BackupAndRestore=kind), load)
    made = kind(str(tmp_path / "backup"))
    made.state = 1
    made._save_model()
    made.state, made.dies = 2, True
    with pytest.raises(KeyboardInterrupt):
        made._save_model()
    assert made.restored() == ("1", 1)
    made.dies = False
    made._save_model()
    assert made.restored() == ("2", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]


def test_a_backup_that_keeps_two_is_left_alone(tmp_path: Path) -> None:
    """It can use the previous one."""
    kind = backup()
    callbacks.back_up_atomically(SimpleNamespace(BackupAndRestore=kind), load)
    made = kind(str(tmp_path / "backup"), double_checkpoint=True)
    made._save_model()
    assert made.restored() == ("0", 0)
