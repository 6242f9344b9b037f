"""The functions of TensorFlow and Keras that save, read and evaluate: what a task reports of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import phased
from tests.task.counted import Reports
from tests.task.phase_calls import load_here, rename, reporting, told, write


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reports]:
    """The supervisor's end of the pipe."""
    yield from reporting(tmp_path, monkeypatch)


class Module(SimpleNamespace):
    """Functions as TensorFlow and Keras have them, which write and read anywhere."""

    def __init__(self, place: Path) -> None:
        module: Any = self

        class Checkpoint:
            def write(self) -> None:
                write(place / "anywhere")
                rename(place / "anywhere", place / "elsewhere")

            def save(self) -> str:
                self.write()
                self.write()
                return "result"

            def restore(self, path: str | None) -> None:
                if path is not None:
                    module.NewCheckpointReader(path)
                    module.NewCheckpointReader(path)

        class CallbackList:
            def on_test_begin(self) -> None:
                pass

            def on_train_batch_begin(self) -> None:
                pass

        class TensorFlowTrainer:
            def evaluate(self) -> None:
                CallbackList().on_test_begin()
                StrategyBase().run()

        class StrategyBase:
            def run(self) -> None:
                pass

        def fails() -> None:
            Checkpoint().write()
            raise KeyError("own")

        super().__init__(
            **{kind.__name__: kind for kind in (Checkpoint, CallbackList, TensorFlowTrainer, StrategyBase)},
            NewCheckpointReader=lambda path: None,
            save_model=lambda: Checkpoint().save(),
            save_weights=fails,
            load_model=lambda: module.NewCheckpointReader("x"),
        )


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        (lambda made: made.Checkpoint().save(), "saving o w r o w r saved"),
        (lambda made: made.save_model(), "exporting saving o w r o w r saved"),
        (lambda made: (made.Checkpoint().write(), made.Checkpoint().write()), "saving o w r saved saving o w r saved"),
        (lambda made: made.Checkpoint().restore(None), ""),
        (lambda made: (made.Checkpoint().restore("a"), made.Checkpoint().restore("a")), "read read"),
        (lambda made: made.load_model(), "read"),
        (lambda made: made.TensorFlowTrainer().evaluate(), "evaluating"),
        (lambda made: made.CallbackList().on_test_begin(), "evaluating"),
        (lambda made: (made.StrategyBase().run(), made.StrategyBase().run()), "starting"),
        (lambda made: [made.CallbackList().on_train_batch_begin() for _ in range(3)], "starting"),
    ],
)
def test_what_functions_do(reports: Reports, tmp_path: Path, call: Callable[[Any], object], reported: str) -> None:
    """The outermost one counts, and all that it writes, wherever that is."""
    made = Module(tmp_path)
    phased.watch(made, load_here)
    call(made)
    assert told(reports) == reported


def test_a_save_that_fails_has_no_end(reports: Reports, tmp_path: Path) -> None:
    """The program gets its own exception, and the next save is one of its own."""
    made = Module(tmp_path)
    phased.watch(made, load_here)
    with pytest.raises(KeyError, match="own"):
        made.save_weights()
    assert told(reports) == "exporting saving o w r"
    assert made.Checkpoint().save() == "result"
    assert told(reports) == "saving o w r o w r saved"


def test_operations_are_reported_before_they_run(reports: Reports) -> None:
    """Those that write checkpoints; every other one is passed on."""
    seen: list[object] = []

    def execute(context: object, name: str, *args: object) -> str:
        seen.append((told(reports), name, args))
        return "result"

    module = SimpleNamespace(pywrap_tfe=SimpleNamespace(TFE_Py_FastPathExecute=execute, other=7))
    phased.watch_operations(module, load_here)
    for name in ("SaveV2", "MergeV2Checkpoints", "MatMul"):
        assert module.pywrap_tfe.TFE_Py_FastPathExecute(None, name, None, 1) == "result"
    assert seen == [
        ("saving o w", "SaveV2", (None, 1)),
        ("r", "MergeV2Checkpoints", (None, 1)),
        ("", "MatMul", (None, 1)),
    ]
    assert module.pywrap_tfe.other == 7
