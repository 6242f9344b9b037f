"""Starts fork servers: the settings, the process, and the descriptors to reach it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterkit.task.entry import ENTRY
from clusterkit.warm.servable import Preload


@dataclass(frozen=True, slots=True)
class Launch:
    """How a fork server or warm server starts."""

    python: str
    env: Mapping[str, str]
    preload: Preload
    log: str
    own: Mapping[str, str | None] = field(default_factory=dict)  # variables that the program sets before its imports

    @property
    def whole_env(self) -> dict[str, str]:
        return {name: value for name, value in {**self.env, **self.own}.items() if value is not None}


class Inherited(NamedTuple):
    """A started fork server: its pid, and the descriptors to reach it. This process or a warm server is its parent."""

    pid: int
    channel: int
    lifeline: int


def begin(launch: Launch) -> Inherited:
    """Start a fork server as a child of this thread, without waiting for its imports. Raises OSError."""
    channel, other = socket.socketpair()
    lifeline, held = os.pipe2(os.O_CLOEXEC)
    try:
        return Inherited(_start(launch, other.fileno(), held), channel.detach(), lifeline)
    except OSError:
        channel.close()
        os.close(lifeline)
        raise
    finally:
        other.close()
        os.close(held)


def _start(launch: Launch, channel: int, lifeline: int) -> int:
    preload = launch.preload
    options = {
        "lifeline": lifeline,
        "tensorflow": preload.tensorflow,
        "preload": preload.modules,
        "path": preload.path,
    }
    output = os.open(launch.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [launch.python, ENTRY, str(os.getpid()), str(channel), "serve", json.dumps(options)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=launch.whole_env,
            start_new_session=True,
            pass_fds=(channel, lifeline),
        )
    finally:
        os.close(output)
    process.returncode = 0  # stop() waits for the pid; Popen must not, when it is garbage-collected
    return process.pid
