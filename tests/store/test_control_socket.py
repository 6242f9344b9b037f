"""Where the control socket is, also where a run that was killed has left its own."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from clusterkit.store.control import connect, listen, remove_stale
from clusterkit.store.directory import RunDirectory
from clusterkit.words.errors import RunDirectoryError


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDirectory]:
    """A run whose directory has too long a path for a socket; the short one is removed after the test."""
    directory = tmp_path / ("d" * 60) / ("e" * 60)
    directory.mkdir(parents=True)
    yield RunDirectory(directory)
    if (directory / "control.path").exists():
        Path((directory / "control.path").read_text()).unlink(missing_ok=True)


def left_behind(run: RunDirectory) -> Path:
    """A socket as a supervisor leaves it that was killed."""
    server, _ = listen(run)
    server.close()
    return Path(run.control_path.read_text())


def test_a_socket_that_was_left_behind_makes_room(run: RunDirectory) -> None:
    """A run id can be used again after a kill -9."""
    path = left_behind(run)
    assert path.is_socket()
    server, unlink = listen(run)
    with server, connect(run, 10):
        server.accept()[0].close()
    unlink()
    assert not path.exists()


def test_a_socket_that_is_served_stays(run: RunDirectory) -> None:
    """Somebody listens: it belongs to a run that lives, in another container."""
    server, unlink = listen(run)
    with server:
        with pytest.raises(RunDirectoryError, match="Address already in use"):
            listen(run)
        connect(run, 10).close()
    unlink()


def test_what_is_no_socket_stays(run: RunDirectory) -> None:
    """Nothing but a socket is removed."""
    path = left_behind(run)
    path.unlink()
    path.write_text("mine")
    with pytest.raises(RunDirectoryError, match="Cannot create"):
        listen(run)
    assert path.read_text() == "mine"


def test_a_full_queue_of_connections_is_not_stale(run: RunDirectory) -> None:
    """A live server that is too busy to accept is one."""
    path = left_behind(run)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(str(path))
        busy.listen(0)
        first.connect(str(path))
        with pytest.raises(RunDirectoryError, match="Address already in use"):
            listen(run)


def test_who_comes_while_many_wait_waits_too(run: RunDirectory) -> None:
    """Until the run accepts, or the time is over; not as an error at once."""
    server, unlink = listen(run)
    server.listen(0)
    with server, ExitStack() as stack:
        first = stack.enter_context(connect(run, 10))
        with pytest.raises(BlockingIOError):
            stack.enter_context(connect(run, 0.2))
        accepting = threading.Timer(0.3, lambda: stack.callback(server.accept()[0].close))
        accepting.start()
        second = stack.enter_context(connect(run, 20))
        accepting.join()
        assert (first.gettimeout(), second.gettimeout()) == (10, 20)
    unlink()


def test_sockets_of_killed_runs_do_not_pile_up(tmp_path: Path) -> None:
    """Old ones on which nothing listens are removed; a served one, a new one and what is no socket stay."""
    old, served, new, other = (tmp_path / f"{name}.sock" for name in ("old", "served", "new", "other"))
    other.write_text("mine")
    with ExitStack() as stack:
        for path in (old, served, new):
            server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            server.bind(str(path))
            if path is served:
                server.listen()
        for path in (old, served, other):
            os.utime(path, (1000.0, 1000.0))
        remove_stale(tmp_path, 2000.0)
        assert [path.exists() for path in (old, served, new, other)] == [False, True, True, True]


@pytest.mark.parametrize("written", [b"", b"\xff\xfe", b"/" + b"x" * 5000])
def test_a_path_that_is_none_leads_nowhere(tmp_path: Path, written: bytes) -> None:
    """What stands in a run's directory may be damaged."""
    run = RunDirectory(tmp_path)
    run.control_path.write_bytes(written)
    with pytest.raises(OSError):
        connect(run, 0.1)
