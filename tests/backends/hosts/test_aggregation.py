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
    merging.fault(1, [far])
    merging.fault(2, [near, far])
    far.cut = True
    merging.cut()
    merging.took(near, FaultTook(2, "slowed here"))
    assert posted == []
    for number in (1, 2):
        merging.took(far, FaultTook(number, "slowed there"))
    assert posted == [FaultTook(1, "slowed there"), FaultTook(2, "slowed here; slowed there")]


def test_a_fault_does_not_wait_for_a_host_that_is_lost() -> None:
    """Its tasks were lost with it."""
    posted: list[Any] = []
    merging, [host] = CombinedAnswers(posted.append, lambda _: None), hosts("n1")
    merging.fault(1, [host])
    host.cut = True
    merging.cut()
    merging.lost(host)
    assert posted == [FaultTook(1, "its hosts are lost", done=False)]


def test_a_look_does_not_wait_for_a_host_that_is_cut_off() -> None:
    """Whoever looks sees the other hosts' tasks meanwhile."""
    posted: list[Any] = []
    merging, [near, far] = CombinedAnswers(posted.append, lambda _: None), hosts("n1", "n2")
    merging.look(Look.GLANCE, [near, far])
    merging.looked(near, Inspected({WORKER: SEEN}), None)
    far.cut = True
    merging.cut()
    assert posted == [Inspected({WORKER: SEEN}, Look.GLANCE)]


def test_a_host_that_is_back_answers_in_the_order_of_the_questions() -> None:
    """What it owes for a look that was told without it is no answer to the next one."""
    posted: list[Any] = []
    merging, [near, far] = CombinedAnswers(posted.append, lambda _: None), hosts("n1", "n2")
    merging.look(Look.GLANCE, [near, far])
    far.cut = True
    merging.cut()
    merging.looked(near, Inspected({}), None)
    merging.look(Look.GLANCE, [near])
    merging.looked(near, Inspected({}), None)
    far.cut, posted[:] = False, []
    merging.look(Look.GLANCE, [near, far])
    merging.looked(far, Inspected({WORKER: replace(SEEN, state="T")}), None)
    merging.looked(near, Inspected({}), None)
    assert posted == []
    merging.looked(far, Inspected({WORKER: SEEN}), None)
    assert posted == [Inspected({WORKER: SEEN}, Look.GLANCE)]


def test_a_look_waits_for_a_host_that_is_back_before_it_is_told() -> None:
    """It has not lost the question, so its answer comes."""
    posted: list[Any] = []
    merging, [near, far] = CombinedAnswers(posted.append, lambda _: None), hosts("n1", "n2")
    merging.look(Look.STALL, [near, far])
    far.cut = True
    merging.cut()
    far.cut = False
    merging.looked(near, Inspected({}, Look.STALL), None)
    assert posted == []
    merging.looked(far, Inspected({WORKER: SEEN}, Look.STALL), None)
    assert posted == [Inspected({WORKER: SEEN}, Look.STALL)]


def test_a_look_of_which_a_lost_host_is_the_last() -> None:
    """It is told, and what the host would have said is not waited for."""
    posted: list[Any] = []
    merging, [near, far] = CombinedAnswers(posted.append, lambda _: None), hosts("n1", "n2")
    merging.look(Look.GLANCE, [near, far])
    merging.looked(near, Inspected({}), None)
    merging.lost(far)
    assert posted == [Inspected({}, Look.GLANCE)]
