"""A handler of SIGTERM that is set before the strategy, which replaces it, with a stand-in for TensorFlow."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import replaced_handlers, sigterm
from clusterkit.task.patches.replaced_handlers import ReplacedHandlers, handler_address
from tests.support import load

HERE = "test_replaced_handlers.py, line "


class Task:
    """A task with a strategy that handles SIGTERM in C, as TensorFlow's does."""

    def __init__(self) -> None:
        self.caught: list[int] = []
        self.saved: list[int] = []
        self.address = 0
        self._notifier = ctypes.CFUNCTYPE(None, ctypes.c_int)(self.caught.append)  # kept, since C calls it
        task = self

        class CollectiveAllReduceStrategy:
            """MultiWorkerMirroredStrategy."""

            def __init__(self, is_chief: bool = True) -> None:
                self.extended = SimpleNamespace(should_checkpoint=is_chief)
                libc = ctypes.CDLL(None)
                libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
                libc.signal(int(signal.SIGTERM), ctypes.cast(task._notifier, ctypes.c_void_p))
                task.address = handler_address()

        self.strategy = CollectiveAllReduceStrategy
        sigterm.watch_tensorflow(SimpleNamespace(CollectiveAllReduceStrategy=self.strategy), load)
        self.signals = SimpleNamespace(signal=signal.signal)
        sigterm.watch_handlers(self.signals, load)

    def save(self, number: int, frame: object) -> None:
        """The program's handler."""
        self.saved.append(number)

    def terminate(self) -> tuple[int, int]:
        """How often the program's handler and TensorFlow's notifier run."""
        os.kill(os.getpid(), signal.SIGTERM)
        return len(self.saved), len(self.caught)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """A task whose program's handlers are kept."""
    monkeypatch.setattr(replaced_handlers, "replaced", ReplacedHandlers())
    monkeypatch.setattr(replaced_handlers, "LIBRARIES", ("/no library/",))
    replaced_handlers.chain(None, lambda name: SimpleNamespace(effect=lambda *_: None))
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield Task()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, before)


def test_both_handlers_run(task: Task, capsys: pytest.CaptureFixture[str]) -> None:
    """The program's one as well as TensorFlow's notifier; a notice names the line that sets it."""
    task.signals.signal(signal.SIGTERM, task.save)
    task.strategy()
    assert task.terminate() == (1, 1)
    said = capsys.readouterr().err
    assert said.startswith(f"clusterkit: {HERE}")
    assert said.endswith("Set it after the strategy is created.\n")
    assert "clusterkit calls it, which plain TensorFlow does not." in said
    task.strategy()
    assert capsys.readouterr().err == ""


def test_a_handler_that_is_set_later_takes_the_signal(task: Task) -> None:
    """As in plain TensorFlow; so does that of PreemptionCheckpointHandler."""
    later: list[int] = []
    task.signals.signal(signal.SIGTERM, task.save)
    task.strategy()
    task.signals.signal(signal.SIGTERM, lambda number, frame: later.append(number))
    assert task.terminate() == (0, 0)
    assert later == [signal.SIGTERM]


def test_only_one_worker_says_so(task: Task, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them call the handler."""
    task.signals.signal(signal.SIGTERM, task.save)
    task.strategy(is_chief=False)
    assert capsys.readouterr().err == ""
    assert task.terminate() == (1, 1)


@pytest.mark.parametrize("handler", [None, signal.SIG_IGN, signal.SIG_DFL])
def test_without_a_handler_of_its_own_nothing_changes(
    task: Task, capsys: pytest.CaptureFixture[str], handler: Any
) -> None:
    """The notifier alone has the signal."""
    if handler is not None:
        task.signals.signal(signal.SIGTERM, task.save)
        task.signals.signal(signal.SIGTERM, handler)
    task.strategy()
    assert handler_address() == task.address
    assert capsys.readouterr().err == ""


def test_a_librarys_handler_is_named_and_not_called(
    task: Task, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program may never have counted on it."""
    monkeypatch.setattr(replaced_handlers, "LIBRARIES", ("/tests/",))
    task.signals.signal(signal.SIGTERM, task.save)
    task.strategy()
    assert handler_address() == task.address
    said = capsys.readouterr().err
    assert said.startswith(f"clusterkit: {__name__} sets a SIGTERM handler")
    assert "so it does not run. Set it after" in said


@pytest.mark.parametrize("case", ["no patches", "a thread"])
def test_where_it_cannot_be_called_a_notice_says_so(task: Task, capsys: pytest.CaptureFixture[str], case: str) -> None:
    """With --no-patches, and in a thread, in which Python sets no handlers."""
    task.signals.signal(signal.SIGTERM, task.save)
    if case == "no patches":
        replaced_handlers.replaced.load = None
        task.strategy()
    else:
        thread = threading.Thread(target=task.strategy)
        thread.start()
        thread.join()
    assert handler_address() == task.address
    assert "so it does not run." in capsys.readouterr().err
