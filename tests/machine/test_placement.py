"""Placement: which host each task is on, as a table."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from clusterkit.backends.hosts.hosts import sort_key
from clusterkit.backends.hosts.preflight import preflight
from clusterkit.machine.hosts import Rule, place
from clusterkit.words.job import HostRequest, JobSpec, Network
from tests.efforts import calls
from tests.histories import faults, job

NAMES = ("n1", "n2", "n3")


def placed(spec: JobSpec, *rules: str, usable: tuple[str, ...] = NAMES) -> dict[str, str]:
    """Each host's tasks, as text."""
    hosts: dict[str, list[str]] = {}
    for task, host in place(spec, usable, NAMES, [Rule.parse(rule) for rule in rules]).items():
        hosts.setdefault(host, []).append(str(task))
    return {host: " ".join(tasks) for host, tasks in sorted(hosts.items())}


@pytest.mark.parametrize(
    ("spec", "rules", "usable", "hosts"),
    [
        (job(workers=2, ps=1), (), NAMES, {"n1": "chief:0 worker:0 ps:0", "n2": "worker:1"}),
        (job(workers=3, ps=2), (), NAMES, {"n1": "chief:0 worker:0 ps:0", "n2": "worker:1 ps:1", "n3": "worker:2"}),
        (job(workers=4), (), NAMES, {"n1": "worker:0 worker:3", "n2": "worker:1", "n3": "worker:2"}),
        (job(workers=2, chief=1), (), NAMES, {"n1": "chief:0", "n2": "worker:0", "n3": "worker:1"}),
        (job(workers=2, evaluator=1), (), NAMES, {"n1": "worker:0", "n2": "worker:1", "n3": "evaluator:0"}),
        (job(workers=2, ps=1), (), ("n2",), {"n2": "chief:0 worker:0 worker:1 ps:0"}),
        (job(workers=2, ps=1), ("ps=n3",), NAMES, {"n1": "chief:0 worker:0", "n2": "worker:1", "n3": "ps:0"}),
        (job(workers=2, ps=1), ("ps=host2",), NAMES, {"n1": "chief:0 worker:0", "n2": "worker:1", "n3": "ps:0"}),
        (job(workers=3), ("worker=n2,n3",), NAMES, {"n2": "worker:0 worker:2", "n3": "worker:1"}),
        (job(workers=3), ("worker=n2", "worker:1=n1"), NAMES, {"n1": "worker:1", "n2": "worker:0 worker:2"}),
        (job(workers=2), ("worker=n1",), ("n2", "n3"), {"n2": "worker:0", "n3": "worker:1"}),
    ],
)
def test_where_tasks_are(spec: JobSpec, rules: tuple[str, ...], usable: tuple[str, ...], hosts: dict[str, str]) -> None:
    """Spread by index; rules win where their hosts are there."""
    assert placed(spec, *rules, usable=usable) == hosts


@seed(1401)
@given(st.integers(1, 30), st.integers(0, 5), st.integers(1, 9))
def test_no_host_has_many_more_tasks_of_a_type_than_another(workers: int, ps: int, hosts: int) -> None:
    """At most one more; and every task has a host."""
    names = [f"n{number}" for number in range(hosts)]
    spec = job(workers=workers, ps=ps)
    found = place(spec, names, names, [])
    assert found.keys() == set(spec.tasks)
    counts = [sum(host == name and task.type == "worker" for task, host in found.items()) for name in names]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("shape", [lambda n: job(workers=n), lambda n: job(workers=n, ps=n, evaluator=1)])
def test_the_work_for_each_task_does_not_grow_with_their_number(shape: Callable[[int], JobSpec]) -> None:
    """With ten times as many tasks on ten times as many hosts, and a rule that names half of them."""

    def effort(tasks: int) -> float:
        names = [f"n{number}" for number in range(tasks // 8)]
        rules = [Rule("worker", tuple(names[::2]))]
        return calls(lambda: place(shape(tasks), names, names, rules)) / tasks

    assert effort(800) <= 1.2 * effort(80)


@pytest.mark.parametrize("text", ["", "ps", "ps=", "=n1", "ps=n1,", "sp=n1", "worker:x=n1", "worker:-1=n1", "ps:٣=n1"])
def test_what_is_no_rule(text: str) -> None:
    """A sentence each."""
    with pytest.raises(ValueError, match=r"TASK=HOST|is not a task"):
        Rule.parse(text)


def test_what_several_hosts_can_not_have_is_said_at_once() -> None:
    """All of it."""
    spec = replace(
        job(workers=2),
        network=Network.VIRTUAL,
        hosts=HostRequest(count=2, place=("ps=n1", "x")),
        faults=faults("partition worker:1", "disk-full @ step=3", "kill worker:1"),
    )
    assert [problem.split()[0] for problem in preflight(spec).problems] == [
        "--network",
        "The",
        "The",
        "--place",
        "--place:",
    ]


def test_a_cluster_that_fits_in_no_variable_is_warned_of() -> None:
    """Linux refuses to start a program with one of 128 KiB or more."""
    assert preflight(replace(job(workers=5000), hosts=HostRequest(count=2))).warnings == []
    [warning] = preflight(replace(job(workers=8000), hosts=HostRequest(count=2))).warnings
    assert "TF_CONFIG of 8000 tasks may have 195 KiB" in warning


def test_too_few_descriptors_for_the_hosts_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do about it."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert preflight(replace(job(workers=8), hosts=HostRequest(count=700))).warnings == []
    [warning] = preflight(replace(job(workers=8), hosts=HostRequest(count=1000, spare=1))).warnings
    assert warning.endswith("the limit is 1024. Raise it where the supervisor runs: ulimit -n 1297")


def test_hosts_are_in_the_order_of_the_numbers_in_their_names() -> None:
    """Also where a name has digits that are no decimal numbers: any agent may call itself so."""
    names = ["n10", "n9", "9", "n", "n9-2", "n9-10", "²", "n²", "n٣"]
    assert sorted(names, key=sort_key) == ["9", "n", "n٣", "n9", "n9-2", "n9-10", "n10", "n²", "²"]
