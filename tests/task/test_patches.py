"""Patches: modules are patched as they are imported, what is not faulty is left alone, and refusals say what to do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import hook, keras_fit, keras_rows, refusals
from tests import support

FAULTY_AXIS, MENDED_AXIS = 0, None


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
    """Once, complete, and with the loader that it would have without."""
    before = list(sys.meta_path)
    hook.install(["value"], load)
    faulty: Any = importlib.import_module("faulty")
    assert faulty.VALUE == 2
    assert type(faulty.__loader__) is type(faulty.__spec__.loader) is SourceFileLoader
    assert sys.meta_path == before
    assert importlib.reload(faulty).VALUE == 1, "what the program loads anew is its own affair"


def test_a_look_at_a_module_does_not_use_up_the_mend(place: Path) -> None:
    """`find_spec` alone loads nothing."""
    hook.install(["value"], load)
    spec = importlib.util.find_spec("faulty")
    assert spec is not None
    assert spec.loader.get_source("faulty") == "VALUE = 1\n"  # type: ignore[union-attr]
    assert importlib.import_module("faulty").VALUE == 2


def test_a_fork_that_has_the_module_already_is_patched_at_once(place: Path) -> None:
    """As in a warm start; nothing is left in the path of imports."""
    faulty, before = importlib.import_module("faulty"), list(sys.meta_path)
    hook.install(["value"], load)
    assert faulty.VALUE == 2
    assert sys.meta_path == before


def test_a_module_of_another_version_is_left_alone(place: Path) -> None:
    """What is not there can't be patched, and is no reason to fail."""
    (place / "faulty.py").write_text("OTHER = 1\n")
    hook.install(["value"], load)
    assert importlib.import_module("faulty").OTHER == 1


def test_what_is_not_there_fails_as_without(place: Path) -> None:
    """A module that nobody has."""
    (place / "faulty.py").unlink()
    hook.install(["value"], load)
    with pytest.raises(ModuleNotFoundError, match="No module named 'faulty'"):
        importlib.import_module("faulty")


def test_every_mend_has_its_file_and_function() -> None:
    """The names in the table are looked up in the tasks only."""
    for places in hook.PATCHES.values():
        for file, function in places.values():
            assert callable(getattr(load(f"task/patches/{file}"), function))


class MultiWorker:
    """A strategy whose every other worker has what this one has, doubled."""

    def __init__(self, chief: bool = True) -> None:
        self.extended = SimpleNamespace(_in_multi_worker_mode=lambda: True, should_checkpoint=chief)

    def reduce(self, how: str, value: Any, axis: object) -> Any:
        assert axis is None, "a number has no rows"
        return {"MEAN": 1.5, "SUM": 3.0}[how] * value

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        return (value.mine,)

    scope = nullcontext


class Distributed:
    """A batch of which this worker has a part."""

    mine = "my part"


def keras(faulty: bool) -> Any:
    """A module made as Keras's trainer is, with both faults or with none. What an epoch gives has its batches last."""

    class Trainer:
        built: Any = None

        def __init__(self, strategy: Any) -> None:
            self._distribute_strategy = strategy

        @property
        def distribute_strategy(self) -> Any:
            return self._distribute_strategy

        def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
            if iterator is not None:
                strategy, (*_, batches) = self.distribute_strategy, next(iter(iterator))
                batch = next(batches)
                data_batch = strategy.reduce("MEAN", batch, axis=None) if faulty else batch.mine
            self._symbolic_build(data_batch=data_batch)

        def _symbolic_build(self, data_batch: Any) -> None:
            self.built = data_batch

    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        return strategy.reduce("MEAN", values, axis=FAULTY_AXIS if faulty else MENDED_AXIS)

    kinds = SimpleNamespace(MultiWorkerMirroredStrategy=MultiWorker, DistributedValues=Distributed)
    tf = SimpleNamespace(distribute=kinds, experimental=SimpleNamespace(Optional=ModuleType), OptionalSpec=ModuleType)
    tree = SimpleNamespace(map_structure=lambda function, value: function(value))
    return SimpleNamespace(TensorFlowTrainer=Trainer, reduce_per_replica=reduce_per_replica, tf=tf, tree=tree)


def test_keras_is_patched_when_a_model_asks_for_the_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    """Not before; then the model is built from a part, numbers are reduced as they are, and the chief says it once."""
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
    assert trainer.reduce_per_replica(2.0, strategy, "auto") == 3.0
    assert trainer.reduce_per_replica(2.0, strategy, "sum") == 6.0
    said = capsys.readouterr().err
    assert said.count("clusterkit: patched fit, evaluate and predict of Keras") == said.count("\n") == 1
    assert "--no-patches leaves them as they are." in said


@pytest.mark.parametrize("steps", [(0,), (0, 1)], ids=["until Keras 3.10", "since"])
def test_a_model_is_built_whatever_an_epoch_gives(steps: tuple[int, ...]) -> None:
    """With the batches come the numbers of the first step and the last, or of the first alone."""

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


@pytest.mark.parametrize(
    ("version", "refused"), [("3.0.0", True), ("3.9.2", True), ("3.10.0", False), ("3.15.1", False)]
)
def test_an_old_keras_is_refused(monkeypatch: pytest.MonkeyPatch, version: str, refused: bool) -> None:
    """Several workers would learn something else than one process, and nobody would say so."""
    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(__version__=version))
    trainer = keras(faulty=True)
    keras_fit.watch(trainer, load)
    assert trainer.TensorFlowTrainer("no strategy of several workers").distribute_strategy
    if not refused:
        assert trainer.TensorFlowTrainer(MultiWorker()).distribute_strategy
        return
    with pytest.raises(SystemExit) as stopped:
        _ = trainer.TensorFlowTrainer(MultiWorker()).distribute_strategy
    sentence = str(stopped.value)
    assert sentence.startswith("clusterkit: test_patches.py, line ")
    assert f"on several workers with Keras {version}" in sentence
    assert "pip install 'keras>=3.10'" in sentence
    assert "--no-patches" in sentence


@pytest.mark.parametrize(("version", "refused"), [("3.2.0", True), ("3.4.1", True), ("3.5.0", False)])
def test_an_optimizer_of_an_old_keras_is_refused(monkeypatch: pytest.MonkeyPatch, version: str, refused: bool) -> None:
    """Measured: with Keras 3.2.0 and 3.4.1 the workers' weights differ after a step, with 3.5.0 they do not."""
    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(__version__=version))
    optimizer: Any = type("BaseOptimizer", (), {"__init__": lambda self, rate: setattr(self, "rate", rate)})
    refusals.refuse_old_optimizers(SimpleNamespace(BaseOptimizer=optimizer), load)
    if not refused:
        assert optimizer(0.1).rate == 0.1
        return
    with pytest.raises(SystemExit, match=rf"test_patches.py, line \d+, creates an optimizer of Keras {version}, "):
        optimizer(0.1)


def test_a_keras_without_the_faults_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """As soon as upstream is fixed: the very same functions, and no line."""
    trainer = keras(faulty=False)
    plain = trainer.reduce_per_replica, trainer.TensorFlowTrainer._maybe_symbolic_build
    keras_fit.watch(trainer, load)
    assert trainer.TensorFlowTrainer(MultiWorker()).distribute_strategy
    assert (trainer.reduce_per_replica, trainer.TensorFlowTrainer._maybe_symbolic_build) == plain
    assert capsys.readouterr().err == ""


def test_a_keras_that_is_made_otherwise_is_left_alone() -> None:
    """A probe that fails is no proof of a fault."""
    trainer = keras(faulty=True)
    trainer.reduce_per_replica = plain = len
    del trainer.TensorFlowTrainer._maybe_symbolic_build
    keras_fit.watch(trainer, load)
    assert trainer.TensorFlowTrainer(MultiWorker()).distribute_strategy
    assert trainer.reduce_per_replica is plain


def test_only_the_chief_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The others have the same mend, and nothing to add."""
    trainer = keras(faulty=True)
    keras_fit.watch(trainer, load)
    assert trainer.TensorFlowTrainer(MultiWorker(chief=False)).distribute_strategy
    assert trainer.reduce_per_replica(2.0, MultiWorker(), "mean") == 3.0
    assert capsys.readouterr().err == ""


def test_a_share_counts_inside_of_a_step_alone() -> None:
    """Also after a step that has failed."""

    def step() -> None:
        with keras_rows.counted(0.25):
            raise KeyError(keras_rows.share())

    with pytest.raises(KeyError, match=r"0\.25"):
        step()
    assert keras_rows.share() is None


def test_fit_under_parameter_servers_is_refused() -> None:
    """With the place in the program, and both ways out; other strategies are not looked at."""

    class ParameterServer: ...

    trainer = keras(faulty=True)
    trainer.tf.distribute.ParameterServerStrategy = ParameterServer
    trainer.tf.__version__ = "2.21.0"
    refusals.refuse_fit(trainer, load)
    assert trainer.TensorFlowTrainer(MultiWorker()).distribute_strategy
    with pytest.raises(SystemExit) as stopped:
        _ = trainer.TensorFlowTrainer(ParameterServer()).distribute_strategy
    sentence = str(stopped.value)
    assert sentence.startswith("clusterkit: test_patches.py, line ")
    assert "under ParameterServerStrategy, which Keras 3 can't do" in sentence
    assert "--keras 2 (pip install 'tf_keras==2.21.*')" in sentence
    assert "ClusterCoordinator" in sentence


@pytest.mark.parametrize(
    ("refuse", "name"),
    [
        (refusals.refuse_strategy, "ParameterServerStrategyV2"),
        (refusals.refuse_coordinator, "ClusterCoordinator"),
    ],
)
def test_a_worker_that_makes_the_coordinators_things_is_told_so(
    refuse: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which task, where in the program, and what to do instead."""
    module = SimpleNamespace(**{name: type(name, (), {})})
    monkeypatch.setenv("CLUSTERKIT_TASK", "worker:1")
    refuse(module, load)
    with pytest.raises(SystemExit) as stopped:
        getattr(module, name)()
    sentence = str(stopped.value)
    assert sentence.startswith("clusterkit: worker:1 has reached the coordinator's code: test_patches.py, line ")
    assert f"creates a {name.removesuffix('V2')}, which only the chief can do" in sentence
    assert "clusterkit.training.serve()" in sentence
    assert "--servers builtin" in sentence
