"""SIGTERM in a program of one task: the step ends, the state is saved, exit code 42."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator

import pytest

from clusterkit.training.preemption import Preemption, on_preemption


class Saver:
    """Records the saved steps."""

    def __init__(self, step: int = 0) -> None:
        self.step = step
        self.saved: list[int] = []

    def save(self, step: int) -> str | None:
        self.saved.append(step)
        return None


@pytest.fixture(autouse=True)
def _term_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) == before


def ends(handler: Preemption, done: int | None = None) -> bool:
    """Whether the next step exits with the code that asks for a restart."""
    try:
        handler.run(int) if done is None else handler.step(done)
    except SystemExit as exit_:
        return exit_.code == 42
    return False


def test_run_counts_from_the_restored_step(capsys: pytest.CaptureFixture[str]) -> None:
    """A signal during a step lets the step finish; the next step does not start."""
    saver = Saver(step=100)
    handler = on_preemption(saver)
    assert handler.run(divmod, 7, 2) == (3, 1)
    handler.run(signal.raise_signal, signal.SIGTERM)
    assert saver.saved == []
    assert ends(handler)
    assert saver.saved == [102]
    assert "worker:0 was preempted. It has saved the state after step 102" in capsys.readouterr().err


class BackgroundSaver(Saver):
    """Records whether it was asked to wait, too."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[bool] = []

    def save(self, step: int, *, wait: bool = False) -> str | None:
        self.waited.append(wait)
        return super().save(step)

    def wait(self) -> None:
        raise AssertionError("it is asked to wait as it saves")


def test_a_saver_in_the_background_is_waited_for() -> None:
    """The program exits only when its last checkpoint is on disk."""
    saver = BackgroundSaver()
    handler = on_preemption(saver)
    signal.raise_signal(signal.SIGTERM)
    assert ends(handler, 7)
    assert (saver.saved, saver.waited) == ([7], [True])


def test_a_loop_that_counts_itself() -> None:
    """The loop reports its own count, which may advance by several steps at once."""
    saver = Saver()
    handler = on_preemption(saver)
    assert not ends(handler, 20)
    signal.raise_signal(signal.SIGTERM)
    assert ends(handler, 40)
    assert saver.saved == [40]


def test_close_gives_the_signal_back() -> None:
    """The previous handler is restored."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda signum, frame: heard.append(signum))
    try:
        handler = on_preemption(Saver())
        signal.raise_signal(signal.SIGTERM)
        assert heard == []
        handler.close()
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("task", ["ps:0", "worker:0", "evaluator:0"])
def test_tasks_that_do_not_save(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    """It is an error in servers and in the evaluator."""
    cluster = {"chief": ["h:1"], "worker": ["h:2"], "ps": ["h:3"]}
    task_type, _, index = task.partition(":")
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": task_type, "index": int(index)}}))
    with pytest.raises(RuntimeError, match=f"{task} called on_preemption"):
        on_preemption(Saver())


def test_only_the_main_thread_catches_signals() -> None:
    """In other threads it raises an error with a clear message."""
    said: list[str] = []

    def try_it() -> None:
        try:
            on_preemption(Saver())
        except RuntimeError as error:
            said.append(str(error))

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    assert said == ["on_preemption must be called in the main thread, since it handles a signal."]
