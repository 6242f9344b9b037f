"""Checkpoints that a thread writes: one at a time, and no failure is lost."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from clusterkit.training import CheckpointNotSaved, background
from clusterkit.training.background import Background, finish_all
from tests.support import wait_until


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Background]:
    """One that is forgotten afterwards, with a thread of its own."""
    thread = background._Writer()
    monkeypatch.setattr(background, "_writer", thread)
    made = Background("/ckpt")
    yield made
    made.finish()
    background._writers_in_use.discard(made)
    thread.close()


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


def refused(thread: threading.Thread) -> None:
    raise RuntimeError("can't create new thread at interpreter shutdown")


def test_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """While Python shuts down, the checkpoint is written at once."""
    monkeypatch.setattr(threading.Thread, "start", refused)
    monkeypatch.setattr(background, "_writer", background._Writer())
    monkeypatch.setattr(background, "_writers_in_use", set())
    writer, done = Background("/ckpt"), list[str]()
    writer.start(10, lambda: done.append("written"))
    assert done == ["written"]
    writer.start(20, full)
    with pytest.raises(CheckpointNotSaved, match="step 20"):
        writer.wait()


def test_a_checkpoint_needs_no_new_thread(writer: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that finds no memory to begin would let `Thread.start` wait for ever."""
    monkeypatch.setattr(threading.Thread, "start", lambda thread: pytest.fail("a thread is started"))
    threads = list[int]()
    for step in (10, 20):
        writer.start(step, lambda: threads.append(threading.get_ident()))
        writer.wait()
    assert threads[0] == threads[1] != threading.get_ident()


def test_a_failure_without_memory_to_tell_it_is_kept(writer: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sentence is made when somebody asks."""

    def no_memory(*_: object) -> CheckpointNotSaved:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(background, "not_saved", no_memory)
        writer.start(10, full)
        writer.finish()
    with pytest.raises(CheckpointNotSaved, match="step 10"):
        writer.wait()


def test_what_was_written_is_not_kept(writer: Background) -> None:
    """A checkpoint has a copy of all variables, which nobody needs once it is on disk."""

    class Copy:
        """What a checkpoint holds."""

    def write(held: Copy) -> None:
        assert held

    copy = Copy()
    gone = weakref.ref(copy)
    writer.start(10, partial(write, copy))
    writer.wait()
    del copy
    wait_until(lambda: gone() is None, 20, "the copy to be dropped")  # after `wait`: the thread has still to return


@pytest.mark.process
def test_a_fork_does_not_wait(writer: Background) -> None:
    """A fork has neither the thread nor its failure, and gets a thread of its own."""
    go, done = threading.Event(), list[str]()
    writer.start(10, lambda: done.append(f"before: {go.wait(20)}"))
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            writer.wait()
            writer.start(20, lambda: done.append("after"))
            writer.wait()
        finally:
            os._exit(0 if done == ["after"] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    go.set()
    writer.wait()
    assert done == ["before: True"]


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


def test_a_checkpoint_after_the_end_is_written_at_once(writer: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exit handler of the program may save after `_end`: nobody waits for a thread any more."""
    background._end()
    threads = list[int]()
    writer.start(10, lambda: threads.append(threading.get_ident()))
    assert threads == [threading.get_ident()]
