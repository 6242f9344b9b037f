"""A task's reports whether SIGTERM is handled, with stand-ins for TensorFlow's classes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import sigterm, steps
from clusterkit.task.patches.steps import Steps
from tests.support import load


class Task:
    """A task's TensorFlow and `signal`, patched, and the supervisor's end of its pipe."""

    def __init__(self, pipe: int) -> None:
        self.strategy = type("CollectiveAllReduceStrategy", (), {})
        self.handler = type("PreemptionCheckpointHandler", (), {})
        self.signals = SimpleNamespace(signal=signal.signal)
        self._pipe = pipe
        sigterm.watch_tensorflow(SimpleNamespace(CollectiveAllReduceStrategy=self.strategy), load)
        sigterm.watch_tensorflow(SimpleNamespace(PreemptionCheckpointHandler=self.handler), load)
        sigterm.watch_handlers(self.signals, load)

    def reports(self) -> list[bool]:
        """The reports that have arrived."""
        try:
            return [json.loads(line)["handled"] for line in os.read(self._pipe, 1 << 16).splitlines()]
        except BlockingIOError:
            return []


@pytest.fixture
def patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """A task; SIGTERM has its default action, as at a program's start."""
    os.mkfifo(tmp_path / "progress")
    pipe = os.open(tmp_path / "progress", os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setattr(steps, "steps", Steps())
    monkeypatch.setattr(sigterm.report, "__defaults__", (False, []))
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield Task(pipe)
    signal.signal(signal.SIGTERM, before)
    os.close(pipe)


def test_nothing_is_reported_before_the_notifier_exists(patched: Task) -> None:
    """Until then SIGTERM ends the process."""
    assert patched.reports() == []


def test_a_strategy_alone_handles_nothing(patched: Task) -> None:
    """Its notifier takes the signal, but nothing waits for the notifier."""
    patched.strategy()
    assert patched.reports() == [False]


def test_waiting_for_the_notifier_counts_as_handling(patched: Task) -> None:
    """No later report differs."""
    patched.strategy()
    patched.handler()
    patched.strategy()
    assert patched.reports() == [False, True, True]


def test_the_programs_handlers_are_reported(patched: Task) -> None:
    """Set and removed; ignoring counts as handling; other signals are not reported. Results are unchanged."""
    patched.strategy()
    assert patched.signals.signal(signal.SIGTERM, print) is signal.SIG_DFL
    assert patched.signals.signal(signal.SIGTERM, signal.SIG_IGN) is print
    patched.signals.signal(signal.SIGTERM, signal.SIG_DFL)
    patched.signals.signal(signal.SIGUSR2, signal.SIG_DFL)
    assert patched.reports() == [False, True, True, False]
    patched.signals.signal(signalnum=signal.SIGTERM, handler=print)
    assert patched.reports() == [True]


def test_an_invalid_call_fails_as_usual(patched: Task) -> None:
    """With Python's exceptions."""
    with pytest.raises(TypeError):
        patched.signals.signal(signal.SIGTERM, "no handler")
    wrong: Any = patched.signals.signal
    with pytest.raises(TypeError):
        wrong(signal.SIGTERM)
    assert patched.reports() == []
