"""Logs: copies every byte that tasks write to their attempts' files and then to viewers, and finds steps in it."""

from __future__ import annotations

import fcntl
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath

from clusterkit.backends.local.watcher import EVERY
from clusterkit.store.directory import unusable
from clusterkit.system.poller import Poller
from clusterkit.text.lines import LineSplitter, last_exception, traceback_start
from clusterkit.text.redraws import TerminalLines
from clusterkit.words.events import Crashed, Drained, Impaired, Progressed, StorageFailed
from clusterkit.words.model import Task

CHUNK = 1 << 19
PIPE_SIZE = 1 << 20
READS = 4  # of a pipe without writers, of which one empties it
KEPT = 1 << 24  # bytes of freed memory that the allocator keeps for later chunks
SWITCH = 0.0005  # seconds for which another thread may hold the interpreter's lock while the pump needs it
TAIL_BYTES = 1 << 16
TAIL_LINES, MOST_TAIL_LINES = 60, 240  # the latter if the last traceback is that long
Post = Callable[[Drained | StorageFailed | Crashed], None]
Viewer = Callable[[Task, int, bytes], None]  # an empty chunk is the end of the attempt's output
SLOW = 2.0  # seconds of CPU time for one chunk of output (512 KiB at most): the searches delay the supervisor
_GIVEN_UP = (
    "Searching the output of {} with --progress-regex takes too long ({:.0f} s for one piece of it), so no steps are "
    "read from the logs any more. Start the run again with a simpler regular expression."
)


class ArrivalsWriter:
    """Records the order in which output arrived, by which `logs` merges the tasks' files. Raises RunDirectoryError."""

    def __init__(self, path: PurePath) -> None:
        self._lines: list[bytes] = []
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(path, error) from None

    def add(self, at: float, task: bytes, attempt: int, size: int) -> None:
        """Add that an attempt's log had this size at this wall time."""
        self._lines.append(b"%.6f %b %d %d\n" % (at, task, attempt, size))

    def write(self) -> None:
        """Write the added records; drop them if that fails. Raises OSError."""
        lines, self._lines = self._lines, []
        if lines:
            os.write(self._file, b"".join(lines))

    def close(self) -> None:
        os.close(self._file)


@dataclass(slots=True)
class OutputStream:
    """The output of one attempt on its way to its file."""

    task: Task
    attempt: int
    name: bytes
    source: int
    file: int
    written: int = 0


class LogPump:
    """One thread that moves the output of all tasks, byte by byte as they wrote it."""

    def __init__(self, post: Post, viewer: Viewer, arrivals: PurePath) -> None:
        self._post = post
        self._arrivals = ArrivalsWriter(arrivals)
        self._viewer = viewer
        self._streams: dict[tuple[Task, int], OutputStream] = {}
        self._full = False
        _make_fast()
        self._poller = Poller("logs", post, self._note)
        self._poller.start()

    def open(self, task: Task, attempt: int, path: PurePath) -> int:
        """Create the attempt's log and a pipe to it; return the task's end of the pipe. Raises OSError."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            source, sink = os.pipe2(os.O_CLOEXEC)
        except OSError:
            os.close(file)
            raise
        with suppress(OSError):  # the user's share of pipe memory may be used up
            fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        os.set_blocking(source, False)
        self._poller.do(partial(self._add, OutputStream(task, attempt, str(task).encode(), source, file)))
        return sink

    def close(self, task: Task, attempt: int) -> None:
        """Stop waiting for the end of an attempt's output."""
        self._poller.do(partial(self._close, task, attempt))

    def stop(self) -> None:
        """End the thread, and save the rest of the pipes, in case the thread has failed. For when no task is left."""
        self._poller.stop()
        for stream in self._streams.values():
            with suppress(OSError):
                for _ in range(READS):
                    self._keep(stream, os.read(stream.source, PIPE_SIZE))
            os.close(stream.source)
            os.close(stream.file)
        with suppress(OSError):
            self._note()
        self._arrivals.close()

    def _add(self, stream: OutputStream) -> None:
        self._streams[stream.task, stream.attempt] = stream
        self._poller.watch(stream.source, lambda _: self._move(stream))

    def _close(self, task: Task, attempt: int) -> None:
        if (stream := self._streams.get((task, attempt))) is not None:
            self._end(stream)

    def _move(self, stream: OutputStream) -> None:
        try:
            chunk = os.read(stream.source, CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._end(stream)
            return
        self._keep(stream, chunk)
        self._viewer(stream.task, stream.attempt, chunk)

    def _keep(self, stream: OutputStream, chunk: bytes) -> None:
        try:
            written = os.write(stream.file, chunk)
            while written < len(chunk):
                written += os.write(stream.file, memoryview(chunk)[written:])
        except OSError as error:
            self._failed(f"the log of {stream.task}", error)
            return
        stream.written += len(chunk)
        self._arrivals.add(time.time(), stream.name, stream.attempt, stream.written)

    def _note(self) -> None:
        try:
            self._arrivals.write()
        except OSError as error:
            self._failed("the order of the logs", error)

    def _failed(self, what: str, error: OSError) -> None:
        if not self._full:  # reported once; the job is being stopped, and its output still has to be read
            self._full = True
            self._post(StorageFailed(f"{what} could not be written: {error.strerror}"))

    def _end(self, stream: OutputStream) -> None:
        self._note()  # so that followers read everything before the end
        del self._streams[stream.task, stream.attempt]
        self._poller.forget(stream.source)
        os.close(stream.source)
        words = last_words(stream.file, stream.written)
        os.close(stream.file)
        self._viewer(stream.task, stream.attempt, b"")
        self._post(Drained(stream.task, stream.attempt, *words))


def last_words(log: int, size: int) -> tuple[tuple[str, ...], str | None]:
    """Return the last lines of an open log of `size` bytes, and the last uncaught exception in them, or None."""
    tail = os.pread(log, TAIL_BYTES, max(0, size - TAIL_BYTES))
    terminal = TerminalLines()
    lines = terminal.feed(tail, 0.0) + terminal.flush()
    exception = last_exception(lines)
    written = [line[:500] for line in lines if line.strip()]
    start = traceback_start(written)
    most = TAIL_LINES if start is None else min(MOST_TAIL_LINES, max(TAIL_LINES, len(written) - start))
    return tuple(written[-most:]), None if exception is None else exception[:1000]


def _make_fast() -> None:
    """Change settings of this process without which moving chunks takes twice as long."""
    # The pump needs the interpreter again after each system call. While the console handles lines, it would wait 5 ms
    # each time, and so would the tasks.
    sys.setswitchinterval(SWITCH)
    # glibc returns freed memory beyond twice the largest block that was ever freed to the kernel, and would get it back
    # for the next chunk with a fault for each page. So a large block is freed once.
    bytes(KEPT)


class StepReader:
    """Searches output for steps, and posts the newest one of each task at most every `every` seconds."""

    def __init__(self, regex: str, post: Callable[[Progressed | Impaired], None], every: float = EVERY) -> None:
        from clusterkit.job.step_regex import step_in

        self._step_in = partial(step_in, re.compile(regex))
        self._every = every
        self._post = post
        self._splitters: dict[tuple[Task, int], LineSplitter] = {}
        self._last: dict[tuple[Task, int], float] = {}
        self._pending: dict[tuple[Task, int], int] = {}
        self._given_up = False

    def feed(self, task: Task, attempt: int, chunk: bytes) -> None:
        """Search a chunk of an attempt's output; an empty chunk is its end."""
        if self._given_up:
            return
        key = (task, attempt)
        splitter = self._splitters.setdefault(key, LineSplitter())
        lines = splitter.feed(chunk) if chunk else splitter.flush()
        self._search(key, [line for line, _ in lines])
        due = not chunk or key not in self._last or time.monotonic() - self._last[key] >= self._every
        if due and (step := self._pending.pop(key, None)) is not None:
            self._last[key] = time.monotonic()
            self._post(Progressed(task, attempt, step))
        if not chunk:
            del self._splitters[key]
            self._last.pop(key, None)

    def _search(self, key: tuple[Task, int], lines: list[str]) -> None:
        began = time.thread_time()
        for line in lines:
            if (step := self._step_in(line)) is not None:
                self._pending[key] = step
            # A running search can't be interrupted, but no further search is started.
            if (took := time.thread_time() - began) > SLOW:
                self._given_up = True
                self._post(Impaired(_GIVEN_UP.format(key[0], took)))
                return
