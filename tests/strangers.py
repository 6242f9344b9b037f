"""Sockets of another user, for tests of who may connect."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

STRANGER = 54321  # nobody's user id here
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can open a socket as another user")


@contextmanager
def as_stranger(uid: int = STRANGER) -> Iterator[None]:
    """What this thread opens meanwhile belongs to another user."""
    libc = ctypes.CDLL(None)
    libc.setfsuid(uid)
    try:
        yield
    finally:
        libc.setfsuid(os.getuid())


def connected(address: tuple[str, int], family: int = socket.AF_INET, uid: int = STRANGER) -> socket.socket:
    """A connection that another user has opened."""
    with as_stranger(uid):
        client = socket.socket(family, socket.SOCK_STREAM)
    client.settimeout(10)
    client.connect(address)
    return client
