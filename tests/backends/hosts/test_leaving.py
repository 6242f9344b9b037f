"""Hosts that leave, simulated: a real supervisor moves their tasks, and waits for another host where none is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.store.journal import JournalReader
from clusterkit.words import events as ev
from clusterkit.words.job import HostRequest, JobSpec, Limits
from clusterkit.words.outcome import RunResult, RunState
from tests.backends.hosts.simulated_run import Milestone, SimulatedRun, gang, servers

pytestmark = pytest.mark.timeout(60)


def of_kind(run: SimulatedRun, kind: type[ev.Event]) -> list[ev.Event]:
    """The run's events of a kind."""
    return [event for _, event in JournalReader(run.directory).events() if isinstance(event, kind)]


def finishing(run: SimulatedRun) -> Iterator[Milestone]:
    """All tasks end well."""
    run.hosts.finish()
    yield ev.Finished, 1


@pytest.mark.parametrize("shape", [gang, servers])
def test_the_tasks_of_a_host_that_leaves_move_to_the_spare_one(shape: Callable[[int], JobSpec], tmp_path: Path) -> None:
    """At once, with an empty budget, and the host goes when it has no task any more."""
    job = shape(2)
    job = replace(job, restart=replace(job.restart, budget=0, backoff=60.0))
    run = SimulatedRun(tmp_path, job)

    def script(run: SimulatedRun) -> Iterator[Milestone]:
        yield ev.Ready, len(job.tasks)
        run.hosts.drain(run.hosts.hosts[1])
        yield ev.Ready, len(job.tasks)
        yield from finishing(run)

    assert run.play(script).state is RunState.SUCCEEDED
    [draining], [lost] = of_kind(run, ev.HostDraining), of_kind(run, ev.HostLost)
    assert draining == ev.HostDraining("n1", "its agent got SIGTERM")
    assert lost == ev.HostLost("n1", "Its agent ended: it got SIGTERM.", left=True)
    *_, placed = of_kind(run, ev.Placed)
    assert isinstance(placed, ev.Placed)
    assert set(placed.hosts.values()) == {"n0", "n2"}
    assert of_kind(run, ev.Failed) == []


def test_a_spare_host_leaves_at_once(tmp_path: Path) -> None:
    """Nothing restarts, and it is not counted on any more."""
    run = SimulatedRun(tmp_path, gang(2))

    def script(run: SimulatedRun) -> Iterator[Milestone]:
        yield ev.Ready, len(run.job.tasks)
        run.hosts.drain(run.hosts.hosts[2])
        yield ev.HostLost, 1
        yield from finishing(run)

    assert run.play(script).restarts == 0


def all_leave(run: SimulatedRun) -> Iterator[Milestone]:
    """Both hosts of a job on one, and a spare one, are told to go."""
    run.hosts.others_come = True
    yield ev.Ready, len(run.job.tasks)
    for host in run.hosts.hosts[:2]:
        run.hosts.drain(host)
    yield ev.Noted, 1


def play(tmp_path: Path, then: Callable[[SimulatedRun], Iterator[Milestone]], startup: float = 120.0) -> RunResult:
    """All hosts leave; then this happens."""
    job = replace(gang(1), hosts=HostRequest(count=1, spare=1), limits=Limits(startup=startup))
    run = SimulatedRun(tmp_path, job)

    def script(run: SimulatedRun) -> Iterator[Milestone]:
        yield from all_leave(run)
        yield from then(run)

    result = run.play(script)
    [noted] = of_kind(run, ev.Noted)
    assert isinstance(noted, ev.Noted)
    assert noted.text == f"No host is left. The tasks wait for an agent to connect, for up to {startup:g} s."
    return result


def test_tasks_wait_for_an_agent_where_no_host_is_left(tmp_path: Path) -> None:
    """Somebody, such as Kubernetes, may start one in place of the last that has left."""

    def then(run: SimulatedRun) -> Iterator[Milestone]:
        run.hosts.join()
        yield ev.Ready, len(run.job.tasks)
        yield from finishing(run)

    result = play(tmp_path, then)
    assert (result.state, result.restarts) == (RunState.SUCCEEDED, 1)


def test_a_run_that_waits_for_an_agent_can_be_ended(tmp_path: Path) -> None:
    """No process has to be waited for: what is asked for is withdrawn."""

    def then(run: SimulatedRun) -> Iterator[Milestone]:
        run.inbox.put(ev.AllocationEnding("the supervisor is told to end (SIGTERM)", 15.0))
        yield ev.Finished, 1

    assert play(tmp_path, then).state is RunState.SUSPENDED


@pytest.mark.parametrize("gone", [True, False])
def test_a_run_whose_hosts_do_not_come_back_fails(tmp_path: Path, gone: bool) -> None:
    """At once where the engine has no others; else when the time for a start is over."""

    def then(run: SimulatedRun) -> Iterator[Milestone]:
        run.hosts.others_come = not gone
        yield ev.Finished, 1

    result = play(tmp_path, then, 120.0 if gone else 0.6)
    assert result.state is RunState.FAILED
    assert "could not be started: no host is left" in result.reason
