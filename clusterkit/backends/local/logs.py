"""Copies the output of tasks to the attempts' log files and then to viewers."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath

from clusterkit.store.directory import unusable
from clusterkit.system.poller import Poller
from clusterkit.text.lines import last_exception, traceback_start
from clusterkit.text.redraws import TerminalLines
from clusterkit.words.events import Crashed, Drained, StorageFailed
from clusterkit.words.model import Task

CHUNK = 1 << 19
PIPE_SIZE = 1 << 20
LAST_READS = 4  # the number of reads of each pipe in `stop`; the first one empties a pipe that has no writers
KEPT_MEMORY = 1 << 24  # bytes; freed memory that the allocator keeps for later chunks
SWITCH_INTERVAL = 0.0005  # seconds; how long another thread may hold the GIL while the pump is waiting for it
TAIL_BYTES = 1 << 16
TAIL_LINES, MOST_TAIL_LINES = 60, 240  # the number of last lines of a log to keep; the maximum for a long traceback
Post = Callable[[Drained | StorageFailed | Crashed], None]
Viewer = Callable[[Task, int, bytes], None]  # task, attempt, chunk; an empty chunk marks the end of the output


class ArrivalsWriter:
    """Records the order in which output arrives, so that `clusterkit logs` can merge logs. Raises RunDirectoryError."""

    def __init__(self, path: PurePath) -> None:
        self._lines: list[bytes] = []
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(path, error) from None

    def add(self, at: float, task: bytes, attempt: int, size: int) -> None:
        """Record that at the wall time `at` an attempt's log had `size` bytes."""
        self._lines.append(b"%.6f %b %d %d\n" % (at, task, attempt, size))

    def write(self) -> None:
        """Write the added records to the file, or drop the records if writing fails. Raises OSError."""
        lines, self._lines = self._lines, []
        if lines:
            os.write(self._file, b"".join(lines))

    def close(self) -> None:
        os.close(self._file)


@dataclass(slots=True)
class OutputStream:
    """The pipe that one attempt writes to (`source`), and its log (`file`)."""

    task: Task
    attempt: int
    name: bytes
    source: int
    file: int
    written: int = 0


class LogPump:
    """Copies the output of all tasks, byte for byte, in one thread."""

    def __init__(self, post: Post, viewer: Viewer, arrivals: PurePath) -> None:
        self._post = post
        self._arrivals = ArrivalsWriter(arrivals)
        self._viewer = viewer
        self._streams: dict[tuple[Task, int], OutputStream] = {}
        self._full = False
        _tune_process()
        self._poller = Poller("logs", post, self._write_arrivals)
        self._poller.start()

    def open(self, task: Task, attempt: int, path: PurePath) -> int:
        """Create the attempt's log and the pipe for its output; return the pipe's write end. Raises OSError."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            source, sink = os.pipe2(os.O_CLOEXEC)
        except OSError:
            os.close(file)
            raise
        with suppress(OSError):  # the user's limit on pipe memory may be reached
            fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        os.set_blocking(source, False)
        self._poller.do(partial(self._add, OutputStream(task, attempt, str(task).encode(), source, file)))
        return sink

    def close(self, task: Task, attempt: int) -> None:
        """Stop reading an attempt's output, even if the pipe is still open for writing."""
        self._poller.do(partial(self._close, task, attempt))

    def stop(self) -> None:
        """End the thread. If it has failed, save the data left in the pipes. Call this when no task is alive."""
        self._poller.stop()
        for stream in self._streams.values():
            with suppress(OSError):
                for _ in range(LAST_READS):
                    self._write(stream, os.read(stream.source, PIPE_SIZE))
            os.close(stream.source)
            os.close(stream.file)
        with suppress(OSError):
            self._write_arrivals()
        self._arrivals.close()

    def _add(self, stream: OutputStream) -> None:
        self._streams[stream.task, stream.attempt] = stream
        self._poller.watch(stream.source, lambda _: self._copy(stream))

    def _close(self, task: Task, attempt: int) -> None:
        if (stream := self._streams.get((task, attempt))) is not None:
            self._end(stream)

    def _copy(self, stream: OutputStream) -> None:
        try:
            chunk = os.read(stream.source, CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._end(stream)
            return
        self._write(stream, chunk)
        self._viewer(stream.task, stream.attempt, chunk)

    def _write(self, stream: OutputStream, chunk: bytes) -> None:
        try:
            written = os.write(stream.file, chunk)
            while written < len(chunk):
                written += os.write(stream.file, memoryview(chunk)[written:])
        except OSError as error:
            self._failed(f"the log of {stream.task}", error)
            return
        stream.written += len(chunk)
        self._arrivals.add(time.time(), stream.name, stream.attempt, stream.written)

    def _write_arrivals(self) -> None:
        try:
            self._arrivals.write()
        except OSError as error:
            self._failed("the order of the logs", error)

    def _failed(self, what: str, error: OSError) -> None:
        if not self._full:  # report only the first failure, since the output is still read while the run ends
            self._full = True
            self._post(StorageFailed(f"{what} could not be written: {error.strerror}"))

    def _end(self, stream: OutputStream) -> None:
        self._write_arrivals()  # so that followers of the log read all of it before Drained
        del self._streams[stream.task, stream.attempt]
        self._poller.forget(stream.source)
        os.close(stream.source)
        tail = log_tail(stream.file, stream.written)
        os.close(stream.file)
        self._viewer(stream.task, stream.attempt, b"")
        self._post(Drained(stream.task, stream.attempt, *tail))


def log_tail(log: int, size: int) -> tuple[tuple[str, ...], str | None]:
    """Return the last lines of an open log of `size` bytes, and the last uncaught exception in these lines, or None."""
    tail = os.pread(log, TAIL_BYTES, max(0, size - TAIL_BYTES))
    terminal = TerminalLines()
    lines = terminal.feed(tail, 0.0) + terminal.flush()
    exception = last_exception(lines)
    written = [line[:500] for line in lines if line.strip()]
    start = traceback_start(written)
    most = TAIL_LINES if start is None else min(MOST_TAIL_LINES, max(TAIL_LINES, len(written) - start))
    return tuple(written[-most:]), None if exception is None else exception[:1000]


def _tune_process() -> None:
    """Tune the GIL and the allocator of this process; without this, copying chunks takes twice as long."""
    # The pump needs the GIL after each system call. By default it would wait 5 ms each time while the console handles
    # lines, and the tasks would wait for the pump.
    sys.setswitchinterval(SWITCH_INTERVAL)
    # glibc keeps at most twice the size of the largest block freed so far, and returns other free memory to the kernel.
    # The next chunk would then cost a page fault for each page. Freeing one large block raises that limit.
    bytes(KEPT_MEMORY)
