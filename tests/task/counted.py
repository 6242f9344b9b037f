"""Stand-ins for Keras's callbacks, optimizers and a coordinator, whose steps are counted; and the supervisor's pipe."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from clusterkit.task.patches import steps as patch
from tests.support import load


class Reports:
    """The supervisor's end of the pipe."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self) -> list[dict[str, Any]]:
        """The reports that have arrived."""
        try:
            return [json.loads(line) for line in os.read(self.fd, 1 << 16).splitlines()]
        except BlockingIOError:
            return []

    def steps(self) -> list[int]:
        """The steps that have been reported."""
        return [report["step"] for report in self.read() if report["kind"] == "progress"]


class Optimizer:
    """The part of Keras's optimizer that is read."""

    def __init__(self, made: int = 0) -> None:
        self.made = made
        self._iterations = SimpleNamespace(numpy=lambda: self.made)


def callbacks(model: Any = None, params: Any = None, watch: Callable[..., None] = patch.watch) -> Any:
    """A list of callbacks like Keras's, patched."""

    class CallbackList:
        def __init__(self) -> None:
            self.model, self.params = model, params

    for name in ("train_begin", "train_end", "test_begin", "test_end", "predict_begin", "predict_end"):
        setattr(CallbackList, f"on_{name}", lambda self, logs=None: "result")
    for name in ("epoch_begin", "epoch_end", "train_batch_end"):
        setattr(CallbackList, f"on_{name}", lambda self, index, logs=None: "result")
    watch(SimpleNamespace(CallbackList=CallbackList), load)
    return CallbackList()


def coordinator(watch: Callable[..., None] = patch.watch) -> Any:
    """A coordinator like TensorFlow's, patched. Its workers give closures back that raise a ConnectionError."""

    class ClusterCoordinator:
        def schedule(self, closure: str) -> str:
            return f"scheduled {closure}"

        def finish(self, worker: int = 0, closure: Callable[[], object] = lambda: None) -> None:
            """As one of the coordinator's threads does."""
            Worker(worker)._process_closure(closure)

    class _CoordinatedClosureQueue:
        def put_back(self, closure: object) -> None:
            return

        def mark_failed(self, error: Exception) -> None:
            return

    class Worker:
        def __init__(self, index: int) -> None:
            self.worker_index = index

        def _process_closure(self, closure: Callable[[], object]) -> None:
            try:
                closure()
            except ConnectionError:
                _CoordinatedClosureQueue().put_back(closure)
            except ValueError as error:
                _CoordinatedClosureQueue().mark_failed(error)

    watch(
        SimpleNamespace(**{kind.__name__: kind for kind in (ClusterCoordinator, _CoordinatedClosureQueue, Worker)}),
        load,
    )
    return ClusterCoordinator()
