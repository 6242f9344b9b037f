"""Stops that overlap: a task continues when the last one that holds it lets go."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.events import Verb
from clusterkit.words.job import Limits
from tests.histories import SIGKILL, SIGTERM, History, job
from tests.machine.faulty import healed, with_faults
from tests.machine.test_requests import ask

SIGCONT, SIGSTOP = 18, 19
STAYS = "worker:1 stays stopped by fault 1. To end the fault, run `clusterkit fault --heal`."


def stops(run: History, name: str = "worker:1") -> list[tuple[float, int]]:
    """When a task was stopped and continued."""
    return [(at, number) for at, who, number in run.signals() if who == name and number in (SIGCONT, SIGSTOP)]


@pytest.mark.parametrize(
    ("faults", "signals"),
    [
        (["stop worker:1 for=10s @ 1s", "stop worker:1 for=2s @ 3s"], [(1.0, SIGSTOP), (11.0, SIGCONT)]),
        (["stop worker:1 for=2s @ 3s", "stop worker:1 for=10s @ 1s"], [(1.0, SIGSTOP), (11.0, SIGCONT)]),
        (["stop worker:1 for=4s @ 1s", "stop worker:* for=8s @ 3s"], [(1.0, SIGSTOP), (11.0, SIGCONT)]),
        (["stop worker:1 for=3s @ 1s", "stop worker:1 for=3s @ 1s"], [(1.0, SIGSTOP), (4.0, SIGCONT)]),
        (["stop worker:1 for=2s @ 1s", "stop worker:1 for=2s @ 3s"], [(1.0, SIGSTOP), (5.0, SIGCONT)]),
        (["stop worker:1 @ 1s", "stop worker:1 for=2s @ 3s"], [(1.0, SIGSTOP)]),
    ],
)
def test_a_task_continues_when_the_last_of_its_stops_is_over(
    faults: list[str], signals: list[tuple[float, int]]
) -> None:
    """The end of one does not undo another, and `ps` shows the task as paused all the time."""
    run = with_faults(*faults).begin()
    run.after(30)
    assert stops(run) == signals
    assert [paused.paused for paused in run.decided(ev.Paused) if str(paused.task) == "worker:1"] == [
        number == SIGSTOP for _, number in signals
    ]


def test_a_pause_by_hand_outlives_a_stop() -> None:
    """Whoever paused the task unpauses it."""
    run = with_faults("stop worker:1 for=4s @ 1s").begin()
    run.after(2)
    assert ask(run, Verb.PAUSE, "worker:1").problem is None
    run.after(10)
    assert (healed(run), stops(run)) == ([("stop", "its time is over")], [(1.0, SIGSTOP)])
    assert ask(run, Verb.UNPAUSE, "worker:1").problem is None
    assert stops(run) == [(1.0, SIGSTOP), (12.0, SIGCONT)]


def test_a_stop_outlives_a_pause_by_hand() -> None:
    """`unpause` takes back what `pause` did; the answer names the fault that stops the task all the same."""
    run = with_faults("stop worker:1 for=8s @ 1s").begin()
    ask(run, Verb.PAUSE, "worker:1")
    run.after(2)
    assert ask(run, Verb.UNPAUSE, "worker:1").problem == STAYS
    run.after(20)
    assert stops(run) == [(0.0, SIGSTOP), (9.0, SIGCONT)]


def test_unpause_does_not_end_a_stop() -> None:
    """A fault ends by its own time, or by `fault --heal`, which the refusal says."""
    run = with_faults("stop worker:1 @ 1s", "stop worker:1 for=1h @ 2s").begin()
    run.after(3)
    assert ask(run, Verb.UNPAUSE, "worker:1").problem == (
        "worker:1 stays stopped by faults 1 and 2. To end the faults, run `clusterkit fault --heal`."
    )
    assert stops(run) == [(1.0, SIGSTOP)]
    ask(run, Verb.HEAL)
    assert stops(run) == [(1.0, SIGSTOP), (3.0, SIGCONT)]


def test_unpause_of_all_continues_those_that_nothing_else_stops() -> None:
    """The answer names them, and a warning the others."""
    run = with_faults("stop worker:1 for=1h @ 1s").begin()
    run.after(2)
    ask(run, Verb.PAUSE, "worker:0", "worker:1")
    assert [str(one) for one in ask(run, Verb.UNPAUSE).tasks] == ["worker:0"]
    assert run.warnings == [STAYS]


def test_pause_of_a_paused_task_is_refused() -> None:
    """With the reason."""
    run = with_faults().begin()
    ask(run, Verb.PAUSE, "worker:1")
    assert ask(run, Verb.PAUSE, "worker:1").problem == "worker:1 is paused already."


def test_healing_does_not_undo_a_pause_by_hand() -> None:
    """`fault --heal` mends faults."""
    run = with_faults("stop worker:1 @ 1s").begin()
    run.after(2)
    ask(run, Verb.PAUSE, "worker:1")
    ask(run, Verb.HEAL)
    assert stops(run) == [(1.0, SIGSTOP)]


@pytest.mark.parametrize("by_signal", [False, True])
def test_sigstop_and_sigcont_by_hand_are_a_pause_and_its_end(by_signal: bool) -> None:
    """`kill -s STOP` holds a task as `pause` does, so that no fault lets it go."""
    run = with_faults("stop worker:1 for=4s @ 1s").begin()
    stop, cont = (Verb.KILL, Verb.KILL) if by_signal else (Verb.PAUSE, Verb.UNPAUSE)
    ask(run, stop, "worker:1", signal=SIGSTOP)
    run.after(10)
    assert ask(run, cont, "worker:1", signal=SIGCONT).problem is None
    assert stops(run) == [(0.0, SIGSTOP), (10.0, SIGCONT)]


def test_sigcont_by_hand_does_not_end_a_stop() -> None:
    """It is refused as `unpause` is; a task that nothing stops just gets the signal."""
    run = with_faults("stop worker:1 @ 1s").begin()
    run.after(2)
    assert ask(run, Verb.KILL, "worker:1", signal=SIGCONT).problem == STAYS
    assert ask(run, Verb.KILL, "worker:0", "worker:1", signal=SIGCONT).problem is None
    assert (stops(run), stops(run, "worker:0")) == ([(1.0, SIGSTOP)], [(2.0, SIGCONT)])
    assert run.warnings == [STAYS]


def test_a_task_that_is_ended_continues_whatever_holds_it() -> None:
    """A stopped process does not get SIGTERM, and the end of a stop signals it no more."""
    run = with_faults("stop worker:1 for=4s @ 1s").begin()
    run.stubborn.add("worker:1")
    run.after(2)
    ask(run, Verb.PAUSE, "worker:1")
    ask(run, Verb.RESTART, "worker:1")
    run.after(9)
    mine = [(at, number) for at, name, number in run.signals() if name == "worker:1"]
    assert mine == [(1.0, SIGSTOP), (2.0, SIGTERM), (2.0, SIGCONT)]
    run.after(2)
    assert run.signals()[-1] == (12.0, "worker:1", SIGKILL)


def test_the_next_attempt_of_a_held_task_is_free() -> None:
    """Holds end with their process."""
    run = with_faults("stop worker:1 for=1h @ 1s").begin()
    run.after(2)
    ask(run, Verb.PAUSE, "worker:1")
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    assert run.attempts["worker:1"] == 2
    assert ask(run, Verb.UNPAUSE, "worker:1").problem == "worker:1 is not paused now."


@pytest.mark.parametrize("first", ["10s", "2s"])
def test_the_longest_of_two_late_starts_counts(first: str) -> None:
    """Whichever was asked for first, and both are over when the task starts."""
    second = {"10s": "2s", "2s": "10s"}[first]
    run = with_faults(f"hang-start worker:1 for={first}", f"hang-start worker:1 for={second}").begin()
    run.after(20)
    assert run.spawn_times("worker:1") == [10.0]
    assert healed(run) == [("hang-start", "it starts")] * 2


def test_a_late_start_of_the_next_attempt_does_not_lengthen_the_present_one() -> None:
    """A hang-start that comes while a start is held back is meant for the start after that."""
    run = with_faults("hang-start worker:1 for=4s", "hang-start worker:1 for=8s @ 1s").begin()
    run.after(5)
    assert run.spawn_times("worker:1") == [4.0]
    assert healed(run) == [("hang-start", "it starts")]
    run.exits("worker:1", signal=SIGKILL)
    run.after(20)
    assert 13.0 < run.spawn_times("worker:1")[1] < 15.0


def test_a_shorter_time_to_end_holds_for_tasks_that_are_ending_already() -> None:
    """The allocation ends before the grace period of a restart would be over; they are not told twice."""
    run = History(job(2, limits=Limits(grace=60)))
    run.stubborn = {"worker:0", "worker:1"}
    run.begin()
    run.after(1)
    ask(run, Verb.RESTART)
    run.after(1)
    run.send(ev.AllocationEnding("its time is over", 5.0))
    run.after(20)
    sent = [(at, number) for at, who, number in run.signals() if who == "worker:0"]
    assert sent == [(1.0, SIGTERM), (7.0, SIGKILL)]
