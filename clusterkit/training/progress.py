"""Progress messages to clusterkit's supervisor: one short JSON line each, written without ever blocking."""

from __future__ import annotations

import json
import math
import operator
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from clusterkit.training import roles

# A write of at most PIPE_BUF bytes is atomic, so threads and forks can share the descriptor without a lock.
LINE_LIMIT: Final = 4096
STEP_LIMIT: Final = 2**63


class Number(Protocol):
    """Anything float() takes: a Python number, a numpy or TensorFlow scalar."""

    def __float__(self) -> float: ...


class Channel:
    """The open end of the supervisor's FIFO; a no-op where there is none."""

    def __init__(self, fd: int | None, attempt: int) -> None:
        self._fd = fd
        self._attempt = attempt
        self._progress = b'{"kind":"progress","attempt":%d,"step":' % attempt
        self._unsent: deque[bytes] = deque(maxlen=32)

    def progress(self, step: int) -> None:
        """The fast path: no metrics, no json module."""
        if self._fd is not None:
            self._write(b"%b%d}\n" % (self._progress, step))

    def progress_with(self, step: int, metrics: Mapping[str, Number]) -> None:
        if self._fd is not None:
            self._write(self._progress + b'%d,"metrics":{%b}}\n' % (step, _encode(metrics, LINE_LIMIT - 128)))

    def send(self, kind: str, **fields: object) -> None:
        """Send what must not be lost: where the FIFO is full, it goes ahead of the next message."""
        if self._fd is None:
            return
        line = json.dumps({"kind": kind, "attempt": self._attempt, **fields}, separators=(",", ":")).encode() + b"\n"
        if len(line) < LINE_LIMIT and not self._write(line):
            self._unsent.append(line)

    def _write(self, line: bytes) -> bool:
        assert self._fd is not None
        try:
            while self._unsent:
                self._send_first_unsent(self._fd)
            os.write(self._fd, line)
        except OSError:
            # Full (EAGAIN), or the supervisor is gone (EPIPE). Training matters more than a report: drop it.
            return False
        return True

    def _send_first_unsent(self, fd: int) -> None:
        try:
            line = self._unsent.popleft()
        except IndexError:  # another thread has just sent it
            return
        try:
            os.write(fd, line)
        except OSError:
            self._unsent.appendleft(line)
            raise


class Watched(Channel):
    """A channel whose reports are told to somebody here too, after they are sent."""

    def __init__(self, plain: Channel, call: Callable[[int], None]) -> None:
        self.plain = plain
        self._call = call

    def progress(self, step: int) -> None:
        self.plain.progress(step)
        self._call(step)

    def progress_with(self, step: int, metrics: Mapping[str, Number]) -> None:
        self.plain.progress_with(step, metrics)
        self._call(step)

    def send(self, kind: str, **fields: object) -> None:
        self.plain.send(kind, **fields)


_channel: Channel | None = None
reported = False  # whether the program has reported a step by itself; task/patches/steps.py then sends none


def channel() -> Channel:
    """This process's channel, opened on first use; a forked child goes on with its parent's."""
    global _channel
    if _channel is None:
        _channel = _open()
        if path := os.environ.get("CLUSTERKIT_PROGRESS"):
            from clusterkit.training.requests import listen  # which imports this module

            listen(path)
    return _channel


def on_report(call: Callable[[int], None] | None) -> None:
    """Have each report call this with its step too, or nothing any more; then a report costs what it always does."""
    global _channel
    opened = channel()
    plain = opened.plain if isinstance(opened, Watched) else opened
    _channel = plain if call is None else Watched(plain, call)


def report(step: int, **metrics: Number) -> None:
    """Tell the supervisor that `step` steps are done; a few microseconds, never blocks, no-op outside clusterkit.

    Args:
        step: global steps done, counted from 0; at most 2**63 - 1.
        metrics: scalars, such as ``loss=0.3``; anything float() takes. A TensorFlow scalar on a device is fetched,
            which waits for it. NaN and infinities are sent as null; what is no number or does not fit is left out.

    Raises:
        ValueError: `step` is negative or not an integer.
    """
    global reported
    reported = True
    if type(step) is not int or not 0 <= step < STEP_LIMIT:
        step = _as_step(step)
    target = _channel or channel()
    if metrics:
        target.progress_with(step, metrics)
    else:
        target.progress(step)


def begin_phase(name: str) -> None:
    """Tell the supervisor that something long begins that makes no steps, where `phase` can't be put around it."""
    channel().send("phase", phase=name, begun=True)


def end_phase(name: str) -> None:
    """Tell the supervisor that it is over."""
    channel().send("phase", phase=name, begun=False)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Around something long that makes no steps, so that it does not count as a stall; no-op outside clusterkit.

    `Checkpointer` and `ReportProgress` do it for checkpoints and evaluations. After ten minutes it counts all the same.

    Args:
        name: what it is, such as ``evaluation``.
    """
    begin_phase(name)
    try:
        yield
    finally:
        end_phase(name)


def _open() -> Channel:
    path = os.environ.get("CLUSTERKIT_PROGRESS")
    attempt = roles.attempt()
    if not path:
        return Channel(None, attempt)
    try:
        return Channel(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC), attempt)
    except OSError:  # no FIFO, or nobody reads it: a program must run the same without a supervisor
        return Channel(None, attempt)


def _as_step(step: object) -> int:
    try:
        value = operator.index(step)  # type: ignore[arg-type]  # what it refuses is what we want to know
    except TypeError:
        value = -1
    if not 0 <= value < STEP_LIMIT:
        raise ValueError(f"A step was reported as {step!r}; it must be an integer from 0 up: the steps done so far.")
    return value


def _encode(metrics: Mapping[str, Number], room: int) -> bytes:
    """The inside of a JSON object, at most `room` bytes: a metric that does not fit is left out, later ones may fit."""
    parts: list[bytes] = []
    for name, value in metrics.items():
        number = _as_json(value)
        part = b"" if number is None else f"{json.dumps(name)}:{number}".encode()
        if part and len(part) < room:
            parts.append(part)
            room -= len(part) + 1
    return b",".join(parts)


def _as_json(value: Number) -> str | None:
    """A JSON number, ``null`` for NaN and infinities, None for what is no number."""
    if type(value) is int and abs(value) < STEP_LIMIT:
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return repr(number) if math.isfinite(number) else "null"
