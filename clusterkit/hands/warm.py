"""Warm starts: a fork server of the run's own, which has imported what tasks import, and the attempts it forks."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from clusterkit.barrier import join, start_thread
from clusterkit.hands.process import ENTRY
from clusterkit.rules.plan import TaskPlan
from clusterkit.rules.warm import Preload
from clusterkit.words.events import Crashed, ForkServerLost, ForkServerReady

PATIENCE = 5.0  # seconds that a fork may take; a server that needs more is given up
TRIES = 3
UP_WITHIN = 120.0  # seconds that the imports may take
Post = Callable[[ForkServerReady | ForkServerLost | Crashed], None]


class NoForkServer(Exception):
    """The fork server is gone or does not answer: the attempt has to start cold."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Where and with what a server starts."""

    python: str
    env: Mapping[str, str]
    preload: Preload
    log: str
    own: Mapping[str, str] = field(default_factory=dict)  # variables that the program sets itself before it imports

    @property
    def whole_env(self) -> dict[str, str]:
        """The server's own environment, which is what the imports see."""
        return {**self.env, **self.own}


class ForkServer:
    """A fork server. A thread waits until it is ready and then for its end, and posts both; `fork` is the loop's."""

    def __init__(self, channel: socket.socket, lifeline: int, pid: int, post: Post, tries: int = TRIES) -> None:
        self.modules: Mapping[str, str] = {}  # that it has imported, and the directory of each
        self.ready = self.gone = False
        self.tries = tries  # servers that are made, this one among them, until one comes up
        self._post = post
        self._channel = channel
        self._lifeline = lifeline
        self._pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._thread = start_thread("fork server", self._attend, post)

    @classmethod
    def start(cls, launch: Launch, post: Post, tries: int) -> ForkServer:
        """Start a server of the run's own. Raises OSError."""
        channel, other = socket.socketpair()
        lifeline, held = os.pipe2(os.O_CLOEXEC)
        try:
            pid = _start(launch, other.fileno(), held)
        except OSError:
            channel.close()
            os.close(lifeline)
            raise
        finally:
            other.close()
            os.close(held)
        return cls(channel, lifeline, pid, post, tries)

    def fork(
        self, plan: TaskPlan, env: Mapping[str, str], output: int, stacks: int, namespaces: Sequence[int] = ()
    ) -> int:
        """Fork a task; return its pid, a child of this process by then. Raises NoForkServer, or OSError as Popen."""
        if not self.ready or self.gone:
            raise NoForkServer
        cwd = os.open(plan.cwd or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        gate, opened = os.pipe2(os.O_CLOEXEC)
        try:
            answer = self._ask(_request(plan, env), [gate, output, stacks, cwd, *namespaces])
            if (number := answer.get("errno")) is not None:
                raise OSError(number, os.strerror(number), plan.python)
            # Until this is written the task waits; where it never is, because the server died, the task ends itself.
            os.write(opened, b"!")
            return int(answer["pid"])
        finally:
            for descriptor in (cwd, gate, opened):
                os.close(descriptor)

    def stop(self) -> None:
        """End it, at once: it has nothing to lose."""
        self.gone = True
        self._kill()
        join(self._thread)
        with suppress(ChildProcessError):  # reaped as one of this process's children already
            os.waitpid(self._pid, 0)
        self._channel.close()
        os.close(self._lifeline)
        os.close(self._pidfd)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _ask(self, request: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self._channel.settimeout(PATIENCE)
        try:
            return exchange(self._channel, request, descriptors)
        except OSError:  # among them what a timeout raises
            self.gone = True
            self._kill()
            raise NoForkServer from None

    def _attend(self) -> None:
        told = _line_of(self._lifeline, UP_WITHIN)
        problem = told.get("problem") if told else None
        if told and not problem:
            self.modules, self.ready = told["modules"], True
            self._post(ForkServerReady(self._pid, told["seconds"]))
            os.read(self._lifeline, 1)  # it writes no more: this is its end
        was_ready, self.gone, self.ready = self.ready, True, False
        self.tries = TRIES if was_ready else 0 if problem else self.tries - 1
        self._kill()
        why = problem or ("it was killed" if was_ready else "it did not come up")
        self._post(ForkServerLost(why, was_ready, self.tries > 0))


def exchange(channel: socket.socket, request: Mapping[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
    """Ask a fork server or a warm server, as fork_server.py says. Raises OSError, also where it ends unanswered."""
    body = json.dumps(request).encode()
    socket.send_fds(channel, [len(body).to_bytes(4, "big")], descriptors)
    channel.sendall(body)
    line = b""
    while not line.endswith(b"\n"):
        if not (more := channel.recv(4096)):
            raise ConnectionResetError("there was no answer")
        line += more
    answer: dict[str, Any] = json.loads(line)
    return answer


def _line_of(descriptor: int, seconds: float) -> dict[str, Any] | None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    data = b""
    while not data.endswith(b"\n"):
        if not poll.poll(seconds * 1000) or not (more := os.read(descriptor, 1 << 16)):
            return None
        data += more
    line: dict[str, Any] = json.loads(data)
    return line


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
    process.returncode = 0  # it is waited for by its pid, and not when this object is collected
    return process.pid


def _request(plan: TaskPlan, env: Mapping[str, str]) -> dict[str, Any]:
    return {
        "parent": os.getpid(),
        "how": plan.kind,
        "argv": [plan.target, *plan.args],
        "command": plan.command,
        "env": dict(env),
    }
