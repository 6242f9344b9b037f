"""Pollers: handlers of descriptors and work run in one thread, in order; nothing is lost when it stops or fails."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clusterkit.system.poller import ONCE, READABLE, Poller
from clusterkit.words.events import Crashed

pytestmark = pytest.mark.process


class Made:
    """A poller with a pipe, and what was called in it."""

    def __init__(self, turn: Callable[[], float | None] = lambda: None) -> None:
        self.posted = queue.SimpleQueue[Crashed]()
        self.called = queue.SimpleQueue[Any]()
        self.poller = Poller("made", self.posted.put, turn)
        self.source, self.sink = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def read(self, events: int) -> None:
        """The pipe's handler."""
        self.called.put((events, os.read(self.source, 100), threading.current_thread().name))

    def next(self) -> Any:
        """What was called next."""
        return self.called.get(timeout=10)


@pytest.fixture
def made() -> Iterator[Made]:
    """A poller that has started, and is stopped after the test."""
    it = Made()
    it.poller.start()
    yield it
    it.poller.stop()
    os.close(it.source)
    os.close(it.sink)


def test_a_handler_is_called_in_the_thread(made: Made) -> None:
    """Each time that there is something to read."""
    made.poller.watch(made.source, made.read)
    for data in (b"a", b"b"):
        os.write(made.sink, data)
        assert made.next() == (READABLE, data, "made")


def test_one_that_is_called_once_has_to_be_rearmed(made: Made) -> None:
    """What comes meanwhile is read after that."""
    made.poller.watch(made.source, made.read, READABLE | ONCE)
    os.write(made.sink, b"a")
    assert made.next()[1] == b"a"
    os.write(made.sink, b"b")
    made.poller.do(lambda: made.called.put("work"))
    assert made.next() == "work"
    made.poller.rearm(made.source, READABLE | ONCE)
    assert made.next()[1] == b"b"


def test_a_descriptor_that_is_forgotten_calls_nothing(made: Made) -> None:
    """Also where it is ready in the same moment as the one whose handler forgets it."""
    other, other_sink = os.pipe2(os.O_CLOEXEC)

    def forget(_: int) -> None:
        for descriptor in (made.source, other):
            made.poller.forget(descriptor)
        made.called.put("forgotten")

    os.write(made.sink, b"a")
    os.write(other_sink, b"a")

    def watch() -> None:
        made.poller.watch(made.source, forget)
        made.poller.watch(other, forget)

    made.poller.do(watch)
    assert made.next() == "forgotten"
    made.poller.do(lambda: made.called.put("work"))
    assert made.next() == "work"
    assert made.posted.empty()
    for descriptor in (other, other_sink):
        os.close(descriptor)


def test_work_is_done_in_its_order(made: Made) -> None:
    """From whichever thread it comes."""
    for number in range(1000):
        made.poller.do(lambda number=number: made.called.put(number))  # type: ignore[misc]
    assert [made.next() for _ in range(1000)] == list(range(1000))


def test_work_after_the_stop_is_ignored() -> None:
    """Its bell is closed by then, and the number of that descriptor may be another file's."""
    made = Made()
    made.poller.start()
    made.poller.stop()
    made.poller.do(lambda: made.called.put("work"))
    assert made.called.empty()
    os.close(made.source)
    os.close(made.sink)


def test_turns_bound_the_wait() -> None:
    """The turn comes again after the seconds that it returns, although nothing happens."""
    turns = threading.Semaphore(0)

    def turn() -> float:
        turns.release()
        return 0.01

    poller = Poller("turning", lambda crashed: None, turn)
    poller.start()
    assert all(turns.acquire(timeout=10) for _ in range(5))
    poller.stop()


def test_a_turn_may_be_years_away() -> None:
    """That is longer than epoll can wait at once; work is done all the same."""
    posted, done = list[Crashed](), threading.Event()
    poller = Poller("patient", posted.append, lambda: 1e9)
    poller.start()
    poller.do(done.set)
    assert done.wait(10)
    poller.stop()
    assert posted == []


@pytest.mark.parametrize("where", ["handler", "work", "turn"])
def test_a_failure_is_posted_and_the_work_left_is_done_by_stop(where: str) -> None:
    """Work that comes after the failure is not lost."""
    done, failed = list[str](), threading.Event()

    def fail(*_: object) -> None:
        if where != "turn" or failed.is_set():
            raise ValueError(where)

    made = Made(fail if where == "turn" else lambda: None)
    made.poller.start()
    if where == "handler":
        made.poller.watch(made.source, fail)
        os.write(made.sink, b"a")
    else:
        failed.set()
        made.poller.do(fail if where == "work" else lambda: None)
    assert made.posted.get(timeout=10).error == f"ValueError: {where}"
    made.poller.do(lambda: done.append(threading.current_thread().name))
    assert done == []
    made.poller.stop()
    assert done == [threading.current_thread().name]
    os.close(made.source)
    os.close(made.sink)
