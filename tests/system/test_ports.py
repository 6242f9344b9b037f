"""Where tasks listen: at ports of this machine, or each at an address of its own."""

from __future__ import annotations

import pytest

from clusterkit.system import procfs
from clusterkit.system.ports import listening, port_here
from clusterkit.words.model import Task

ONE, TWO, THREE = (Task.parse(f"worker:{index}") for index in range(3))


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [("127.0.0.1:2222", 2222), ("localhost:80", 80), ("10.77.0.1:2222", None), ("10.77.16.250:8080", None)],
)
def test_a_port_of_a_virtual_network_is_none_of_this_machines(endpoint: str, port: int | None) -> None:
    """Whatever else listens on a port of that number here has nothing to do with the run."""
    assert port_here(endpoint) == port


@pytest.fixture
def listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine something listens on 7 and 2222, in the network of the process 12 on 2222, in 13's on 80."""
    ports = {None: frozenset({7, 2222}), 12: frozenset({2222}), 13: frozenset({80})}
    monkeypatch.setattr(procfs, "listening_ports", lambda pid=None: ports[pid])


@pytest.mark.usefixtures("listeners")
def test_tasks_on_this_machine_are_found_by_their_ports() -> None:
    """Of those that run; an evaluator has no endpoint."""
    endpoints = {ONE: "127.0.0.1:7", TWO: "127.0.0.1:8", THREE: "127.0.0.1:2222"}
    evaluator = Task.parse("evaluator:0")
    assert listening(endpoints, {ONE: 11, TWO: 12, evaluator: 14}) == {ONE}


@pytest.mark.usefixtures("listeners")
def test_tasks_in_a_virtual_network_are_found_in_their_own() -> None:
    """The same port in another one is no sign."""
    endpoints = {ONE: "10.77.0.1:2222", TWO: "10.77.0.2:2222", THREE: "10.77.0.3:2222"}
    assert listening(endpoints, {ONE: 12, TWO: 13}) == {ONE}
