"""What an agent may deliver: what belongs to the attempts that it was ordered to start."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clusterkit.backends.hosts.hosts import Grants
from clusterkit.backends.hosts.incoming import CollectedFiles, IncomingMessages
from clusterkit.backends.link import messages as ms
from clusterkit.backends.link.connection import Connection
from clusterkit.store.directory import RunDirectory
from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit

OWN, OTHER = Task.parse("worker:0"), Task.parse("worker:1")


class Agent:
    """A connection that is asked to close."""

    host = "n1"

    def __init__(self) -> None:
        self.closed: list[str] = []

    def close(self, why: str) -> None:
        """Note why."""
        self.closed.append(why)


class Desk:
    """The messages of two agents: worker:0's attempt 2 was placed with the first one, worker:1 with the second."""

    def __init__(self, place: Path) -> None:
        self.run = RunDirectory(place / "r-1")
        self.run.make()
        for task in (OWN, OTHER):
            self.run.add_task(task)
        self.collected = CollectedFiles(self.run, lambda event: None, lambda task, attempt, data: None)
        self.agent, self.second = Agent(), Agent()
        grants = Grants()
        grants.add(cast(Connection, self.agent), OWN, 2)
        grants.add(cast(Connection, self.second), OTHER, 1)
        self.passed: list[Any] = []
        backend = SimpleNamespace(received=print)  # what is passed on is called by the loop, of which there is none
        self.incoming = IncomingMessages(grants, self.passed.append, self.collected, cast(Any, backend))

    def send(self, message: ms.FromAgent, body: bytes = b"") -> bool:
        """The first agent sends a message; whether it was taken."""
        self.incoming.message(cast(Connection, self.agent), ms.encode(message), body)
        return not self.agent.closed

    def files(self) -> list[str]:
        """Those that were written, and are not empty."""
        return sorted(
            str(path.relative_to(self.run.path)) for path in self.run.path.rglob("*")
            if path.is_file() and path.stat().st_size and path != self.run.reserve
        )  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Where messages arrive."""
    made = Desk(tmp_path)
    yield made
    made.collected.stop()


def messages(task: Task, attempt: int) -> list[tuple[ms.FromAgent, bytes]]:
    """Of each kind that is about an attempt."""
    return [
        (ms.Output(task, attempt, 1.0), b"line\n"),
        (ms.Written(f"stacks/{task}.attempt-{attempt}.txt", 0), b"stacks"),
        (ms.Written(f"tasks/{task}/return-{attempt}.pkl", 0), b"value"),
        (ms.Written(f"tasks/{task}/return-{attempt}.json", 0), b"1"),
        (ev.Exited(task, attempt, Exit(code=0)), b""),
        (ev.Progressed(task, attempt, 7), b""),
        (ev.Profiled(task, attempt, 1, None), b""),
        (ms.Used({task: (1.0, 2.0)}), b""),
        (ev.Inspected({task: ev.Vitals(attempt, False, "S")}), b""),
    ]


@pytest.mark.parametrize("number", range(9))
def test_its_own_attempts_are_delivered(desk: Desk, number: int) -> None:
    """Each kind of message."""
    assert desk.send(*messages(OWN, 2)[number]), desk.agent.closed


@pytest.mark.parametrize("number", range(9))
def test_those_of_another_host_are_not(desk: Desk, number: int) -> None:
    """The connection ends, and nothing is written or passed on."""
    before = desk.files()
    assert not desk.send(*messages(OTHER, 1)[number])
    assert "worker:1 was not placed here" in desk.agent.closed[0]
    assert desk.files() == before
    assert desk.passed == []
    assert desk.second.closed == []


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("attempt", [1, 3])
def test_attempts_that_were_not_ordered_are_not(desk: Desk, number: int, attempt: int) -> None:
    """Neither an earlier one, which ran elsewhere, nor one that is still to come."""
    assert not desk.send(*messages(OWN, attempt)[number])
    assert desk.files() == []


@pytest.mark.parametrize(
    "name",
    [
        "tasks/worker:1/return-1.pkl",
        "tasks/worker:00000000001/return-1.pkl",
        "tasks/worker:\u0661/return-1.pkl",
        "tasks/worker:0/return-\u0662.json",
        "tasks/worker:0/../worker:1/return-1.pkl",
        "tasks/worker:0/return-2.so",
        "stacks/worker:1.attempt-1.txt",
        "stacks/worker:0.attempt-99999999999999999999.txt",
        "tasks/worker:0/return-2.pkl\n",
        "job.json",
        "",
    ],
)
def test_names_of_other_files_are_refused(desk: Desk, name: str) -> None:
    """However they are spelled."""
    assert not desk.send(ms.Written(name, 0), b"data")
    assert desk.files() == []


def test_random_messages(desk: Desk, tmp_path: Path) -> None:
    """Whatever an agent sends: it is taken or its connection closed, and only its own files are written."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    kinds = [ms.encode(message) for task in (OWN, OTHER) for message, _ in messages(task, chance.randrange(4))]
    pieces: list[Any] = [
        None,
        True,
        -1,
        1 << 70,
        0.5,
        "",
        "worker:1",
        "..",
        [],
        {},
        {"worker:1": [1, 2]},
        "\0",
        "worker:0",
    ]
    for _ in range(2000):
        message = dict(chance.choice(kinds))
        for key in list(message):
            if chance.random() < 0.3:
                message[key] = chance.choice(pieces)
        desk.incoming.message(cast(Connection, desk.agent), message, chance.randbytes(20))
    own = ("tasks/worker:0/", "stacks/worker:0.attempt-2", "stacks/n1-", "tasks/arrivals", "usage.jsonl")
    assert [name for name in desk.files() if not name.startswith(own)] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r-1"]
