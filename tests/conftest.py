"""Fixtures for every test, and the check that nothing is left after it."""

from __future__ import annotations

import ctypes
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import pytest

from clusterkit.system import procfs
from clusterkit.system.ports import port_here
from clusterkit.system.process import PR_SET_CHILD_SUBREAPER, become_subreaper
from tests.commands import Clusterkit
from tests.faults.cast import Cast
from tests.network.nets import Nets
from tests.servers import short_home
from tests.starts import check_starts, variables
from tests.support import Command, Up, processes_of, wait_until

with suppress(ImportError):  # the environments of `make matrix` do not have it
    import hypothesis

    # How long an example takes says something of the machine, not of the code.
    hypothesis.settings.register_profile("clusterkit", deadline=None)
    hypothesis.settings.load_profile("clusterkit")
C = TypeVar("C", bound=Command)
NOTHING: Mapping[str, str] = MappingProxyType({})
KINDS = ("tensorflow", "process")  # the markers of the tests that take the longest: they compute, and they wait


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that compute and those that wait alternate, the longest first; short ones let all workers end together."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    kinds: list[list[list[pytest.Item]]] = [[], [], []]
    for file in sorted(files.values(), key=_length, reverse=True):
        first = (n for n, name in enumerate(KINDS) if any(item.get_closest_marker(name) for item in file))
        kinds[next(first, len(KINDS))].append(file)
    *long, short = ([(n / len(kind), file) for n, file in enumerate(kind)] for kind in kinds)
    ordered = sorted(itertools.chain(*long), key=lambda placed: placed[0]) + short
    items[:] = [item for _, file in ordered for item in file]


def _length(file: list[pytest.Item]) -> tuple[float, int]:
    """How long a file's tests take, as far as one can tell: by the deadline of the slowest, and by their number."""
    deadlines = (item.get_closest_marker("timeout") for item in file)
    return max(deadline.args[0] if deadline else 0.0 for deadline in deadlines), len(file)


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A state directory of the test's own. With TensorFlow, tests share a warm server unless they have their own."""
    if not request.node.get_closest_marker("tensorflow"):
        yield request.getfixturevalue("tmp_path") / "home"
        return
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


@pytest.fixture
def clusterkit(home: Path) -> Iterator[Callable[..., Command]]:
    """Start any `clusterkit` command."""
    yield from starter(Command, home, ())


@pytest.fixture
def ck(home: Path) -> Iterator[Clusterkit]:
    """Call `clusterkit` commands; what they leave running is ended after the test."""
    home.mkdir(parents=True, exist_ok=True)
    called = Clusterkit(home)
    yield called
    called.end()


@pytest.fixture
def cast(tmp_path: Path) -> Iterator[Cast]:
    """An injector and its tasks, ended after the test."""
    made = Cast(tmp_path)
    yield made
    made.end()


@pytest.fixture
def nets(tmp_path: Path) -> Iterator[Nets]:
    """Virtual networks, and guests in them, ended after the test."""
    made = Nets(tmp_path / "switch.log")
    yield made
    made.end()


@pytest.fixture
def subreaper() -> Iterator[None]:
    """The test's process inherits the orphans among its descendants, as a supervisor does."""
    become_subreaper()
    yield
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


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
    wait_until(lambda: not _listened_on(ports, home), 10, "ports are still listened on")


def _listened_on(ports: set[int | None], home: Path) -> frozenset[int]:
    """The ports that are listened on; not those which the system has given to runs of other tests meanwhile."""
    if not (found := procfs.listening_ports() & ports):
        return found
    runs = {pid: procfs.environ(pid).get("CLUSTERKIT_RUN_DIR", "") for pid in procfs.all_pids()}
    others = [pid for pid, run in runs.items() if run and not run.startswith(f"{home}/")]
    return found - {port for pid in others for port in procfs.listening_ports_of(pid)}


def _descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}
