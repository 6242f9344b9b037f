"""Sentences about tasks that start or fail alike are one sentence on a terminal."""

from __future__ import annotations

from clusterkit.views.gathering import Gathering
from clusterkit.words.events import Failed, Spawned, Ticked
from clusterkit.words.outcome import Exit, Failure
from tests.histories import task


def failed(name: str, code: int = 1, attempt: int = 1) -> Failed:
    """A task that failed."""
    return Failed(Failure(task(name), attempt, Exit(code=code), 1.0))


def told(*events: Spawned | Failed) -> list[str]:
    """The sentences about events that come at the same moment."""
    gathering, sentences = Gathering(), list[str]()
    for event in events:
        if not gathering.is_like(event):
            sentences += [text for text, _ in gathering.drain()]
        gathering.take(event, 0.0)
    return [*sentences, *(text for text, _ in gathering.drain())]


def test_starts_are_one_sentence() -> None:
    """With all process ids; another attempt, or a start elsewhere, is another sentence."""
    first, second = (Spawned(task(f"worker:{index}"), 1, f"pid {40 + index}") for index in (0, 1))
    assert told(first, second) == ["worker:0 and worker:1 are started (pids 40, 41)."]
    assert told(first) == ["worker:0 is started (pid 40)."]
    again = Spawned(task("worker:1"), 2, "pid 50")
    assert told(first, again) == ["worker:0 is started (pid 40).", "worker:1 is started, attempt 2 (pid 50)."]
    hosts = [Spawned(task(f"worker:{index}"), 1, f"n{index}") for index in (0, 1)]
    assert len(told(*hosts)) == 2


def test_failures_are_one_sentence() -> None:
    """If the tasks ended alike, in attempts with the same number."""
    alike = "worker:1 and worker:0 each exited with code 1 (attempt 1)."
    assert told(failed("worker:1"), failed("worker:0")) == [alike]
    assert len(told(failed("worker:1"), failed("worker:0", code=2))) == 2
    assert len(told(failed("worker:1"), failed("worker:0", attempt=2))) == 2


def test_what_is_held_is_due_soon() -> None:
    """Starts are told before the tasks' output; failures are told as bad."""
    gathering = Gathering()
    assert gathering.due_at is None
    gathering.take(Spawned(task("worker:0"), 1, "pid 1"), 5.0)
    gathering.take(Spawned(task("worker:1"), 1, "pid 2"), 5.2)
    assert gathering.due_at is not None
    assert 5.0 < gathering.due_at < 6.0
    assert gathering.has_starts
    assert gathering.drain() == [("worker:0 and worker:1 are started (pids 1, 2).", False)]
    gathering.take(failed("worker:0"), 6.0)
    assert not gathering.has_starts
    assert gathering.drain() == [("worker:0 exited with code 1 (attempt 1).", True)]
    assert gathering.drain() == []


def test_other_events_are_told_at_once() -> None:
    """And so is the exit with code 0 of a task that others need, whose sentence has a reason of its own."""
    assert Gathering.joinable(Ticked()) is None
    assert Gathering.joinable(failed("worker:0", code=0)) is None
