"""Checkpoints that a thread writes: one at a time, and no failure is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from clusterkit.training import CheckpointNotSaved, background
from clusterkit.training.background import Background, finish_all


@pytest.fixture
def writer() -> Iterator[Background]:
    """One that is forgotten afterwards."""
    made = Background("/ckpt")
    yield made
    made.finish()
    background._used.discard(made)


def full() -> None:
    raise OSError(28, "No space left on device", "/ckpt/.saving")


def test_start_returns_before_the_end(writer: Background) -> None:
    """The caller continues while the thread writes, until it waits."""
    go, done = threading.Event(), list[str]()

    def write() -> None:
        assert go.wait(20)
        done.append("written")

    writer.start(10, write)
    assert writer.is_busy()
    assert done == []
    go.set()
    writer.wait()
    assert done == ["written"]
    assert not writer.is_busy()


def test_a_failure_is_raised_once_with_its_cause(writer: Background) -> None:
    """The message names the step, the directory and the error."""
    writer.start(10, full)
    with pytest.raises(CheckpointNotSaved, match=r"step 10 could not be saved in /ckpt: OSError: .*No space") as raised:
        writer.wait()
    assert isinstance(raised.value.__cause__, OSError)
    writer.wait()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), ValueError(), MemoryError("many\nlines")])
def test_every_way_to_end_is_a_failure(writer: Background, error: BaseException) -> None:
    """No thread ends without a word: neither prints a traceback of its own."""

    def write() -> None:
        raise error

    writer.start(10, write)
    with pytest.raises(CheckpointNotSaved, match=type(error).__name__):
        writer.wait()


def test_others_wait_without_taking_the_failure(writer: Background) -> None:
    """Another `Checkpointer` waits for the files; the failure belongs to the one that saved."""
    writer.start(10, full)
    finish_all()
    assert not writer.is_busy()
    with pytest.raises(CheckpointNotSaved):
        writer.wait()


def test_no_thread_can_be_started(writer: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    """While Python shuts down, the checkpoint is written at once."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = list[str]()
    writer.start(10, lambda: done.append("written"))
    assert done == ["written"]
    writer.start(20, full)
    with pytest.raises(CheckpointNotSaved, match="step 20"):
        writer.wait()


def test_a_fork_does_not_wait(writer: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork has neither the thread nor its failure."""
    go = threading.Event()

    def write() -> None:
        go.wait(20)
        full()

    writer.start(10, write)
    thread = writer._thread
    assert thread is not None
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        writer.wait()
    go.set()
    thread.join()


def test_the_end_of_the_program(
    writer: Background, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waits, and exits with an error for a failure that nobody was told of."""
    codes = list[int]()
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    writer.start(10, lambda: None)
    background._end()
    assert (codes, writer.is_busy()) == ([], False)
    writer.start(20, full)
    background._end()
    assert codes == [1]
    assert "clusterkit: worker:0: The checkpoint of step 20 could not be saved in /ckpt: " in capsys.readouterr().err
    with pytest.raises(CheckpointNotSaved):
        writer.wait()
    background._end()
    assert codes == [1]
