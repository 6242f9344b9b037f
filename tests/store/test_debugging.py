"""The client's end of the debugger's connection."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from clusterkit.store.debugging import DebuggerConnection
from tests.support import wait_until


@pytest.fixture
def ours() -> Iterator[tuple[DebuggerConnection, socket.socket]]:
    """A connection, and the task's end of it."""
    mine, theirs = socket.socketpair()
    connection = DebuggerConnection(mine)
    yield connection, theirs
    connection.close()
    theirs.close()


def test_an_end_interrupts_a_prompt_until_it_is_noticed(ours: tuple[DebuggerConnection, socket.socket]) -> None:
    """An interrupt that comes just before the terminal is read wakes nobody, and a prompt would never end."""
    connection, theirs = ours
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        connection.is_prompting = True
        theirs.close()
        wait_until(lambda: len(came) >= 3, 10, "three interrupts")
        connection.is_prompting = False
        connection._thread.join(5)
        assert not connection._thread.is_alive()  # nobody else sends one
        assert connection.is_over
    finally:
        signal.signal(signal.SIGINT, before)


def test_hostile_messages_are_ignored(ours: tuple[DebuggerConnection, socket.socket]) -> None:
    """The thread that reads them outlives them; nothing is asked of who waits but to read on."""
    connection, theirs = ours
    theirs.sendall(b'\xff\x00\n[1]\n"a"\n{"out": \n' + b"[" * 100_000 + b'\n{"prompt": "(Pdb) "}\n')
    assert connection.next(10) == {"prompt": "(Pdb) "}
    theirs.close()
    assert connection.next(10) is None
    assert connection.next(10) is None
