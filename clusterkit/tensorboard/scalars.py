"""Converts a run's events to scalars, writes them to TensorBoard's event files, and serves TensorBoard to this user.

The event files are in `tensorboard/clusterkit/<task>`. The package `tensorboard` is imported lazily and without
TensorFlow: that import takes seconds and half a gigabyte, and has no advantage for local files.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from clusterkit.ledger.ledger import Ledger
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.system.meter import Meter
from clusterkit.task.peers import is_own
from clusterkit.words.events import Event, Exited, Progressed
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

EVERY = 2.0  # seconds between samples
NO_USAGE: Mapping[Task, tuple[float, int]] = {}
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
# Any port is accepted, since a tunnel may use a different port.
_OWN = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
REFUSAL = b"TensorBoard answers to no other host than 127.0.0.1 and localhost.\n"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A point of a series. `step` is the training step for a metric, and seconds since the run's start otherwise."""

    task: Task
    tag: str
    value: float
    step: int
    at: float  # wall time


class ScalarConverter:
    """Converts events to scalars, one event at a time. A restarted task continues its series."""

    def __init__(self, job: JobSpec | None) -> None:
        self._ledger = Ledger(job)
        self.status = self._ledger.run
        self._sampled = 0.0

    def take(self, at: float, event: Event) -> Iterator[Scalar]:
        """Yield the metrics that an event reports, preceded by a sample of all tasks if a sample is due.

        A sample is due every EVERY seconds and before a task's exit.
        """
        if at - self._sampled >= EVERY or isinstance(event, Exited):
            yield from self.sample(at)
        self._ledger.add(at, event)
        if isinstance(event, Progressed):
            for name, value in event.metrics.items():
                if value is not None:
                    yield Scalar(event.task, name, value, event.step, at)

    def sample(self, at: float, usage: Mapping[Task, tuple[float, int]] = NO_USAGE) -> Iterator[Scalar]:
        """Yield each task's step, speed and usage. `usage` has each task's percentage of a core and bytes of memory."""
        self._sampled = at
        if self.status.began_at is None:
            return
        seconds = max(0, round(at - self.status.began_at))
        for task, of in self.status.tasks.items():
            values = {"step": of.step if of.alive else None, "steps_per_second": of.speed(at)}
            if task in usage:
                values["cpu_percent"], values["memory_bytes"] = usage[task]
            for name, value in values.items():
                if value is not None:
                    yield Scalar(task, f"task/{name}", value, seconds, at)


class ScalarWriter:
    """Writes the scalars of each event of a run once, even if several processes write in turn.

    The file `written` contains the journal offset up to which events have been written. The writing process locks it.
    """

    def __init__(self, run: RunDirectory) -> None:
        info = run.info()
        self._directory = run.tensorboard / "clusterkit"
        self._series = ScalarConverter(info.job if info else None)
        self._journal = JournalReader(run)
        self._meter = Meter()
        self._record: int | None = None
        self._before = 0  # the offset up to which earlier processes have written
        self._writers: dict[Task, Any] = {}

    def update(self, live: bool) -> None:
        """Write new events and, for a live run, the tasks' current usage of CPU and memory. Raises OSError."""
        if self._record is None and not self._claim():
            return
        for entry in self._journal.new():
            if (event := entry.event()) is not None:
                scalars = list(self._series.take(*event))
                self._add(scalars if entry.offset > self._before else ())
        if live:
            self._add(self._series.sample(time.time(), self._meter.sample(self._series.status.pids)))
        for writer in self._writers.values():
            writer.flush()
        assert self._record is not None
        os.pwrite(self._record, b"%d\n" % max(self._journal.offset, self._before), 0)

    def _claim(self) -> bool:
        """Lock the file `written`; return False if another process holds the lock. Raises OSError."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        record = os.open(self._directory / "written", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(record)
            return False
        self._record = record
        text = os.pread(record, 32, 0)
        self._before = int(text) if text.strip().isdigit() else 0
        return True

    def _add(self, scalars: Iterable[Scalar]) -> None:
        for scalar in scalars:
            if scalar.task not in self._writers:
                self._writers[scalar.task] = open_writer(self._directory / str(scalar.task))
            self._writers[scalar.task].add_event(event_of(scalar))


def for_own_names(application: Application) -> Application:
    """Wrap an application to refuse requests for other host names, since any name may resolve to 127.0.0.1."""

    def answer(environ: dict[str, Any], begin: Callable[..., Any]) -> Iterable[bytes]:
        if _OWN.fullmatch(environ.get("HTTP_HOST", "")):
            return application(environ, begin)
        begin("421 Misdirected Request", [("content-type", "text/plain"), ("content-length", str(len(REFUSAL)))])
        return [REFUSAL]

    return answer


def for_own_user(server: Any) -> Any:
    """Make the server close connections of other users, and return the server."""
    server.verify_request = lambda request, address: is_own(request)
    return server


# If this module exists, TensorBoard uses a stub instead of TensorFlow.
sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))


def open_writer(directory: Path) -> Any:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(directory))


def event_of(scalar: Scalar) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    value = Summary.Value(tag=scalar.tag, simple_value=scalar.value)
    return Event(wall_time=scalar.at, step=scalar.step, summary=Summary(value=[value]))


def serve_board(logdir: Path, port: int, title: str) -> str:
    """Start TensorBoard's server on localhost, in a thread; return its address. Port 0 means any free port."""
    from tensorboard import default, program

    def server(application: Any, flags: Any) -> Any:
        return for_own_user(program.WerkzeugServer(for_own_names(application), flags))

    board = program.TensorBoard(plugins=default.get_plugins(), server_class=server)
    options = {
        "--logdir": logdir,
        "--host": "127.0.0.1",
        "--port": port,
        "--window_title": title,
        "--reload_interval": 3,
        "--load_fast": "false",  # prevents a second process that uses another port
    }
    board.configure(argv=[None, *(str(argument) for option in options.items() for argument in option)])
    address: str = board.launch()
    return address
