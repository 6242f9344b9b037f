"""Companions: processes that accompany a run, such as TensorBoard. Their main program, and the supervisor's side."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from clusterkit.store.directory import RunDirectory
from clusterkit.system.barrier import join, start_thread
from clusterkit.system.exchange import parse_line
from clusterkit.system.process import Helper, code_of, own_python
from clusterkit.task.entry import die_with_parent
from clusterkit.words.events import Crashed

LOOK_EVERY = 0.05  # seconds between checks whether a companion has ended
STAYS = {"stays": True}  # a companion sends this when the channel is closed, if it goes on for a limited time


def main() -> None:
    """Call the module's `serve`, which returns once the channel is closed; then exit with `os._exit`, which is fast."""
    module, run, descriptor, niceness, parent, *arguments = sys.argv[1:]
    channel = socket.socket(fileno=int(descriptor))
    channel.set_inheritable(False)
    if int(parent):
        die_with_parent(int(parent))
    os.nice(int(niceness))
    try:
        import_module(module).serve(RunDirectory(Path(run)), channel, *arguments)
    except (Exception, SystemExit) as error:
        tell_lost(channel, error)
        os._exit(1)
    os._exit(0)


def tell(channel: socket.socket, message: object) -> None:
    """Send a line of JSON to the supervisor. Do nothing if the supervisor has closed the channel."""
    with suppress(OSError):
        channel.sendall(json.dumps(message).encode() + b"\n")


def tell_lost(channel: socket.socket, error: BaseException) -> None:
    """Log the current exception, and send its first line to the supervisor as the reason for the failure."""
    traceback.print_exc()
    tell(channel, {"lost": (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")})


@dataclass(frozen=True, slots=True)
class Script:
    """How to start a companion. Its log is named after `name`; `serve` in `module` is called with `arguments`."""

    name: str
    module: str
    run: RunDirectory
    arguments: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)  # added to this process's environment
    niceness: int = 0
    tied: bool = True  # True to kill the companion when this process ends

    def argv(self, channel: int) -> Sequence[str]:
        parent = os.getpid() if self.tied else 0
        own = (self.module, self.run.path, channel, self.niceness, parent)
        # -P: modules in the working directory must not shadow clusterkit's.
        return own_python("-c", code_of("clusterkit.companions"), *map(str, own), *self.arguments)


class Companion:
    """A process whose JSON messages are passed to `heard`. `ended` is called if the process ends by itself.

    `heard` and `ended` are called in a thread, which ends when the process closes the channel. Create a Companion in a
    thread that lives as long as this process, since the parent-death signal is tied to that thread.
    Raises OSError if the process can't be started.
    """

    def __init__(
        self, script: Script, heard: Callable[[Any], None], ended: Callable[[], None], post: Callable[[Crashed], None]
    ) -> None:
        self._heard, self._ended = heard, ended
        self._stopped = False
        self._stays = False
        self._helper = Helper(script.argv, script.run.path / f"{script.name}.log", script.env)
        self.pid, self._channel = self._helper.pid, self._helper.channel
        self._thread = start_thread(script.name, self._listen, post)

    def send(self, message: Any) -> None:
        """Send the process a short line of JSON. Raises OSError if the process has ended."""
        self._channel.sendall(json.dumps(message).encode() + b"\n")

    def stop(self, within: float) -> None:
        """Close the channel, so that the process ends, and kill the process after `within` seconds.

        A process that says that it stays is left behind.
        """
        if self._stopped:
            return
        self._stopped = True
        self._channel.shutdown(socket.SHUT_WR)
        until = time.monotonic() + within
        while not (self._stays or self._helper.has_ended(LOOK_EVERY)) and time.monotonic() < until:
            pass
        if self._stays:
            self._helper.leave()
        else:
            self._helper.end(0)
        join(self._thread)
        self._channel.close()

    def _listen(self) -> None:
        # The connection is reset if the process ends before it has read all messages.
        with self._channel.makefile("rb") as lines, suppress(ConnectionResetError):
            for line in lines:
                message = parse_line(line)
                if message == STAYS:
                    self._stays = True
                else:
                    self._heard(message)
        if not self._stopped:
            self._ended()


class ServerProcess:
    """A companion that listens on an address. Calls `ready` with the address, or `lost` with the reason for a failure.

    Both are called in another thread, except that `lost` is called in this one if the process can't be started.
    """

    def __init__(
        self,
        script: Script,
        ready: Callable[[str], None],
        lost: Callable[[str], None],
        post: Callable[[Crashed], None],
        end_within: float,
    ) -> None:
        self._ready, self._lost, self._within = ready, lost, end_within
        self._log = script.run.path / f"{script.name}.log"
        self._is_lost = False
        self._companion: Companion | None = None
        try:
            self._companion = Companion(script, self._heard, self._ended, post)
        except OSError as error:
            lost(f"its process can't be started ({error.strerror})")

    def stop(self) -> None:
        if self._companion is not None:
            self._companion.stop(self._within)

    def _heard(self, message: Any) -> None:
        match message:
            case {"address": str(address)}:
                self._ready(address)
            case {"lost": str(why)}:
                self._is_lost = True
                self._lost(f"{why} (its log: {self._log})")

    def _ended(self) -> None:
        if not self._is_lost:
            self._lost(f"its process has ended (its log: {self._log})")
