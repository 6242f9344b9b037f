"""A companion: a helper process beside a run, such as TensorBoard's, joined to this one by a channel."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterkit.system.barrier import join, start_thread
from clusterkit.system.exchange import parse_line
from clusterkit.system.process import end_helper, start_helper
from clusterkit.words.events import Crashed


@dataclass(frozen=True, slots=True)
class Script:
    """What a companion is: its name, its command for a channel's descriptor, its log, and what its environment adds."""

    name: str
    argv: Callable[[int], Sequence[str]]
    log: Path
    env: Mapping[str, str]


class Companion:
    """A process that sends lines of JSON, each of which `heard` gets; `ended` is called if it ends by itself.

    Both are called in a thread. Create it in a thread that lives as long as this process: the parent-death signal is
    tied to that thread. Raises OSError if the process can't be started.

    Why not a Poller: the thread reads one channel, and ends when the process closes it.
    """

    def __init__(
        self, script: Script, heard: Callable[[Any], None], ended: Callable[[], None], post: Callable[[Crashed], None]
    ) -> None:
        self._heard, self._ended = heard, ended
        self._stopped = False
        self._channel, other = socket.socketpair()
        try:
            with other, script.log.open("ab") as log:
                argv = script.argv(other.fileno())
                self._process = start_helper(argv, other.fileno(), log.fileno(), {**os.environ, **script.env})
        except OSError:
            self._channel.close()
            raise
        self._pidfd = os.pidfd_open(self._process.pid)
        self._thread = start_thread(script.name, self._listen, post)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, message: Any) -> None:
        """Send the process a line of JSON, which has to be small. Raises OSError if the process has ended."""
        self._channel.sendall(json.dumps(message).encode() + b"\n")

    def stop(self, within: float) -> None:
        """Ask the process to end by closing the channel, and kill it after `within` seconds."""
        if self._stopped:
            return
        self._stopped = True
        self._channel.shutdown(socket.SHUT_WR)
        end_helper(self._process, self._pidfd, within)
        join(self._thread)
        os.close(self._pidfd)
        self._channel.close()

    def _listen(self) -> None:
        for line in self._lines():
            self._heard(parse_line(line))
        if not self._stopped:
            self._ended()

    def _lines(self) -> Iterator[bytes]:
        """Until the process closes the channel, or ends with something unread in it."""
        with self._channel.makefile("rb") as lines, suppress(ConnectionResetError):
            yield from lines
