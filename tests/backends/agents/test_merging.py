"""Answers of several hosts: what a host that is cut off still owes is waited for, or is not."""

from __future__ import annotations

from typing import Any

from clusterkit.backends.agents.hosts import Host
from clusterkit.backends.agents.merging import Merging
from clusterkit.words.events import FaultTook, Inspected, Look


def hosts(*names: str) -> list[Host]:
    """Hosts to which nothing is said here."""
    nobody: Any = None
    return [Host(name, nobody) for name in names]


def test_a_fault_waits_for_a_host_that_is_cut_off() -> None:
    """It has the order and injects it, or will: a fault that counts as not injected would never be healed there."""
    posted: list[Any] = []
    merging, [near, far] = Merging(posted.append, lambda _: None), hosts("n1", "n2")
    merging.fault(1, [far])
    merging.fault(2, [near, far])
    merging.cut(far)
    merging.took(near, FaultTook(2, "slowed here"))
    assert posted == []
    for number in (1, 2):
        merging.took(far, FaultTook(number, "slowed there"))
    assert posted == [FaultTook(1, "slowed there"), FaultTook(2, "slowed here; slowed there")]


def test_a_fault_does_not_wait_for_a_host_that_is_lost() -> None:
    """Its tasks were lost with it."""
    posted: list[Any] = []
    merging, [host] = Merging(posted.append, lambda _: None), hosts("n1")
    merging.fault(1, [host])
    merging.cut(host)
    merging.lost(host)
    assert posted == [FaultTook(1, "its hosts are lost", done=False)]


def test_a_look_does_not_wait_for_a_host_that_is_cut_off() -> None:
    """Whoever looks sees the other hosts' tasks meanwhile."""
    posted: list[Any] = []
    merging, [near, far] = Merging(posted.append, lambda _: None), hosts("n1", "n2")
    merging.look(Look.GLANCE, [near, far])
    merging.looked(near, Inspected({}), None)
    merging.cut(far)
    assert posted == [Inspected({}, Look.GLANCE)]
