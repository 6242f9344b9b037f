"""Hosts: one is cut off, comes back or is lost; what restarts then, and who is to blame."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.words import events as ev
from clusterkit.words.job import HostRequest, RestartRules, RestartScope
from clusterkit.words.outcome import RunState
from tests.histories import SIGKILL, History, job, task
from tests.machine.test_gang import UNAVAILABLE, cause_and_collateral

PATIENCE = 30.0


def cut(run: History, host: str) -> None:
    """The host can't be reached any more."""
    run.send(ev.HostCut(host, "connection reset", PATIENCE))


@pytest.mark.parametrize(
    ("counts", "gone", "scope"),
    [
        ({"workers": 2, "ps": 1}, "worker:1", "any"),
        ({"workers": 2, "ps": 1}, "worker:1", "task"),
        ({"workers": 2, "ps": 1}, "ps:0", "auto"),
        ({"workers": 2, "ps": 1}, "chief:0", "auto"),
        ({"workers": 3}, "worker:2", "auto"),
        ({"workers": 3}, "worker:0", "task"),
    ],
)
def test_all_restart_when_a_host_is_lost(counts: dict[str, int], gone: str, scope: str) -> None:
    """Whatever the strategy and the scope: the endpoints of those that move stand in everybody's TF_CONFIG."""
    rules = RestartRules(scope=RestartScope(scope) if scope != "any" else RestartScope.AUTO)
    run = History(job(counts["workers"], counts.get("ps", 0), restart=rules)).begin()
    run.loses("n2", gone)
    run.after(5)
    assert set(run.attempts.values()) == {2}
    (planned,) = run.decided(ev.RestartPlanned)
    assert planned.cause is not None
    assert (str(planned.cause.task), str(planned.cause.exit)) == (gone, "was lost with its host n2")


def test_an_evaluator_that_was_alone_on_the_host_restarts_alone() -> None:
    """Nobody has its endpoint."""
    run = History(job(workers=2, evaluator=1)).begin()
    run.loses("n3", "evaluator:0")
    run.after(5)
    assert run.attempts == {"worker:0": 1, "worker:1": 1, "evaluator:0": 2}


def test_peers_that_fail_while_a_host_is_cut_off_are_not_blamed_before_its_fate_is_known() -> None:
    """They notice within seconds; the host is counted lost much later, and is the cause."""
    run = History(job(workers=3)).begin()
    cut(run, "n2")
    run.exits("worker:0", exception=UNAVAILABLE)
    run.after(20)
    assert run.decided(ev.RestartPlanned) == []
    run.loses("n2", "worker:1")
    run.after(5)
    (planned,) = run.decided(ev.RestartPlanned)
    assert cause_and_collateral(planned) == ("worker:1", ["worker:0"])
    assert run.attempts == {"worker:0": 2, "worker:1": 2, "worker:2": 2}


def test_a_host_that_comes_back_ends_the_doubt() -> None:
    """The recovery is decided then, and all that failed are its cause and collateral."""
    run = History(job(workers=2)).begin()
    cut(run, "n2")
    run.exits("worker:0", exception=UNAVAILABLE)
    run.after(20)
    run.send(ev.HostBack("n2"))
    assert len(run.decided(ev.RestartPlanned)) == 1
    run.after(5)
    assert run.attempts == {"worker:0": 2, "worker:1": 2}


def test_a_failure_of_its_own_is_decided_although_a_host_is_cut_off() -> None:
    """The host has nothing to do with it."""
    run = History(job(workers=2)).begin()
    cut(run, "n2")
    run.exits("worker:0", exception="ValueError: x")
    run.after(1.1)
    assert len(run.decided(ev.RestartPlanned)) == 1


def test_a_host_that_is_lost_while_its_gang_is_ended_restarts_what_knows_its_endpoint() -> None:
    """A ps failed, and its chief is being ended for it: the workers would keep an endpoint that is gone."""
    run = History(job(workers=2, ps=1), stubborn={"chief:0"}, unreachable={"chief:0"}).begin()
    run.exits("ps:0", signal=SIGKILL)
    run.after(1.5)
    run.loses("n1", "chief:0")
    run.after(5)
    assert run.attempts == {"chief:0": 2, "worker:0": 2, "worker:1": 2, "ps:0": 2}


def test_two_hosts_lost_without_a_step_are_not_the_same_failure_twice() -> None:
    """The program is not the reason."""
    run = History(job(workers=2)).begin()
    for host in ("n1", "n2"):
        run.loses(host, "worker:1")
        run.after(10)
    assert run.attempts == {"worker:0": 3, "worker:1": 3}
    assert not run.over


def test_a_host_that_is_lost_after_the_jobs_success_fails_nothing() -> None:
    """The run ends well."""
    run = History(job(workers=2, ps=1), stubborn={"ps:0"}).begin()
    run.exits("chief:0", code=0)
    run.loses("n2", "ps:0")
    run.after(10)
    assert run.result.state is RunState.SUCCEEDED


def test_a_start_that_was_on_its_way_to_the_host_is_lost_with_it() -> None:
    """There was no process yet."""
    run = History(job(workers=2), warming=True).begin()
    for name in run.job.tasks:
        run.send(ev.SpawnFailed(name, 1, "its host is lost", "n1"))
    run.send(ev.HostLost("n1", "its agent is gone"))
    run.after(5)
    assert run.decided(ev.RestartPlanned)[0].tasks == run.job.tasks


def test_a_coordinator_that_waits_for_its_servers_starts_with_the_others_again() -> None:
    """It was held back when the host was lost, and must not start against servers that are being ended."""
    run = History(job(workers=2, ps=1)).begin()
    for name in ("worker:0", "worker:1", "ps:0"):
        run.send(ev.Ready(task(name), 1))
    run.exits("ps:0", signal=SIGKILL)
    while run.attempts["ps:0"] == 1:
        run.after(0.1)
    assert run.attempts["chief:0"] == 1
    run.loses("n2", "worker:1")
    run.after(5)
    assert run.attempts == {"chief:0": 2, "worker:0": 2, "worker:1": 2, "ps:0": 3}
    assert not run.over


def test_peers_that_notice_before_the_supervisor_does_are_not_blamed_either() -> None:
    """A host that is silent counts as cut off after half of its time-out; until then, survivors wait for a cause."""
    run = History(replace(job(workers=3), hosts=HostRequest(count=3, timeout=PATIENCE))).begin()
    run.exits("worker:0", exception=UNAVAILABLE)
    run.after(PATIENCE / 2)
    assert run.decided(ev.RestartPlanned) == []
    cut(run, "n2")
    run.after(20)
    run.loses("n2", "worker:1")
    run.after(5)
    (planned,) = run.decided(ev.RestartPlanned)
    assert cause_and_collateral(planned) == ("worker:1", ["worker:0"])


def test_on_hosts_a_failure_of_its_own_is_decided_as_soon_as_ever() -> None:
    """Within the collateral window."""
    run = History(replace(job(workers=3), hosts=HostRequest(count=3, timeout=PATIENCE))).begin()
    run.exits("worker:0", exception="ValueError: x")
    run.after(1.1)
    assert len(run.decided(ev.RestartPlanned)) == 1
