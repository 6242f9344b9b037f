"""Progress reports to clusterkit's supervisor: short lines of JSON, written to a FIFO without blocking."""

from __future__ import annotations

import json
import math
import operator
import os
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, SupportsFloat

from clusterkit.training import this_task

# A write of at most PIPE_BUF bytes is atomic, so threads and forks can share the descriptor without a lock.
LINE_LIMIT: Final = 4096
STEP_LIMIT: Final = 2**63
Number = SupportsFloat  # a Python number, or a NumPy or TensorFlow scalar


class ProgressChannel:
    """Writes reports to the supervisor's FIFO, or discards them if `fd` is None, as outside clusterkit."""

    def __init__(self, fd: int | None, attempt: int, sender: Mapping[str, int] | None = None) -> None:
        self._fd = fd
        self._members = {"attempt": attempt, **(sender or {})}
        own = "".join(f'"{name}":{value},' for name, value in self._members.items())
        self._progress = f'{{"kind":"progress",{own}"step":'.encode()
        self._unsent: deque[bytes] = deque(maxlen=32)

    def progress(self, step: int, total: int | None = None) -> None:
        """Report a step without metrics; optimized, since programs call this most often."""
        if self._fd is not None:
            self._write(b"%b%d%b}\n" % (self._progress, step, b"" if total is None else b',"total":%d' % total))

    def progress_with(self, step: int, metrics: Mapping[str, Number], total: int | None = None) -> None:
        """Report a step with metrics; omit metrics that do not fit into the line."""
        if self._fd is not None:
            of = b"" if total is None else b',"total":%d' % total
            self._write(self._progress + b'%d%b,"metrics":{%b}}\n' % (step, of, _encode(metrics, LINE_LIMIT - 160)))

    def send(self, kind: str, **fields: object) -> None:
        """Send a message. If the FIFO is full, keep the message and send it before the next one.

        A message that is too long for an atomic write, such as one with a path of 4,000 characters, is not sent.
        """
        if self._fd is None:
            return
        line = json.dumps({"kind": kind, **self._members, **fields}, separators=(",", ":")).encode() + b"\n"
        if len(line) < LINE_LIMIT and not self._write(line):
            self._unsent.append(line)

    def _write(self, line: bytes) -> bool:
        assert self._fd is not None
        try:
            while self._unsent:
                self._resend(self._fd)
            os.write(self._fd, line)
        except OSError:
            # The FIFO is full (EAGAIN), or the supervisor is gone (EPIPE). Drop the report: training must not wait.
            return False
        return True

    def _resend(self, fd: int) -> None:
        try:
            line = self._unsent.popleft()
        except IndexError:  # another thread has sent the message
            return
        try:
            os.write(fd, line)
        except OSError:
            self._unsent.appendleft(line)
            raise


_channel: ProgressChannel | None = None
_observer: Callable[[int], None] | None = None  # called with the step of each report, after the report is sent
reported = False  # True once the program itself has reported a step; task/patches/steps.py then stops reporting


def channel() -> ProgressChannel:
    """Return this process's channel; the first call opens it. A forked child uses its parent's channel."""
    global _channel
    if _channel is None:
        _channel = _open()
        if path := os.environ.get("CLUSTERKIT_PROGRESS"):
            from clusterkit.training.profiler import listen  # not at the top, since profiler.py imports this module

            listen(path)
    return _channel


def on_report(call: Callable[[int], None] | None) -> None:
    """Call `call` with the step of each report from now on; None removes the callback."""
    global _observer
    _observer = call


def report(step: int, *, total: Number | None = None, **metrics: Number) -> None:
    """Report to the supervisor that `step` steps are done.

        training.report(step, total=1000, loss=loss)

    A call takes a few microseconds and never blocks. Outside clusterkit it does nothing.

    Args:
        step: the number of global steps done, from 0 to 2**63 - 1.
        total: the number of global steps at the end of the training, if known, for the progress bar.
        metrics: scalars, such as ``loss=0.3``; any value that float() accepts. A TensorFlow scalar on a device is
            fetched, which waits for its computation. NaN and infinities are sent as null; values that are not numbers
            or do not fit into the message are omitted.

    Raises:
        ValueError: `step` or `total` is negative, too large or not an integer.
    """
    global reported
    reported = True
    if type(step) is not int or not 0 <= step < STEP_LIMIT:
        step = as_step(step, "training.report(step={!r})", "step")
    of = None if total is None else as_step(total, "training.report(total={!r})", "total")
    target = _channel or channel()
    if metrics:
        target.progress_with(step, metrics, of)
    else:
        target.progress(step, of)
    if (observer := _observer) is not None:  # read once, since another thread may remove the callback
        observer(step)


def begin_phase(name: str) -> None:
    """Report the start of a phase without steps. Use this only where a `with phase(name)` block is not possible."""
    channel().send("phase", phase=name, begun=True)


def end_phase(name: str) -> None:
    channel().send("phase", phase=name, begun=False)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Return a context manager for long work without steps, which then does not count as a stall.

        with training.phase("evaluation"):
            model.evaluate(dataset)

    `Checkpointer` and `ReportProgress` do this for checkpoints and evaluations. A phase longer than ten minutes still
    counts as a stall. Outside clusterkit a phase has no effect.

    Args:
        name: the kind of work, for messages.
    """
    begin_phase(name)
    try:
        yield
    finally:
        end_phase(name)


def _open() -> ProgressChannel:
    fd = None
    if path := os.environ.get("CLUSTERKIT_PROGRESS"):
        with suppress(OSError):  # the FIFO or its reader is gone, but the program must run without a supervisor too
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    return ProgressChannel(fd, this_task.attempt(), _sender() if os.environ.get("CLUSTERKIT_PROGRAMS") else None)


def _sender() -> dict[str, int]:
    """Return what tells this process and its command line from other programs that the task's command starts."""
    line = "\0".join(sys.orig_argv).encode("utf-8", "surrogateescape")
    return {"process": os.getpid(), "program": zlib.crc32(line)}


def as_step(number: object, call: str, name: str) -> int:
    """Return a number of steps as an `int`. Raises ValueError, with `call` in the message, if it is invalid."""
    try:
        value = operator.index(number)  # type: ignore[arg-type]  # raises TypeError for values that are not integers
    except TypeError:
        value = -1
    if not 0 <= value < STEP_LIMIT:
        raise ValueError(f"{call.format(number)} is invalid: {name} must be an integer from 0 up.")
    return value


def _encode(metrics: Mapping[str, Number], room: int) -> bytes:
    """Encode the metrics as members of a JSON object in at most `room` bytes; omit metrics that do not fit."""
    parts: list[bytes] = []
    for name, value in metrics.items():
        number = _as_json(value)
        part = b"" if number is None else f"{json.dumps(name)}:{number}".encode()
        if part and len(part) < room:
            parts.append(part)
            room -= len(part) + 1
    return b",".join(parts)


def _as_json(value: Number) -> str | None:
    """Return a JSON number, ``null`` for NaN and infinities, or None for a value that is not a number."""
    if type(value) is int and abs(value) < STEP_LIMIT:
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return repr(number) if math.isfinite(number) else "null"
