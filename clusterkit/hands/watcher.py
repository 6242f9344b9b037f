"""The watcher: one thread that waits for tasks to end and reads the progress they report."""

from __future__ import annotations

import json
import math
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from clusterkit.hands.process import Child, exit_of
from clusterkit.words.events import Checkpointed, Exited, GuardianLost, Happened, Progressed, Ready, Resumed
from clusterkit.words.model import Task

REST = 0.05  # seconds for which a pipe is left alone after a read: reports are taken in bunches
EVERY = 1.0  # seconds between the steps that are passed on; what else a task reports is passed on at once
LONGEST = 1 << 16  # bytes of a line; what is longer is no report
NO_ROPES: Mapping[int, str] = MappingProxyType({})
Post = Callable[[Happened], None]


@dataclass(slots=True)
class Channel:
    """A task's progress pipe; it outlives the attempts."""

    task: Task
    fd: int
    half: bytes = b""
    pending: Progressed | None = None
    passed_at: float = -EVERY
    attempt: int = 0


@dataclass(slots=True)
class Waiting:
    """An attempt whose end is waited for."""

    task: Task
    attempt: int
    child: Child = field(repr=False)


class Watcher:
    """Epoll over the tasks' pidfds, their progress pipes and the ropes. Sleeps when nothing happens.

    A rope is a pipe that is at its end when the process at the other side is gone; `ropes` tells whose each one is.
    """

    def __init__(self, post: Post, pipes: Mapping[Task, PurePosixPath], ropes: Mapping[int, str] = NO_ROPES) -> None:
        self._post = post
        self._epoll = select.epoll()
        self._known: dict[int, Channel | Waiting] = {}
        self._channels = {task: self._listen(task, path) for task, path in pipes.items()}
        self._resting: dict[int, float] = {}
        self._ropes = ropes
        self._bell, self._ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._epoll.register(self._bell, select.EPOLLIN)
        for rope in ropes:
            self._epoll.register(rope, select.EPOLLIN)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def wait_for(self, task: Task, attempt: int, child: Child) -> None:
        """Post Exited when the attempt's first process has ended."""
        self._known[child.pidfd] = Waiting(task, attempt, child)
        self._epoll.register(child.pidfd, select.EPOLLIN)

    def stop(self) -> None:
        """End the thread and close what it read."""
        self._stopped = True
        os.write(self._ring, b"!")
        self._thread.join()
        for channel in self._channels.values():
            os.close(channel.fd)
        self._epoll.close()
        os.close(self._bell)
        os.close(self._ring)

    def _listen(self, task: Task, path: PurePosixPath) -> Channel:
        # Opened for writing too, so that it never comes to an end between two attempts.
        channel = Channel(task, os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        self._known[channel.fd] = channel
        self._epoll.register(channel.fd, select.EPOLLIN | select.EPOLLONESHOT)
        return channel

    def _run(self) -> None:
        while not self._stopped:
            for fd, _ in self._epoll.poll(self._until_next()):
                self._take(fd)
            self._wake_rested(time.monotonic())
            self._pass_on_due(time.monotonic())

    def _until_next(self) -> float | None:
        due = [*self._resting.values()]
        due += [c.passed_at + EVERY for c in self._channels.values() if c.pending is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _take(self, fd: int) -> None:
        if fd in self._ropes:
            self._epoll.unregister(fd)
            self._post(GuardianLost(self._ropes[fd]))
            return
        known = self._known.get(fd)
        if isinstance(known, Waiting):
            self._ended(fd, known)
        elif isinstance(known, Channel):
            self._read(known)
            self._resting[fd] = time.monotonic() + REST

    def _wake_rested(self, now: float) -> None:
        for fd in [fd for fd, until in self._resting.items() if until <= now]:
            del self._resting[fd]
            self._epoll.modify(fd, select.EPOLLIN | select.EPOLLONESHOT)

    def _ended(self, fd: int, waiting: Waiting) -> None:
        self._epoll.unregister(fd)
        del self._known[fd]
        channel = self._channels[waiting.task]
        self._read(channel)  # what it reported before it ended comes before its end
        self._pass_on(channel)
        self._post(Exited(waiting.task, waiting.attempt, exit_of(waiting.child)))

    def _read(self, channel: Channel) -> None:
        data = channel.half
        with suppress(BlockingIOError):
            while chunk := os.read(channel.fd, 1 << 16):
                data += chunk
        *lines, half = data.split(b"\n")
        channel.half = half[:LONGEST]
        for line in lines:
            self._message(channel, line)
        if channel.pending and time.monotonic() - channel.passed_at >= EVERY:
            self._pass_on(channel)

    def _message(self, channel: Channel, line: bytes) -> None:
        event = parse_report(channel.task, line)
        if isinstance(event, Progressed):
            first = event.attempt != channel.attempt
            channel.pending, channel.attempt = event, event.attempt
            if first:
                self._pass_on(channel)
        elif event is not None:
            self._pass_on(channel)  # what it reported before comes before
            self._post(event)

    def _pass_on_due(self, now: float) -> None:
        for channel in self._channels.values():
            if channel.pending and now - channel.passed_at >= EVERY:
                self._pass_on(channel)

    def _pass_on(self, channel: Channel) -> None:
        if channel.pending is not None:
            self._post(channel.pending)
            channel.pending, channel.passed_at = None, time.monotonic()


def parse_report(task: Task, line: bytes) -> Progressed | Checkpointed | Resumed | Ready | None:
    """Read one line of the progress channel; None for what is no report, since a task may write anything."""
    try:
        message: dict[str, Any] = json.loads(line)
        kind, attempt = message["kind"], int(message["attempt"])
        if kind == "progress":
            metrics = message.get("metrics", {})
            if not isinstance(metrics, dict):
                return None
            return Progressed(task, attempt, int(message["step"]), {k: _number(v) for k, v in metrics.items()})
        if kind == "checkpoint":
            return Checkpointed(task, attempt, int(message["step"]), str(message["path"]))
        if kind == "resumed":
            path = message.get("path")
            return Resumed(task, attempt, int(message["step"]), None if path is None else str(path))
        return Ready(task, attempt) if kind == "ready" else None
    except (ValueError, KeyError, TypeError):
        return None


def _number(value: object) -> float | None:
    """A metric; None for NaN, infinities and what is no number, which JSON does not have."""
    return value if isinstance(value, int | float) and math.isfinite(value) else None
