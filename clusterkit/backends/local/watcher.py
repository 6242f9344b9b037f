"""The watcher: one thread that waits for tasks to end and reads their reports."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath

from clusterkit.backends.local.family import AttemptProcess
from clusterkit.backends.local.open_phases import OpenPhases
from clusterkit.backends.local.programs import Programs, sender_of
from clusterkit.backends.local.reports import LONGEST, parse_report
from clusterkit.system import procfs
from clusterkit.system.poller import ONCE, READABLE, Poller
from clusterkit.system.process import AttemptChild, exit_of
from clusterkit.words.events import Exited, Happened, PhaseChanged, Progressed
from clusterkit.words.model import Task

# A pipe "rests" (is not read) between reads, so that reports are read in batches. The first rest takes REST
# seconds; while reports arrive, rests grow to LONGEST_REST. All are powers of 2, so that pipes are read together.
REST, LONGEST_REST = 0.03125, 0.5
GRACE_REST = 0.0625  # seconds between checks of a process group in its grace period
LARGE_READ = 1 << 13  # bytes; after a read of this size, the pipe rests only briefly, so that it does not fill up
EVERY = 1.0  # seconds; the minimum time between posted steps of a task; other reports are posted at once
CHUNK = 1 << 16
MOST_CHUNKS = 16  # the maximum number of chunks in one read of a pipe, since a task may write without end
MOST_SENDERS = 100_000  # the maximum number of programs whose reports are noted, since a task may write anything
SHORT_REST = 0.0078125  # seconds; a pipe's rest while a fault is waiting for a step
Post = Callable[[Happened], None]


@dataclass(slots=True)
class Channel:
    """A task's progress pipe, which all attempts of the task use."""

    task: Task
    fd: int
    partial_line: bytes = b""
    pending: Progressed | None = None
    posted_at: float = -EVERY
    attempt: int = 0
    step_prefix: bytes | None = None  # the prefix of step reports; of several in a row, only the last report is used
    rest: float = REST
    phases: OpenPhases = field(default_factory=OpenPhases)
    programs: Programs = field(default_factory=lambda: Programs(is_alive=lambda pid: not procfs.is_zombie(pid)))


class Watcher:
    """Waits for the tasks' pidfds and reads their progress pipes.

    An empty pipe is polled. A pipe with data is read after each rest, until the pipe is empty and its last step is
    posted. The exit of an attempt is not posted while `in_grace` returns true for its first process.
    """

    def __init__(self, post: Post, in_grace: Callable[[AttemptChild], bool]) -> None:
        self._post_now, self._in_grace = post, in_grace
        self._gathered: list[Happened] | None = None  # the events of this turn, which are posted at its end
        self._poller = Poller("watcher", post, self._read_rested)
        self._handlers: dict[int, Callable[[float], None]] = {}  # handlers, by descriptor; each takes the current time
        self._channels: dict[Task, Channel] = {}
        self._resting: dict[int, float] = {}
        self._senders: set[int] = set()  # the pids of programs that commands started and that sent reports
        self._rest, self._longest_rest, self._every = REST, LONGEST_REST, EVERY
        self._poller.start()

    def listen(self, task: Task, path: PurePath) -> None:
        """Start to read the task's reports from the pipe at `path`. Call this before the task starts."""
        # The pipe is opened for writing too, to avoid an end of file between two attempts.
        channel = Channel(task, os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        self._channels[task] = channel
        self._watch(channel.fd, partial(self._read_channel, channel))

    def begin_line(self, task: Task) -> None:
        """End the partial line that an attempt may have left in the pipe. Call this before the next attempt starts."""
        with suppress(BlockingIOError):  # the pipe is full
            os.write(self._channels[task].fd, b"\n")

    def wait_for(self, task: Task, attempt: int, child: AttemptChild) -> None:
        """Post Exited when the attempt's first process has ended."""
        self._watch(child.pidfd, partial(self._process_ended, AttemptProcess(task, attempt, child)))

    def read_often(self) -> None:
        """From now on read pipes more often, and post the newest step of each read at once."""
        self._poller.do(self._read_often)

    def has_reported(self, pid: int) -> bool:
        """Return whether a program that a command started has reported something. Any thread may call this."""
        return pid in self._senders

    def stop(self) -> None:
        self._poller.stop()
        for channel in self._channels.values():
            os.close(channel.fd)

    def _watch(self, fd: int, handler: Callable[[float], None]) -> None:
        self._handlers[fd] = handler
        self._poller.watch(fd, lambda _: handler(time.monotonic()), READABLE | ONCE)

    def _read_often(self) -> None:
        self._rest, self._longest_rest, self._every = SHORT_REST, SHORT_REST, 0.0
        self._resting = dict.fromkeys(self._resting, 0.0)

    def _read_rested(self) -> float | None:
        """Read the pipes whose rest is over; return the seconds until the next rest ends; None if no pipe rests."""
        now, rest = time.monotonic(), self._rest
        moment = now // rest * rest  # when the reads were due, so that steps are posted at regular intervals
        self._gathered = []
        try:
            for fd in [fd for fd, until in self._resting.items() if until <= now]:
                del self._resting[fd]
                self._handlers[fd](moment)
        finally:
            self._post_gathered()
        return max(0.0, min(self._resting.values()) - time.monotonic()) if self._resting else None

    def _post(self, event: Happened) -> None:
        if self._gathered is None:
            self._post_now(event)
        else:
            self._gathered.append(event)

    def _post_gathered(self) -> None:
        """Post the events of this turn one directly after the other.

        If each was posted when it was read, the loop would wake for the first one, and then take turns with this thread
        for the interpreter: that cost more than what both do.
        """
        gathered, self._gathered = self._gathered or (), None
        for event in gathered:
            self._post_now(event)

    def _read_channel(self, channel: Channel, now: float) -> None:
        size = self._read(channel, now)
        if not size and channel.pending is None:
            self._poller.rearm(channel.fd, READABLE | ONCE)
            return
        channel.rest = self._rest if size >= LARGE_READ else min(2 * channel.rest, self._longest_rest)
        self._resting[channel.fd] = (now // channel.rest + 1) * channel.rest

    def _process_ended(self, waiting: AttemptProcess, _: float) -> None:
        fd = waiting.child.pidfd
        if (exit_ := exit_of(waiting.child)) is None:
            self._resting[fd] = time.monotonic() + LONGEST_REST
            return
        if self._in_grace(waiting.child):
            self._resting[fd] = time.monotonic() + GRACE_REST
            return
        self._poller.forget(fd)
        del self._handlers[fd]
        channel = self._channels[waiting.task]
        now = time.monotonic()
        self._read(channel, now)  # so that the attempt's reports are posted before its exit
        self._post_pending(channel, now)
        channel.rest = self._rest
        self._post(Exited(waiting.task, waiting.attempt, exit_, tuple(waiting.child.signals_sent)))

    def _read(self, channel: Channel, now: float) -> int:
        data = b""
        with suppress(BlockingIOError):
            for _ in range(MOST_CHUNKS):
                data += (chunk := os.read(channel.fd, CHUNK))
                if len(chunk) < CHUNK:  # the pipe is empty
                    break
        if data:
            *lines, half = (channel.partial_line + data).split(b"\n")
            channel.partial_line = half[: LONGEST + 1]  # enough to recognize an over-long line
            # Not strict, since `lines` may be empty.
            for line, following in zip(lines, [*lines[1:], b""], strict=False):
                if not _is_superseded(channel, line, following):
                    self._message(channel, line, now)
        if channel.pending and now - channel.posted_at >= self._every:
            self._post_pending(channel, now)
        return len(data)

    def _message(self, channel: Channel, line: bytes, now: float) -> None:
        event, sender = parse_report(channel.task, line), sender_of(line)
        if event is not None and sender is not None:
            if len(self._senders) < MOST_SENDERS:
                self._senders.add(sender.process)
            event = channel.programs.combine(sender, event)
        if isinstance(event, Progressed):
            first = event.attempt != channel.attempt
            superseded = None if first else channel.pending
            if superseded is not None and not superseded.metrics.keys() <= event.metrics.keys():
                event = replace(event, metrics=event.added_to(superseded.metrics))
            channel.pending, channel.attempt = event, event.attempt
            if first:
                channel.step_prefix = None if sender else b'{"kind":"progress","attempt":%d,' % event.attempt
            if first or line.startswith(b'{"kind":"metrics"'):  # metrics are rare, and later reports do not repeat them
                self._post_pending(channel, now)
        elif isinstance(event, PhaseChanged) and not channel.phases.admits(event):
            return
        elif event is not None:
            self._post_pending(channel, now)  # post the earlier steps first
            self._post(event)

    def _post_pending(self, channel: Channel, now: float) -> None:
        if channel.pending is not None:
            self._post(channel.pending)
            channel.pending, channel.posted_at = None, now


def _is_superseded(channel: Channel, line: bytes, following: bytes) -> bool:
    """Return whether to skip a line: a step report that is followed by another one with at least as many metrics."""
    prefix = channel.step_prefix
    return (
        prefix is not None
        and line.startswith(prefix)
        and following.startswith(prefix)
        and line.count(b'":') <= following.count(b'":')
    )
