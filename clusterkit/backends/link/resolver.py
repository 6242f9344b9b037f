"""The resolver: finds the addresses of the supervisor's name in a thread, since a name server may take its time."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NamedTuple

from clusterkit.system.barrier import start_thread
from clusterkit.words.events import Crashed


class Address(NamedTuple):
    """One that a name resolves to, as a socket takes it."""

    family: int
    where: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


class Resolver:
    """Resolves a name anew each time. For the poller's thread, in which `answer` is called with addresses or a reason.

    `do` is the poller's.
    """

    def __init__(
        self,
        name: tuple[str, int],
        do: Callable[[Callable[[], None]], None],
        answer: Callable[[list[Address], str], None],
        post: Callable[[Crashed], None],
    ) -> None:
        self._name, self._do, self._answer, self._post = name, do, answer, post
        self.is_busy = False

    def begin(self) -> None:
        """Resolve the name. An address needs no name server: it is answered at once."""
        try:
            self._answer(look_up(self._name, socket.AI_NUMERICHOST), "")
        except (OSError, UnicodeError):
            self.is_busy = True
            start_thread("resolver", self._resolve, self._post)

    def _resolve(self) -> None:
        found, why = list[Address](), ""
        try:
            found = look_up(self._name)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            why = f"its name does not resolve ({reason.rstrip('.')})"
        self._do(lambda: self._resolved(found, why))

    def _resolved(self, found: list[Address], why: str) -> None:
        self.is_busy = False
        self._answer(found, why)


def look_up(name: tuple[str, int], flags: int = 0) -> list[Address]:
    """The addresses of `host` and `port`. Raises OSError, UnicodeError."""
    found = socket.getaddrinfo(*name, type=socket.SOCK_STREAM, flags=flags)
    return [Address(family, where) for family, _, _, _, where in found]
