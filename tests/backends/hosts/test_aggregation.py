"""Answers of several hosts: what a host that is cut off still owes is waited for, or is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clusterkit.backends.hosts.hosts import CombinedAnswers, Host
from clusterkit.words.events import FaultTook, Inspected, Look, Vitals
from clusterkit.words.model import Task

WORKER, OTHER = Task.parse("worker:0"), Task.parse("worker:1")
SEEN = Vitals(1, listening=True, state="S")


def hosts(*names: str) -> list[Host]:
    """Hosts to which nothing is said here."""
    nobody: Any = None
    return [Host(name, nobody) for name in names]


def test_a_fault_waits_for_a_host_that_is_cut_off() -> None:
    """It has the order and injects it, or will: a fault that counts as not injected would never be healed there."""
    posted: list[Any] = []
    merging, [near, far] = CombinedAnswers(posted.append, lambda _: None), hosts("n1", "n2")
    merging.expect_injection(1, [far])
    merging.expect_injection(2, [near, far])
    far.is_cut = True
    merging.host_cut()
    merging.add_injection(near, FaultTook(2, "slowed here"))
    assert posted == []
    for number in (1, 2):
        merging.add_injection(far, FaultTook(number, "slowed there"))
    assert posted == [FaultTook(1, "slowed there"), FaultTook(2, "slowed here; slowed there")]


def test_a_fault_does_not_wait_for_a_host_that_is_lost() -> None:
    """Its tasks were lost with it."""
    posted: list[Any] = []
    merging, [host] = CombinedAnswers(posted.append, lambda _: None), hosts("n1")
    merging.expect_injection(1, [host])
    host.is_cut = True
    merging.host_cut()
    merging.host_lost(host)
    assert posted == [FaultTook(1, "its hosts are lost", done=False)]


def test_a_look_does_not_wait_for_a_host_that_is_cut_off() -> None:
    """Whoever looks sees the other hosts' tasks meanwhile."""
    posted: list[Any] = []
    merging, [near, far] = CombinedAnswers(posted.append, lambda _: None), hosts("n1", "n2")
    merging.expect_inspection(Look.GLANCE, [near, far])
    merging.add_inspection(near, Inspected({WORKER: SEEN}), None)
    far.is_cut = True
    merging.host_cut()
    assert posted == [Inspected({WORKER: SEEN}, Look.GLANCE)]


def test_a_host_that_is_back_answers_in_the_order_of_the_questions() -> None:
    """What it owes for a look that was told without it is no answer to the next one."""
    posted: list[Any] = []
    merging, [near, far] = CombinedAnswers(posted.append, lambda _: None), hosts("n1", "n2")
    merging.expect_inspection(Look.GLANCE, [near, far])
    far.is_cut = True
    merging.host_cut()
    merging.add_inspection(near, Inspected({}), None)
    merging.expect_inspection(Look.GLANCE, [near])
    merging.add_inspection(near, Inspected({}), None)
    far.is_cut, posted[:] = False, []
    merging.expect_inspection(Look.GLANCE, [near, far])
    merging.add_inspection(far, Inspected({WORKER: replace(SEEN, state="T")}), None)
    merging.add_inspection(near, Inspected({}), None)
    assert posted == []
    merging.add_inspection(far, Inspected({WORKER: SEEN}), None)
    assert posted == [Inspected({WORKER: SEEN}, Look.GLANCE)]


def test_a_look_waits_for_a_host_that_is_back_before_it_is_told() -> None:
    """It has not lost the question, so its answer comes."""
    posted: list[Any] = []
    merging, [near, far] = CombinedAnswers(posted.append, lambda _: None), hosts("n1", "n2")
    merging.expect_inspection(Look.STALL, [near, far])
    far.is_cut = True
    merging.host_cut()
    far.is_cut = False
    merging.add_inspection(near, Inspected({}, Look.STALL), None)
    assert posted == []
    merging.add_inspection(far, Inspected({WORKER: SEEN}, Look.STALL), None)
    assert posted == [Inspected({WORKER: SEEN}, Look.STALL)]


def test_a_look_of_which_a_lost_host_is_the_last() -> None:
    """It is told, and what the host would have said is not waited for."""
    posted: list[Any] = []
    merging, [near, far] = CombinedAnswers(posted.append, lambda _: None), hosts("n1", "n2")
    merging.expect_inspection(Look.GLANCE, [near, far])
    merging.add_inspection(near, Inspected({}), None)
    merging.host_lost(far)
    assert posted == [Inspected({}, Look.GLANCE)]
