"""The inbox: events in their order, time-outs, and lifelines that need no thread."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from threading import Semaphore, Thread, Timer, get_ident

import pytest

from clusterkit.system.inbox import CHECK_EVERY, Inbox
from clusterkit.words.events import Interrupted, LifelineLost, Ticked


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """An inbox of the test's own."""
    made = Inbox()
    yield made
    made.close()


def test_events_come_in_their_order(inbox: Inbox) -> None:
    """First in, first out."""
    events = [Interrupted(number) for number in range(1, 5)]
    for event in events:
        inbox.put(event)
    assert [inbox.get(0) for _ in events] == events
    assert inbox.get(0) is None


def test_nothing_comes_before_the_time_is_over(inbox: Inbox) -> None:
    """The machine's deadline has passed when the loop looks at the clock, or it would spin."""
    began = time.monotonic()
    assert inbox.get(0.0123) is None
    assert time.monotonic() - began >= 0.0123


def test_a_deadline_may_be_years_away(inbox: Inbox) -> None:
    """`--timeout 30d` is longer than poll(2) can wait at once."""
    timer = Timer(0.05, inbox.put, [Interrupted(2)])
    timer.start()
    assert inbox.get(1e9) == Interrupted(2)
    timer.join()


def test_a_cut_lifeline_comes_once_and_soon(inbox: Inbox) -> None:
    """A flood of events does not hide that the guardian is gone."""
    lifeline, held = os.pipe()
    inbox.watch(lifeline, "the guardian")
    inbox.put(Ticked())
    assert inbox.get(0) == Ticked()
    for _ in range(10 * CHECK_EVERY):
        inbox.put(Ticked())
    os.close(held)
    found = [inbox.get(0) for _ in range(10 * CHECK_EVERY + 1)]
    assert found.index(LifelineLost("the guardian")) <= CHECK_EVERY
    assert found.count(Ticked()) == 10 * CHECK_EVERY
    assert inbox.get(0) is None
    os.close(lifeline)


def test_what_many_threads_add_wakes_the_loop_each_time(inbox: Inbox) -> None:
    """No event waits for the next one: the loop never sleeps while there is one."""
    each, threads = 3000, 4

    def add(ready: Semaphore) -> None:
        for _ in range(each):
            ready.acquire()
            inbox.put(Ticked())

    ready = Semaphore(0)
    started = [Thread(target=add, args=(ready,)) for _ in range(threads)]
    for thread in started:
        thread.start()
    for number in range(each * threads):
        ready.release()
        assert inbox.get(20) is not None, f"event {number} is not seen"
    for thread in started:
        thread.join()
    assert inbox.get(0) is None


def test_a_signal_handler_wakes_the_loop(inbox: Inbox) -> None:
    """What a handler adds while the loop waits ends the wait."""
    before = signal.signal(signal.SIGALRM, lambda number, _: inbox.put(Interrupted(number)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        assert inbox.get(10) == Interrupted(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_that_does_not_interrupt_the_wait_ends_it(inbox: Inbox) -> None:
    """As one that comes just before it, or one that another thread gets: its handler runs now, not at the deadline."""
    inbox.heed_signals()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: inbox.put(Interrupted(number)))
    main_waits = Semaphore(0)

    def elsewhere() -> None:
        main_waits.acquire()
        time.sleep(0.2)
        signal.pthread_kill(get_ident(), signal.SIGUSR1)

    thread = Thread(target=elsewhere)
    thread.start()
    began = time.monotonic()
    main_waits.release()
    assert inbox.get(40) == Interrupted(signal.SIGUSR1)
    assert time.monotonic() - began < 20
    assert inbox.get(0) is None
    thread.join()
    signal.signal(signal.SIGUSR1, before)
