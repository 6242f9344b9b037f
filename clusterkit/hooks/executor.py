"""The companion that runs hooks' commands, one at a time, until the channel is closed.

It receives lines of JSON with a `number`, the `hook` to run and its `input`. When the command has ended, it answers
with the number and the `problem`, or None. Any other line ends the running command.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import Any, BinaryIO

from clusterkit.companions import tell
from clusterkit.hooks.command import HookCommand
from clusterkit.store.directory import RunDirectory
from clusterkit.system.exchange import parse_line
from clusterkit.system.process import become_subreaper

KEPT = 1 << 20  # bytes of one command's output
LOG_MOST = 16 << 20  # bytes of the log; after that, no output is kept
CHUNK = 1 << 16


def serve(run: RunDirectory, channel: socket.socket, cwd: str, bound: str, *words: str) -> None:
    """Run the requested ones of the commands HOOK=COMMAND in `words`, each within `bound` seconds.

    The process is not tied to its parent, after whose death it first has to end its command.
    """
    become_subreaper()
    commands, received = dict(word.split("=", 1) for word in words), b""
    while data := channel.recv(CHUNK):
        *lines, received = (received + data).split(b"\n")
        for line in lines:
            match parse_line(line):
                case {"number": int(number), "hook": str(hook), "input": str(given)} if hook in commands:
                    env = {**os.environ, "CLUSTERKIT_EVENT": hook}
                    command = HookCommand(commands[hook], given.encode(), cwd, env, float(bound), _room(run))
                    problem = _logged(run, f"on-{hook} {number}", command, channel)
                    tell(channel, {"number": number, "problem": problem})


def _room(run: RunDirectory) -> int:
    try:
        return max(0, min(KEPT, LOG_MOST - run.hooks_log.stat().st_size))
    except OSError:
        return KEPT


def _logged(run: RunDirectory, name: str, command: HookCommand, channel: socket.socket) -> str | None:
    try:
        log: BinaryIO = run.hooks_log.open("ab", buffering=0)
    except OSError as error:
        return f"was not run: {error.strerror} ({error.filename})"
    with log:
        began = time.monotonic()
        _line(log, f"--- {name}, {time.strftime('%Y-%m-%d %H:%M:%S')}")
        problem = command.run(log, channel.fileno())
        _line(log, f"--- {name} {problem or 'exited with code 0'} ({time.monotonic() - began:.1f} s)")
    return problem


def _line(log: Any, text: str) -> None:
    with suppress(OSError):
        log.write(f"{text}\n".encode(errors="replace"))
