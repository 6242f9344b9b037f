"""Injected faults in the machine: what is done for each, and how it is healed."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Heal, Inject
from clusterkit.words.events import FaultInjected
from clusterkit.words.outcome import NotInjected
from tests.histories import SIGKILL, task
from tests.machine.faulty import healed, with_faults

SIGCONT, SIGSTOP = 18, 19
UNHEALTHY = "UnavailableError: The following tasks are unhealthy (stopped sending heartbeats)"


def test_a_stop_ends_after_its_time() -> None:
    """SIGSTOP, then SIGCONT; `ps` shows the task as paused meanwhile."""
    run = with_faults("stop worker:1 for=10s @ 1s").begin()
    run.after(5)
    assert run.decided(ev.Paused)[-1].paused
    run.after(10)
    assert [(at, number) for at, name, number in run.signals() if name == "worker:1"] == [
        (1.0, SIGSTOP),
        (11.0, SIGCONT),
    ]
    assert healed(run) == [("stop", "its time is over")]


def test_a_stop_ends_with_its_process() -> None:
    """The next attempt is not stopped, and there is nothing left to heal."""
    run = with_faults("stop worker:1 @ 1s").begin()
    run.after(2)
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    assert healed(run) == [("stop", "its process has ended")]
    assert [number for _, name, number in run.signals() if name == "worker:1"] == [SIGSTOP]


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_peer_that_gives_up_a_paused_worker_fails_of_the_pause(by_hand: bool) -> None:
    """The failure and the restart name the worker that was paused; an error of the peer's own has another reason."""
    for error, silent in ((UNHEALTHY, True), ("ValueError: bad", False)):
        run = with_faults(*([] if by_hand else ["stop worker:1 @ 1s"]), ps=0).begin()
        run.after(2)
        if by_hand:
            run.send(ev.Requested(1, ev.Verb.PAUSE, (task("worker:1"),)))
        run.exits("worker:0", exception=error)
        run.after(2)
        (failed,), (planned,) = run.decided(ev.Failed), run.decided(ev.RestartPlanned)
        fault = None if by_hand or not silent else 1
        assert planned.cause is not None
        for failure in (failed.failure, planned.cause):
            assert (failure.fault, failure.paused) == (fault, (task("worker:1"),) if silent else ())
        run.exits("worker:0", exception=error)
        assert run.decided(ev.Failed)[1].failure.paused == ()


def test_a_late_start_at_the_beginning() -> None:
    """The others begin at once."""
    run = with_faults("hang-start worker:1 for=7s").begin()
    run.after(20)
    assert run.spawn_times("worker:1") == [7.0]
    assert run.spawn_times("worker:0") == run.spawn_times("ps:0") == [0.0]
    assert healed(run) == [("hang-start", "it starts")]


def test_a_late_start_of_the_next_attempt() -> None:
    """Beside the backoff."""
    run = with_faults("hang-start worker:1 for=7s @ 1s", "kill worker:1 @ 2s").begin()
    run.after(20)
    _, second = run.spawn_times("worker:1")
    assert 9.8 < second < 10.2


def test_a_late_start_does_not_hold_up_the_end() -> None:
    """Nothing is waited for that never was."""
    run = with_faults("hang-start worker:1 for=1h").begin()
    run.after(1)
    run.send(ev.Interrupted(15))
    run.after(20)
    assert run.over


def test_a_late_worker_does_not_keep_the_coordinator_from_starting() -> None:
    """Also where starts are warm, and the coordinator begins after its servers."""
    run = with_faults("hang-start worker:1 for=30s")
    run.warming = True
    run.begin()
    run.warms()
    run.after(5)
    assert run.spawn_times("chief:0")
    assert not run.spawn_times("worker:1")


@pytest.mark.parametrize("fault", ["slow worker:1 for=10s", "loss worker:1 for=10s", "disk-full for=10s"])
def test_what_signals_can_not_do_is_asked_of_the_backend(fault: str) -> None:
    """Inject, and Heal with the same number when its time is over."""
    run = with_faults(f"{fault} @ 1s").begin()
    run.after(5)
    (asked,) = run.asked(Inject)
    assert str(asked.fault) == str(run.decided(FaultInjected)[0].fault)
    assert run.asked(Heal) == []
    run.after(7)
    assert run.asked(Heal) == [Heal(asked.number)]


def test_a_fault_of_the_network_has_two_sides() -> None:
    """The task from the rest."""
    run = with_faults("partition worker:1 @ 1s").begin()
    run.after(2)
    (asked,) = run.asked(Inject)
    assert asked.tasks == (task("worker:1"),)
    assert asked.others == (task("chief:0"), task("worker:0"), task("ps:0"))


def test_what_could_not_be_injected_is_not_healed() -> None:
    """The backend says so, and the fault is closed."""
    run = with_faults("loss worker:1 @ 1s").begin()
    run.after(2)
    run.send(ev.FaultTook(1, "there is no network", done=False))
    run.send(ev.Interrupted(15))
    assert run.asked(Heal) == []


def test_the_end_heals_everything() -> None:
    """Ctrl-C, too; and the result names what was never injected."""
    run = with_faults("stop worker:1 @ 1s", "loss ps:0 @ 1s", "kill worker:0 @ step=1000").begin()
    run.after(2)
    run.send(ev.Interrupted(2))
    assert healed(run) == [("stop", "the run ends"), ("loss", "the run ends")]
    run.after(20)
    assert run.over
    assert len(healed(run)) == 2
    assert run.result.not_injected == (NotInjected("kill worker:0 @ step=1000", "no step was reported"),)
