"""Patches: modules are patched when they are imported, and versions without the defects are left alone."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from clusterkit.task.patches import hook
from clusterkit.task.patches.keras import fit as keras_fit
from tests import support
from tests.task.keras_fakes import Distributed, MultiWorker, keras


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a module `faulty`, on the path."""
    (tmp_path / "faulty.py").write_text("VALUE = 1\n")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(hook.PATCHES, "value", {"faulty": ("some", "mend")})
    yield tmp_path
    sys.modules.pop("faulty", None)


def load(name: str) -> ModuleType:
    """A file of patches for `faulty`, and the real ones by their names."""
    if name != "task/patches/some":
        return support.load(name)
    some = ModuleType(name)
    vars(some)["mend"] = lambda module, _: setattr(module, "VALUE", module.VALUE + 1)
    return some


def test_a_module_is_patched_when_it_is_imported(place: Path) -> None:
    """Once, completely, and with its usual loader."""
    before = list(sys.meta_path)
    hook.install(["value"], load)
    faulty: Any = importlib.import_module("faulty")
    assert faulty.VALUE == 2
    assert type(faulty.__loader__) is type(faulty.__spec__.loader) is SourceFileLoader
    assert sys.meta_path == before
    assert importlib.reload(faulty).VALUE == 1, "what the program loads anew is its own affair"


def test_find_spec_alone_does_not_use_up_the_patch(place: Path) -> None:
    """`find_spec` alone loads nothing."""
    hook.install(["value"], load)
    spec = importlib.util.find_spec("faulty")
    assert spec is not None
    assert spec.loader.get_source("faulty") == "VALUE = 1\n"  # type: ignore[union-attr]
    assert importlib.import_module("faulty").VALUE == 2


def test_a_fork_that_has_the_module_already_is_patched_at_once(place: Path) -> None:
    """As in a warm start; no finder is left in `sys.meta_path`."""
    faulty, before = importlib.import_module("faulty"), list(sys.meta_path)
    hook.install(["value"], load)
    assert faulty.VALUE == 2
    assert sys.meta_path == before


def test_a_module_of_another_version_is_left_alone(place: Path) -> None:
    """A missing attribute is not an error."""
    (place / "faulty.py").write_text("OTHER = 1\n")
    hook.install(["value"], load)
    assert importlib.import_module("faulty").OTHER == 1


def test_a_missing_module_fails_as_usual(place: Path) -> None:
    """With the usual ImportError."""
    (place / "faulty.py").unlink()
    hook.install(["value"], load)
    with pytest.raises(ModuleNotFoundError, match="No module named 'faulty'"):
        importlib.import_module("faulty")


def test_every_patch_has_its_file_and_function() -> None:
    """The names in the table are otherwise looked up only in tasks."""
    for places in hook.PATCHES.values():
        for file, function in places.values():
            assert callable(getattr(load(f"task/patches/{file}"), function))


@pytest.fixture(autouse=True)
def no_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The repairs of steps, losses and optimizers need the real Keras: tests/task/test_keras_equivalence.py."""
    monkeypatch.setattr(keras_fit, "REPAIRS", ())


def test_keras_is_patched_when_a_model_asks_for_the_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    """Not before; then the model is built from a part, numbers are not reduced, and the chief prints one line."""
    trainer, strategy = keras(faulty=True), MultiWorker()
    plain = trainer.reduce_per_replica, trainer.TensorFlowTrainer.distribute_strategy
    keras_fit.watch(trainer, load)
    alone = trainer.TensorFlowTrainer("no strategy of several workers")
    assert alone.distribute_strategy == "no strategy of several workers"
    assert trainer.reduce_per_replica is plain[0]
    model = trainer.TensorFlowTrainer(strategy)
    assert model.distribute_strategy is model.distribute_strategy is strategy
    assert trainer.TensorFlowTrainer.distribute_strategy is plain[1]
    model._maybe_symbolic_build(iterator=[(0, 1, iter([Distributed()]))])
    assert model.built == "my part"
    assert trainer.reduce_per_replica(Distributed(), strategy, "auto") == "my part"
    said = capsys.readouterr().err
    assert said.count("clusterkit: patched fit, evaluate and predict of Keras") == said.count("\n") == 1
    assert "--no-patches leaves them as they are." in said


@pytest.mark.parametrize("steps", [(0,), (0, 1)], ids=["until Keras 3.10", "since"])
def test_a_model_is_built_whatever_an_epoch_gives(steps: tuple[int, ...]) -> None:
    """Before the batches come the numbers of the first and last step, or only of the first."""

    def build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        for *numbers, batches in iterator or ():
            if len(numbers) != len(steps):
                raise ValueError("not enough values to unpack, or too many")
            data_batch = self.distribute_strategy.reduce("MEAN", next(batches), axis=None)
        self._symbolic_build(data_batch=data_batch)

    trainer = keras(faulty=True)
    trainer.TensorFlowTrainer._maybe_symbolic_build = build
    keras_fit.watch(trainer, load)
    model = trainer.TensorFlowTrainer(MultiWorker())
    assert model.distribute_strategy
    model._maybe_symbolic_build(iterator=[(*steps, iter([Distributed()]))])
    assert model.built == "my part"


def test_a_keras_without_the_defects_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """As soon as Keras is fixed: the same functions, and no message."""
    trainer = keras(faulty=False)
    plain = trainer.reduce_per_replica, trainer.TensorFlowTrainer._maybe_symbolic_build
    keras_fit.watch(trainer, load)
    assert trainer.TensorFlowTrainer(MultiWorker()).distribute_strategy
    assert (trainer.reduce_per_replica, trainer.TensorFlowTrainer._maybe_symbolic_build) == plain
    assert capsys.readouterr().err == ""


def test_a_keras_with_other_code_is_left_alone() -> None:
    """A probe that fails does not prove a defect."""
    trainer = keras(faulty=True)
    trainer.reduce_per_replica = plain = len
    del trainer.TensorFlowTrainer._maybe_symbolic_build
    keras_fit.watch(trainer, load)
    assert trainer.TensorFlowTrainer(MultiWorker()).distribute_strategy
    assert trainer.reduce_per_replica is plain


def test_a_notice_is_printed_once_by_the_chief(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However often a step is traced."""
    for leading in ([], [True], [True]):
        monkeypatch.setattr(keras_fit, "_leading", leading)
        keras_fit.say_once("something is different")
    assert capsys.readouterr().err == "clusterkit: something is different\n"


def test_only_the_chief_prints_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    """The others have the same patch, and print nothing."""
    trainer = keras(faulty=True)
    keras_fit.watch(trainer, load)
    assert trainer.TensorFlowTrainer(MultiWorker(chief=False)).distribute_strategy
    assert trainer.reduce_per_replica(Distributed(), MultiWorker(), "mean") == "my part"
    assert capsys.readouterr().err == ""
