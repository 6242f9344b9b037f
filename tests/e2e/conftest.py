"""Fixtures of the e2e tests: jobs that have to behave alike whether their tasks start warm or cold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import starter
from tests.support import Command, Up
from tests.warm import short_home

MODES = ("warm", "cold")


def pytest_configure(config: pytest.Config) -> None:
    """Markers of these tests."""
    config.addinivalue_line("markers", "both_starts: runs warm, and in `make soak` cold too")
    config.addinivalue_line("markers", "own_servers: starts the servers itself that its tasks are forked from")
    config.addinivalue_line("markers", "cold_too: with both_starts: runs cold in `make test` already")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each of them with every mode."""
    if "start_mode" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_starts"):
        metafunc.parametrize("start_mode", MODES, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything cold would take `make test` too long."""
    for item in items:
        mode = getattr(item, "callspec", None) and item.callspec.params.get("start_mode")  # type: ignore[attr-defined]
        if mode == "cold" and not item.get_closest_marker("cold_too"):
            item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="module")
def start_mode(request: pytest.FixtureRequest) -> str:
    """How tasks start; as the user gets it by default, where a test says nothing."""
    return str(getattr(request, "param", "auto"))


@pytest.fixture(scope="session")
def warm_servers() -> Iterator[Path]:
    """The directory of a warm server with TensorFlow, which spares the tests of a process its import."""
    with short_home() as home:
        begun = Command(home, ("warm", "start"))
        assert begun.wait(120) == 0, begun.output
        yield home / "warm"
        ended = Command(home, ("warm", "stop"))
        assert ended.wait(30) == 0, ended.output


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A state directory of the test's own, with the warm server that tests share unless the test has its own."""
    with short_home() as path:  # sockets are in it
        if not request.node.get_closest_marker("own_servers"):
            path.mkdir(exist_ok=True)
            (path / "warm").symlink_to(request.getfixturevalue("warm_servers"))
        yield path


@pytest.fixture
def up(home: Path, start_mode: str) -> Iterator[Callable[..., Up]]:
    """Start `clusterkit up` with arguments; ended after the test, where the test did not."""
    yield from starter(Up, home, ("up",), variables(start_mode))
    check_starts(home, start_mode)


@pytest.fixture(scope="module")
def shared_up(start_mode: str, warm_servers: Path) -> Iterator[Callable[..., Up]]:
    """As `up`, for runs that several tests look at, with a `--run-id` each; each is over when the first one does."""
    with short_home() as home:
        home.mkdir()
        (home / "warm").symlink_to(warm_servers)
        yield from starter(Up, home, ("up",), variables(start_mode))
        check_starts(home, start_mode)


def variables(start_mode: str) -> dict[str, str]:
    """What has tasks start in this mode."""
    return {"CLUSTERKIT_UP_START": "cold"} if start_mode == "cold" else {}


def check_starts(home: Path, start_mode: str) -> None:
    """All runs started their tasks in this mode."""
    for run in home.glob("runs/*"):
        journal = (run / "journal.jsonl").read_text()
        assert start_mode == "auto" or ('"ForkServerReady"' in journal) == (start_mode == "warm")
        assert start_mode == "auto" or '"StartsCold"' not in journal
