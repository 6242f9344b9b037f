"""Where the control socket is, also where a run that was killed has left its own."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from clusterkit.store.control import connect, listen
from clusterkit.store.directory import RunDirectory
from clusterkit.system.files import short_path
from clusterkit.words.errors import RunDirectoryError


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run whose directory has too long a path for the address of a socket."""
    directory = tmp_path / ("d" * 60) / ("e" * 60)
    directory.mkdir(parents=True)
    return RunDirectory(directory)


def left_behind(run: RunDirectory) -> Path:
    """A socket as a supervisor leaves it that was killed."""
    listen(run).close()
    return run.control_socket


def test_a_socket_that_was_left_behind_makes_room(run: RunDirectory) -> None:
    """A run id can be used again after a kill -9."""
    path = left_behind(run)
    assert path.is_socket()
    with listen(run) as server, connect(run, 10):
        server.accept()[0].close()


def test_a_socket_that_is_served_stays(run: RunDirectory) -> None:
    """Somebody listens: it belongs to a run that lives."""
    with listen(run):
        with pytest.raises(RunDirectoryError, match="Address already in use"):
            listen(run)
        connect(run, 10).close()


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
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first, short_path(path) as short:
        busy.bind(short)
        busy.listen(0)
        first.connect(short)
        with pytest.raises(RunDirectoryError, match="Address already in use"):
            listen(run)


def test_who_comes_while_many_wait_waits_too(run: RunDirectory) -> None:
    """Until the run accepts, or the time is over; not as an error at once."""
    with listen(run) as server, ExitStack() as stack:
        server.listen(0)
        first = stack.enter_context(connect(run, 10))
        with pytest.raises(BlockingIOError):
            stack.enter_context(connect(run, 0.2))
        accepting = threading.Timer(0.3, lambda: stack.callback(server.accept()[0].close))
        accepting.start()
        second = stack.enter_context(connect(run, 20))
        accepting.join()
        assert (first.gettimeout(), second.gettimeout()) == (10, 20)
