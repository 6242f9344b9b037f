"""Refusals: a program that can't work in a task is stopped with its line and what to do."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import refusals
from clusterkit.task.patches.keras import fit as keras_fit
from clusterkit.words.outcome import REFUSED
from tests.support import load
from tests.task.keras_fakes import MultiWorker, keras


@pytest.fixture(autouse=True)
def no_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The repairs of steps, losses and optimizers need the real Keras: tests/task/test_keras_equivalence.py."""
    monkeypatch.setattr(keras_fit, "REPAIRS", ())


@pytest.mark.parametrize(
    ("version", "refused"), [("3.0.0", True), ("3.9.2", True), ("3.10.0", False), ("3.15.1", False)]
)
def test_an_old_keras_is_refused(monkeypatch: pytest.MonkeyPatch, version: str, refused: bool) -> None:
    """Several workers would train another model than one process, without a warning."""
    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(__version__=version))
    trainer = keras(faulty=True)
    keras_fit.watch(trainer, load)
    assert trainer.TensorFlowTrainer("no strategy of several workers").distribute_strategy
    if not refused:
        assert trainer.TensorFlowTrainer(MultiWorker()).distribute_strategy
        return
    sentence = sentence_for(trainer, MultiWorker())
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
    with pytest.raises(SystemExit, match=rf"test_refusals.py, line \d+, creates an optimizer of Keras {version}, "):
        optimizer(0.1)


def sentence_for(trainer: Any, strategy: object) -> str:
    """The message with which a model of this strategy ends its program."""
    with pytest.raises(SystemExit) as stopped:
        _ = trainer.TensorFlowTrainer(strategy).distribute_strategy
    sentence = str(stopped.value)
    assert sentence.startswith("clusterkit: test_refusals.py, line ")
    return sentence


def test_a_keras_whose_internals_are_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would train another model than one process, without a warning."""
    monkeypatch.setattr(keras_fit, "REPAIRS", ("rows",))
    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(__version__="3.99.0"))
    trainer = keras(faulty=True)
    keras_fit.watch(trainer, load)
    sentence = sentence_for(trainer, MultiWorker())
    assert "with Keras 3.99.0, which clusterkit does not know how to patch" in sentence
    assert "--keras 2" in sentence
    assert "--no-patches" in sentence


def test_fit_under_parameter_servers_is_refused() -> None:
    """With the line of the program, and both alternatives; other strategies are not affected."""

    class ParameterServer: ...

    trainer = keras(faulty=True)
    trainer.tf.distribute.ParameterServerStrategy = ParameterServer
    trainer.tf.__version__ = "2.21.0"
    refusals.refuse_fit(trainer, load)
    assert trainer.TensorFlowTrainer(MultiWorker()).distribute_strategy
    sentence = sentence_for(trainer, ParameterServer())
    assert "under ParameterServerStrategy, which Keras 3 can't do" in sentence
    assert "--keras 2 (pip install 'tf_keras==2.21.*')" in sentence
    assert "ClusterCoordinator" in sentence


@pytest.mark.parametrize("name", ["ParameterServerStrategyV2", "ClusterCoordinator"])
def test_a_worker_that_creates_the_coordinators_objects_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the task, the line of the program, and what to do instead."""
    module = SimpleNamespace(**{name: type(name, (), {})})
    monkeypatch.setenv("CLUSTERKIT_TASK", "worker:1")
    refusals.refuse_coordination(module, load)
    with pytest.raises(SystemExit) as stopped:
        getattr(module, name)()
    sentence = str(stopped.value)
    assert stopped.value.code == REFUSED == refusals.REFUSED
    assert capsys.readouterr().err == f"{sentence}\n"
    assert sentence.startswith("clusterkit: worker:1 has reached the coordinator's code: test_refusals.py, line ")
    assert f"creates a {name.removesuffix('V2')}, which only the chief can do" in sentence
    assert ("Its cluster_resolver is missing, too. " in sentence) == name.startswith("ParameterServer")
    assert "clusterkit.training.serve()" in sentence
    assert "--servers builtin" in sentence
