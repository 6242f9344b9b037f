"""The client of the control socket, where the run is just starting or its supervisor is gone."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.store import control
from clusterkit.store.control import Client, NotLive
from clusterkit.store.directory import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    """A live run."""
    made = RunDirectory(tmp_path / "r")
    made.make()
    lock = made.lock()
    yield made
    os.close(lock)


def refusing(monkeypatch: pytest.MonkeyPatch, *errors: int) -> list[int]:
    """Connections fail with these errors, and then succeed; the errors that are left."""
    left = list(errors)

    def connect(run: RunDirectory, timeout: float) -> socket.socket:
        if left:
            raise OSError(number := left.pop(0), os.strerror(number))
        one, other = socket.socketpair()
        other.close()
        return one

    monkeypatch.setattr(control, "connect", connect)
    return left


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ECONNREFUSED])
def test_a_run_that_does_not_listen_yet_is_waited_for(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It is live before it has a socket; one that a killed supervisor left answers nobody."""
    left = refusing(monkeypatch, number, number, number)
    Client(run).close()
    assert left == []


def test_the_wait_for_the_socket_is_bounded(run: RunDirectory) -> None:
    """Then it is said what the run may be doing."""
    with pytest.raises(NotLive, match="The run r does not answer yet: it is still starting"):
        Client(run, timeout=0.05)


def test_another_error_is_told_at_once(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting would not help."""
    left = refusing(monkeypatch, errno.EACCES, errno.EACCES)
    with pytest.raises(NotLive, match="The run r does not answer: Permission denied"):
        Client(run)
    assert len(left) == 1


def test_a_run_that_ends_before_it_listens_is_not_waited_for(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not live any more."""
    lives = [True, True, False]
    monkeypatch.setattr(RunDirectory, "is_live", lambda self: lives.pop(0))
    with pytest.raises(NotLive, match="The run r is not live"):
        Client(run)
