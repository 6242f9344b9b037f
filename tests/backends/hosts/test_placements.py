"""Placements: hosts that answer in every order, that are lost and that have no room, as histories."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from itertools import permutations
from unittest import mock

import pytest

from clusterkit.backends.hosts.hosts import Host, Hosts
from clusterkit.backends.hosts.placements import Placements
from clusterkit.backends.link import messages as ms
from clusterkit.words.job import HostRequest as AskedHosts
from clusterkit.words.job import RestartRules
from clusterkit.words.model import Task
from tests.histories import job

NO_ROOM, NO_PORT = "There is room for 2 tasks.", "No free TCP port was found."


class Table:
    """Hosts n0, n1, … that answer when they are told to, and what became of each placement."""

    def __init__(self, count: int, workers: int, spare: int = 0, network: str = "10.0.0.") -> None:
        hosts = AskedHosts(count=count - spare, spare=spare)
        self.job = replace(job(workers=workers), hosts=hosts, restart=RestartRules(min_workers=1))
        self.hosts = Hosts()
        for number in range(count):
            self.hosts.add(host := Host(f"n{number}", mock.Mock()))
            self.hosts.mark_ready(host, f"{network}{number}")
        self.of = {host.name: host for host in self.hosts.ready}
        self.asked: dict[Host, ms.Claim] = {}
        self.ends: list[str] = []
        self.placements = Placements(
            self.job, self.hosts, self._tell, lambda: self.ends.append("settled"), self._failed
        )

    def answer(self, name: str, problem: str | None = None) -> None:
        """A host holds what it was asked for, or can't."""
        host = self.of[name]
        asked = self.asked.pop(host)
        ports = {} if problem else {task: 20_000 + task.index for task in asked.tasks}
        self.placements.claimed(host, ms.Claimed(ports, problem))

    def lose(self, name: str) -> None:
        """A host is lost, with what it would have answered."""
        self.asked.pop(self.of[name], None)
        self.hosts.mark_lost(self.of[name])
        self.placements.host_lost(self.of[name])

    @property
    def open_questions(self) -> list[str]:
        """The hosts that have not answered."""
        return sorted(host.name for host in self.asked)

    def where(self) -> dict[str, int]:
        """How many tasks each host has."""
        names = [host.name for host in self.placements.placed.values()]
        return {name: names.count(name) for name in sorted(set(names))}

    def check(self) -> None:
        """What holds between any two messages."""
        assert self.placements.is_open == bool(self.asked)
        if self.placements.is_settled:
            assert self.ends[-1] == "settled"
            assert self.placements.placed.keys() == set(self.job.tasks)
            assert not [host.name for host in self.placements.placed.values() if host.is_lost]
            assert len(self.placements.endpoints) == len(self.job.tasks)

    def _tell(self, hosts: Collection[Host], order: ms.ToAgent) -> None:
        for host in hosts:
            assert not host.is_lost
            if isinstance(order, ms.Claim):
                assert host not in self.asked, f"{host.name} was asked again before it answered"
                assert not host.ports.keys() & set(order.tasks), f"{host.name} was asked for ports that it holds"
                self.asked[host] = order

    def _failed(self, problems: list[str]) -> None:
        self.ends.append(" ".join(sorted(problems)) or "no host")


@pytest.mark.parametrize("order", list(permutations(("n0", "n1", "n2"))))
def test_a_placement_fails_when_all_have_answered(order: tuple[str, ...]) -> None:
    """With every problem; so that no answer is left which the next placement takes for one to its own question."""
    problems = {"n0": NO_ROOM, "n1": NO_PORT}
    table = Table(3, 9)
    table.placements.begin()
    for name in order:
        assert table.ends == []
        table.answer(name, problems.get(name))
        table.check()
    assert table.ends == [f"n0: {NO_ROOM} n1: {NO_PORT}"]
    table.placements.begin()
    assert table.open_questions == ["n0", "n1"]  # n2 holds its ports
    table.answer("n1")
    table.answer("n0")
    assert (table.ends[1:], table.where()) == (["settled"], {"n0": 3, "n1": 3, "n2": 3})


@pytest.mark.parametrize("order", list(permutations(("n0", "n2", "lost"))))
@pytest.mark.parametrize("problem", [None, NO_ROOM])
def test_a_host_that_is_lost_before_all_have_answered(order: tuple[str, ...], problem: str | None) -> None:
    """What the others answered is not about the tasks that they get now; they are asked once they have answered."""
    table = Table(3, 6)
    table.placements.begin()
    for what in order:
        if what == "lost":
            table.lose("n1")
        else:
            table.answer(what, problem if what == "n2" else None)
        table.check()
    assert table.ends == []
    assert table.open_questions == ["n0", "n2"]
    for name in ("n2", "n0"):
        table.answer(name)
    assert (table.ends, table.where()) == (["settled"], {"n0": 3, "n2": 3})


def test_the_last_host_is_lost_before_it_answers() -> None:
    """No host is left, which is said at once."""
    table = Table(1, 2)
    table.placements.begin()
    table.lose("n0")
    assert table.ends == ["no host"]
    table.check()


def test_a_host_that_is_to_be_avoided_while_it_is_asked_gets_no_task() -> None:
    """The spare host has them, until those that were avoided are readmitted."""
    table = Table(3, 4, spare=1)
    table.placements.begin()
    table.placements.avoid(("n1",))
    table.answer("n1")
    table.answer("n0")
    assert table.open_questions == ["n2"]
    table.answer("n2", NO_PORT)
    assert table.ends == [f"n2: {NO_PORT}"]
    assert table.placements.readmit() == ["n1"]
    table.placements.begin()
    assert (table.ends[1:], table.where()) == (["settled"], {"n0": 2, "n1": 2})
    assert (table.placements.readmitted, table.placements.readmit()) == (("n1",), [])


@pytest.mark.parametrize("problem", [None, NO_ROOM])
def test_an_answer_that_nobody_asked_for(problem: str | None) -> None:
    """It changes nothing, and costs no placement."""
    table = Table(2, 2)
    for _ in range(2):
        table.placements.claimed(table.of["n0"], ms.Claimed({Task.parse("worker:0"): 1}, problem))
    table.placements.begin()
    table.answer("n0")
    table.placements.claimed(table.of["n0"], ms.Claimed({}, problem))
    assert (table.ends, table.of["n0"].ports) == ([], {Task.parse("worker:0"): 20_000})
    table.answer("n1")
    assert table.ends == ["settled"]


@pytest.mark.parametrize("number", range(200))
def test_random_histories_of_placements(number: int) -> None:
    """Nobody is asked twice at a time, every placement ends once, and tasks are only where ports are held for them."""
    draw = random.Random(number)
    table = Table(draw.randint(1, 5), draw.randint(1, 12), spare=0)
    began = 0
    for _ in range(40):
        if not table.placements.is_open and not table.placements.is_settled:
            assert len(table.ends) == began
            began += 1
            table.placements.begin()
        ready = [host.name for host in table.hosts.ready]
        match draw.choice(("answer", "answer", "answer", "lose", "avoid", "readmit")):
            case "answer" if table.asked:
                table.answer(draw.choice(table.open_questions), draw.choice((None, None, NO_ROOM)))
            case "lose" if len(ready) > 1 or (draw.random() < 0.1 and ready):
                table.lose(draw.choice(ready))
            case "avoid" if ready:
                table.placements.avoid(draw.sample(ready, draw.randint(0, len(ready))))
            case "readmit" if not table.placements.is_open:
                table.placements.readmit()
        table.check()
    assert len(table.ends) == began - table.placements.is_open


@pytest.mark.parametrize(("network", "ends"), [("10.0.0.", ["10.0.0.0:20000"]), ("fd00::", ["[fd00::0]:20000"])])
def test_an_endpoint_is_what_tensorflow_reads(network: str, ends: list[str]) -> None:
    """An IPv6 address has brackets, without which its last part would be the port."""
    table = Table(1, workers=1, network=network)
    table.placements.begin()
    table.answer("n0")
    assert [*table.placements.endpoints.values()] == ends
