"""Hosts that leave: their tasks end within their grace period and move to others, and no restart is charged."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Spawn
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import SUSPENDED, Asked, RunState
from tests.histories import SIGKILL, SIGTERM, History, job, task

PLACES = {"worker:0": "n1", "worker:1": "n2"}
PS_PLACES = {"chief:0": "n1", "worker:0": "n1", "ps:0": "n1", "worker:1": "n2"}
WHY = "its agent got SIGTERM"


def placed(run: History, places: Mapping[str, str], *others: str) -> History:
    """The tasks are on these hosts; these others have none."""
    run.send(ev.Placed({task(name): host for name, host in places.items()}, {}, others))
    return run


def gang(**more: object) -> History:
    """Two workers that handle SIGTERM, each on a host, and a spare one."""
    return placed(History(job(workers=2), stubborn={*PLACES}, **more).begin(), PLACES, "n3")  # type: ignore[arg-type]


def ps_job() -> History:
    """A coordinator that saves on SIGTERM, on the host of a ps and a worker, and another worker elsewhere."""
    return placed(History(job(workers=2, ps=1), stubborn={"chief:0"}).begin(), PS_PLACES, "n3")


def cut(run: History, host: str) -> None:
    """The host can't be reached; what it is told does not arrive."""
    run.send(ev.HostCut(host, "connection reset", 30.0))
    run.unreachable |= {name for name, where in PLACES.items() if where == host}


def test_the_tasks_of_a_host_that_leaves_save_and_move_at_once() -> None:
    """All workers of a gang are told, so that they can agree on a step; the budget is not touched."""
    run = gang()
    run.after(10)
    run.send(ev.HostDraining("n2", WHY))
    assert run.signals() == [(10.0, "worker:0", SIGTERM), (10.0, "worker:1", SIGTERM)]
    run.after(2)
    for name in PLACES:
        run.exits(name, code=42)
    assert run.attempts == {"worker:0": 2, "worker:1": 2}
    assert run.spawn_times("worker:1") == [0.0, 12.0]
    assert {spawn.reason for spawn in run.asked(Spawn)[2:]} == {"preempted"}
    (planned,) = run.decided(ev.RestartPlanned)
    assert (planned.cause, planned.host, planned.charged) == (None, "n2", 0)
    assert run.failures == []


def test_who_does_not_end_is_killed_when_the_grace_period_is_over() -> None:
    """And a peer that fails meanwhile, since the first one has ended, is nobody's failure."""
    run = gang()
    run.send(ev.HostDraining("n2", WHY))
    run.after(1)
    run.exits("worker:0", exception="UnavailableError: Socket closed")
    run.after(10)
    assert (10.0, "worker:1", SIGKILL) in run.signals()
    assert run.attempts == {"worker:0": 2, "worker:1": 2}
    assert run.failures == []
    assert {one.exit.asked for one in run.decided(ev.AttemptEnded) if one.exit} == {Asked.DRAIN}


def test_many_hosts_that_leave_use_up_no_budget() -> None:
    """One after the other, more often than the budget has restarts."""
    run = gang()
    for _ in range(6):
        run.send(ev.HostDraining("n2", WHY))
        for name in PLACES:
            run.exits(name, code=42)
        run.send(ev.HostLost("n2", "Its agent ended.", left=True))
        placed(run, PLACES, "n3")
        run.after(1)
    assert run.attempts == {"worker:0": 7, "worker:1": 7}
    assert not run.over


def test_a_host_without_tasks_leaves_without_a_word() -> None:
    """And one of a job that waits for nobody."""
    run = gang()
    run.send(ev.HostDraining("n3", WHY))
    run.after(20)
    assert (run.signals(), run.decided(ev.RestartPlanned)) == ([], [])


@pytest.mark.parametrize("leaving", ["n1", "n2"])
def test_servers_end_after_the_coordinator_which_may_save_what_they_hold(leaving: str) -> None:
    """Whichever host leaves: all know an endpoint that moves."""
    run = ps_job()
    run.send(ev.HostDraining(leaving, WHY))
    assert run.signals() == [(0.0, "chief:0", SIGTERM)]
    assert {run.state(name) for name in PS_PLACES} == {TaskState.STOPPING}
    run.after(2)
    run.exits("chief:0", code=42)
    assert {name for at, name, number in run.signals() if (at, number) == (2.0, SIGTERM)} == {
        "worker:0", "worker:1", "ps:0",
    }  # fmt: skip
    assert {*run.attempts.values()} == {2}


@pytest.mark.parametrize(("grace", "told_at"), [(10.0, 7.0), (60.0, 57.0), (2.0, 0.0)])
def test_servers_do_not_wait_for_a_coordinator_without_end(grace: float, told_at: float) -> None:
    """They have the last 3 s of the grace period; where it is shorter, they are told at once."""
    run = ps_job()
    run.send(ev.AllocationEnding("preempted", grace))
    run.after(grace + 0.5)
    servers = {(at, number) for at, name, number in run.signals() if name != "chief:0"}
    assert servers == {(told_at, SIGTERM)}
    assert (grace, "chief:0", SIGKILL) in run.signals()
    assert run.result.state is RunState.SUSPENDED


def test_servers_that_ignore_sigterm_are_killed_with_the_coordinator() -> None:
    """Not later."""
    run = ps_job()
    run.stubborn |= {*PS_PLACES}
    run.send(ev.AllocationEnding("preempted", 20.0))
    run.after(20.5)
    assert {name for at, name, number in run.signals() if (at, number) == (20.0, SIGKILL)} == {*PS_PLACES}
    assert run.over


def test_a_kill_of_everything_does_not_wait_for_the_coordinator() -> None:
    """A second Ctrl-C while the coordinator saves."""
    run = ps_job()
    run.send(ev.HostDraining("n2", WHY))
    run.send(ev.Interrupted(2))
    run.send(ev.Interrupted(2))
    assert run.over
    assert run.result.state is RunState.STOPPED


@pytest.mark.parametrize("first", ["host", "supervisor"])
def test_host_and_supervisor_that_are_told_to_end_together_suspend_the_run(first: str) -> None:
    """In whatever order; nothing starts again, and it is no failure."""
    run = gang()
    told: list[ev.Happened] = [
        ev.HostDraining("n2", WHY),
        ev.AllocationEnding("the supervisor is told to end (SIGTERM)", 15.0),
    ]
    for event in told if first == "host" else told[::-1]:
        run.send(event)
    run.after(1)
    for name in PLACES:
        run.exits(name, code=42)
    assert (run.result.state, run.result.exit_code) == (RunState.SUSPENDED, SUSPENDED)
    assert not run.result.final
    assert run.attempts == {"worker:0": 1, "worker:1": 1}


def test_a_run_that_ends_gives_no_task_of_a_leaving_host_more_time() -> None:
    """The host goes within its own grace period."""
    run = gang()
    run.send(ev.AllocationEnding("the time limit", 60.0))
    run.send(ev.HostDraining("n2", WHY))
    run.after(10)
    assert (10.0, "worker:1", SIGKILL) in run.signals()
    assert run.state("worker:0") is TaskState.STOPPING


def test_a_host_that_is_lost_while_it_leaves_moves_its_tasks_all_the_same() -> None:
    """Its agent was killed before it was done."""
    run = gang()
    run.send(ev.HostDraining("n2", WHY))
    run.exits("worker:0", code=42)
    run.loses("n2", "worker:1")
    run.after(1)
    assert run.attempts == {"worker:0": 2, "worker:1": 2}
    assert all(planned.charged == 0 for planned in run.decided(ev.RestartPlanned))


def test_a_task_on_a_host_that_is_cut_off_is_not_taken_for_one_that_does_not_die() -> None:
    """A restart waits until the host is back: the signals reach its task only then."""
    run = gang()
    cut(run, "n2")
    run.exits("worker:0", signal=9)
    run.after(25)
    assert (run.over, run.warnings, run.state("worker:1")) == (False, [], TaskState.STOPPING)
    run.unreachable.clear()
    run.send(ev.HostBack("n2"))
    run.after(5)
    assert not run.over
    run.exits("worker:1", signal=9)
    run.after(2)
    assert run.attempts == {"worker:0": 2, "worker:1": 2}


def test_a_task_that_does_not_die_after_its_host_is_back_is_said_to_be_so() -> None:
    """Ten seconds after that."""
    run = gang()
    cut(run, "n2")
    run.exits("worker:0", signal=9)
    run.after(25)
    run.send(ev.HostBack("n2"))
    run.after(9)
    assert run.warnings == []
    run.after(2)
    (warning,) = run.warnings
    assert "worker:1" in warning
    assert "did not die within 10 s of SIGKILL" in warning


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (ev.StorageFailed("on n2, the log of worker:1 could not be written: No space left on device"), RunState.FAILED),
        (ev.AllocationEnding("preempted", 5.0), RunState.SUSPENDED),
        (ev.Interrupted(15), RunState.STOPPED),
    ],
)
def test_a_run_that_ends_does_not_wait_for_a_host_that_is_cut_off(end: ev.Happened, state: RunState) -> None:
    """Its task was lost with its host, and that is not the reason of the end."""
    run = gang()
    cut(run, "n2")
    run.send(end)
    run.exits("worker:0", code=42)
    run.after(21)
    assert (run.result.state, run.warnings) == (state, [])
    lost = next(one for one in run.result.attempts if one.task == task("worker:1"))
    assert str(lost.exit) == "was lost with its host n2"
    assert "debugger" not in run.result.reason
    assert isinstance(end, ev.Interrupted | ev.AllocationEnding) or run.result.reason == end.error  # type: ignore[union-attr]
