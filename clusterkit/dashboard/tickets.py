"""Tickets: each opens one file for half a minute, where the browser asks by itself and sends no token."""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable

VALID = 30.0  # seconds
_FILE = re.compile(r"/api/run/[^/]+/file/[^/]+/[^/]+")
_TICKET = re.compile(r"(\d{1,12})\.([0-9a-f]{64})", re.ASCII)


class Tickets:
    """The tickets of one server. They hold all that there is to know, so that none has to be kept."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = secrets.token_bytes(32)
        self._clock = clock

    def issue(self, path: str) -> str:
        """A ticket for the path of a file; for any other path, an empty text."""
        until = int(self._clock() + VALID)
        return f"{until}.{self._seal(until, path)}" if _FILE.fullmatch(path) else ""

    def admits(self, ticket: str, path: str) -> bool:
        """Whether the ticket is one for this path, and its time is not over."""
        found = _TICKET.fullmatch(ticket)
        if found is None or not _FILE.fullmatch(path):
            return False
        until = int(found[1])
        return hmac.compare_digest(self._seal(until, path), found[2]) and self._clock() <= until

    def _seal(self, until: int, path: str) -> str:
        return hmac.digest(self._key, f"{until} {path}".encode("utf-8", "surrogatepass"), "sha256").hex()
