"""What a restart needs of a host, what is missing there, and how starts wait for that."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from clusterkit.backends.hosts import fitness
from clusterkit.backends.hosts.fitness import CheckedStarts, UnmetRequirement, first_unmet, peers_of
from clusterkit.words.actions import Order, Signal, Spawn
from clusterkit.words.events import NEVER_STARTED, SpawnFailed
from clusterkit.words.model import Task
from tests.histories import task
from tests.support import wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """One at which peers answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def port(listener: socket.socket) -> int:
    """One on which something listens."""
    return int(listener.getsockname()[1])


@pytest.fixture
def mute() -> Iterator[int]:
    """One that does not answer: as many wait there as may."""
    with socket.socket() as listener, ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def unexpected(item: object) -> None:
    """Nothing goes wrong."""
    raise AssertionError(item)


def why(directories: list[Path]) -> str:
    """What is missing."""
    found = first_unmet(directories, {}, unexpected)
    assert found is not None
    return found.why


def test_a_host_that_has_everything_is_fit(tmp_path: Path, port: int) -> None:
    """A peer that does not listen yet refuses, and so is there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        silent = bound.getsockname()[1]
        peers = {task("worker:1"): f"127.0.0.1:{port}", task("worker:2"): f"127.0.0.1:{silent}"}
        assert first_unmet([tmp_path], peers, unexpected) is None


def test_a_directory_that_is_gone_or_full_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is wrong with it."""
    gone = tmp_path / "gone"
    assert why([tmp_path, gone]) == f"{gone} can't be used: No such file or directory"
    monkeypatch.setattr(fitness, "LEAST_DISK", 1 << 70)
    assert why([tmp_path]).endswith(f" MB are free in {tmp_path}")


@pytest.mark.parametrize(
    ("stat", "said"),
    [
        ({"f_flag": 1}, "{} can't be written"),
        ({"f_bavail": 3, "f_frsize": 1 << 20}, "only 3 MB are free in {}"),
        ({"f_files": 9, "f_favail": 0}, "no file can be made in {}: no inode is free"),
        ({"f_files": 0, "f_favail": 0}, None),  # a file system without inodes
    ],
)
def test_what_a_file_system_says(
    stat: dict[str, int], said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read-only, full, without inodes."""
    usual = {"f_flag": 0, "f_bavail": 1 << 30, "f_frsize": 4096, "f_files": 100, "f_favail": 50}
    monkeypatch.setattr("os.statvfs", lambda path: SimpleNamespace(**{**usual, **stat}))
    found = first_unmet([tmp_path], {}, unexpected)
    assert (found and found.why) == (said and said.format(tmp_path))


def test_a_file_system_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a network file system whose server is gone."""
    hung, statvfs = threading.Event(), os.statvfs
    monkeypatch.setattr("os.statvfs", lambda path: hung.wait(20) and statvfs(path))
    monkeypatch.setattr(fitness, "DISK_WITHIN", 0.05)
    try:
        assert why([tmp_path]) == f"the file system of {tmp_path} does not answer within 0.05 s"
    finally:
        monkeypatch.undo()
        hung.set()


def test_memory_that_is_used_up_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """In megabytes."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=20 << 20))
    assert why([]) == "only 20 MB of memory are available"


def test_a_peer_that_does_not_answer_is_named(port: int, mute: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that does is not."""
    monkeypatch.setattr(fitness, "ANSWER_WITHIN", 1.0)
    peers = {task("ps:0"): f"127.0.0.1:{mute}", task("worker:1"): f"127.0.0.1:{port}"}
    assert first_unmet([], peers, unexpected) == UnmetRequirement(
        "it does not reach the host of ps:0 (127.0.0.1)", (task("ps:0"),)
    )


@pytest.mark.parametrize("here", ["[::1]", "127.0.0.1"])
def test_peers_are_reached_by_either_protocol(here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """2001:db8::/32 is for documentation: nobody is there."""
    monkeypatch.setattr(fitness, "ANSWER_WITHIN", 1.0)
    there = {task("worker:1"): f"{here}:9"}
    assert first_unmet([], there, unexpected) is None
    assert first_unmet([], {**there, task("ps:0"): "[2001:db8::1]:9"}, unexpected) == UnmetRequirement(
        "it does not reach the host of ps:0 (2001:db8::1)", (task("ps:0"),)
    )


def test_a_peer_whose_answer_is_looked_at_too_late_has_answered(
    listener: socket.socket, port: int, mute: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process stood still while the time went by."""
    times: list[float] = []

    def now() -> float:
        if times:
            listener.accept()[0].close()
        times.append(100.0 * len(times))
        return times[-1]

    monkeypatch.setattr(fitness, "time", SimpleNamespace(monotonic=now))
    peers = {task("ps:0"): f"127.0.0.1:{mute}", task("worker:1"): f"127.0.0.1:{port}"}
    found = first_unmet([], peers, unexpected)
    assert found is not None
    assert found.unreached == (task("ps:0"),)
    assert len(times) == 2


@pytest.mark.parametrize("end", ["", "no port", "[::1", "a b:99999", "\udce9:1"])
def test_what_is_no_endpoint_says_nothing(end: str) -> None:
    """Endpoints come from the supervisor; one that nobody can connect to is not a host's failure."""
    assert first_unmet([], {task("worker:1"): end}, unexpected) is None


def test_the_hosts_after_this_one_are_asked_one_task_each() -> None:
    """So that of many hosts each is asked by some."""
    hosts = 50
    ends = {Task.parse(f"worker:{n}"): f"10.0.0.{n % hosts}:{20_000 + n}" for n in range(2 * hosts)}
    asked = peers_of("10.0.0.7", ends)
    assert len(asked) == fitness.MOST_PEERS
    assert "10.0.0.8" in next(iter(asked.values()))
    assert not any(end.startswith("10.0.0.7:") for end in asked.values())
    assert peers_of("10.0.0.7", {task("worker:0"): "10.0.0.7:1"}) == {}


class Host:
    """One host's restarts, and what comes of them. `found` is what the look finds once it is `over`."""

    def __init__(self) -> None:
        self.found: UnmetRequirement | None = None
        self.over = threading.Event()
        self.looks = 0
        self.port: int | None = None
        self.started: list[Order] = []
        self.posted: list[Any] = []
        self.restarts = CheckedStarts(lambda: self.look, lambda _: self.port, self.started.append, self.posted.append)

    def look(self) -> UnmetRequirement | None:
        """As the real one, which may take a while."""
        self.looks += 1
        assert self.over.wait(10)
        return self.found

    def settle(self) -> list[SpawnFailed]:
        """Let the look end, and do what comes of it; return what failed."""
        self.over.set()
        wait_until(lambda: any(map(callable, self.posted)), 10, "the look")
        for work in [item for item in self.posted if callable(item)]:
            self.posted.remove(work)
            work()
        return [item for item in self.posted if isinstance(item, SpawnFailed)]


WORKER, PS = task("worker:1"), task("ps:0")


def test_first_attempts_and_other_orders_do_not_wait() -> None:
    """There was a check when the run began."""
    host = Host()
    orders: list[Order] = [Spawn(WORKER, 1, ""), Signal(WORKER, 1, 9)]
    for order in orders:
        host.restarts.do(order)
    assert (host.started, host.looks) == (orders, 0)


def test_restarts_that_come_together_wait_for_one_look() -> None:
    """And start in their order when it has found nothing."""
    host = Host()
    orders = [Spawn(PS, 2, "failure"), Spawn(WORKER, 3, "failure")]
    for order in orders:
        host.restarts.do(order)
    assert host.started == []
    assert host.settle() == []
    assert (host.started, host.looks) == (orders, 1)


def test_what_the_look_finds_fails_every_start() -> None:
    """With the reason, and the peers, if it is about them."""
    host = Host()
    host.found = UnmetRequirement("it does not reach the host of ps:0 (n3)", (PS,))
    host.restarts.do(Spawn(WORKER, 2, "failure"))
    assert host.settle() == [SpawnFailed(WORKER, 2, host.found.why, unfit=True, unreached=(PS,))]
    assert host.started == []


def test_a_port_that_somebody_else_has_fails_its_task_alone(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """It was held; only a program of the same user can take it."""
    host = Host()
    host.port = port
    host.restarts.do(Spawn(WORKER, 2, "failure"))
    [failed] = host.settle()
    assert (failed.error, failed.unfit) == (f"another process listens on its port {port}", True)
    monkeypatch.setattr("clusterkit.system.procfs.listening_ports", frozenset)
    host.posted.clear()
    host.restarts.do(Spawn(WORKER, 3, "failure"))
    assert host.settle() == []
    assert [order.attempt for order in host.started if isinstance(order, Spawn)] == [3]


def test_a_start_that_is_held_back_can_be_ended() -> None:
    """It never was; the other one that waits is not affected."""
    host = Host()
    host.restarts.do(Spawn(WORKER, 2, "failure"))
    host.restarts.do(Spawn(PS, 2, "failure"))
    host.restarts.do(Signal(WORKER, 2, 15))
    assert host.posted == [SpawnFailed(WORKER, 2, NEVER_STARTED)]
    host.settle()
    assert host.started == [Spawn(PS, 2, "failure")]


def test_nothing_starts_after_the_end() -> None:
    """However late the look is over."""
    host = Host()
    host.restarts.do(Spawn(WORKER, 2, "failure"))
    host.restarts.stop()
    host.settle()
    assert host.started == []
