"""Fixtures for every test, and the check that nothing is left after it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import pytest

from clusterkit.system import procfs
from clusterkit.system.ports import port_here
from tests.support import Command, Up, processes_of, wait_until

C = TypeVar("C", bound=Command)
NOTHING: Mapping[str, str] = MappingProxyType({})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state directory of the test's own."""
    return tmp_path / "home"


@pytest.fixture
def up(home: Path) -> Iterator[Callable[..., Up]]:
    """Start `clusterkit up` with arguments; ended after the test, where the test did not."""
    yield from starter(Up, home, ("up",))


@pytest.fixture
def clusterkit(home: Path) -> Iterator[Callable[..., Command]]:
    """Start any `clusterkit` command."""
    yield from starter(Command, home, ())


def starter(
    kind: type[C], home: Path, first: tuple[str, ...], usual: Mapping[str, str] = NOTHING
) -> Iterator[Callable[..., C]]:
    """Start commands that begin with these words and have these variables; end them afterwards."""
    started: list[C] = []

    def start(*args: str | Path, env: Mapping[str, str] = NOTHING, cwd: Path | None = None) -> C:
        started.append(kind(home, (*first, *map(str, args)), {**usual, **env}, cwd))
        return started[-1]

    yield start
    for command in started:
        command.end()
    # A test that failed in the middle leaves the supervisor at its work of ending everything.
    wait_until(lambda: not processes_of(home), 20, f"the end of {processes_of(home)}")


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a process, a listening port, a descriptor or a thread of its runs behind."""
    home: Path | None = request.getfixturevalue("home") if "home" in request.fixturenames else None
    descriptors, threads = _descriptors(), set(threading.enumerate())
    yield
    assert not [thread for thread in threading.enumerate() if thread not in threads and not thread.daemon]
    # Whoever serves pytest's worker opens some for a moment, too.
    wait_until(lambda: len(_descriptors()) <= len(descriptors), 2, lambda: f"closed: {_descriptors() - descriptors}")
    if home is None:
        return
    assert processes_of(home) == {}
    endpoints = [
        end for job in home.glob("runs/*/job.json") for end in json.loads(job.read_text())["endpoints"].values()
    ]
    ports = {port_here(end) for end in endpoints}
    # A dying process has lost its environment, by which it is found, before it closes its sockets.
    wait_until(lambda: not ports & procfs.listening_ports(), 10, "ports are still listened on")


def _descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}
