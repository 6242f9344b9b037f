"""Writes the event files in `tensorboard/clusterkit/<task>` from the journal as it grows."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from typing import Any

from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.system.procfs import Meter
from clusterkit.tensorboard.library import event_of, open_writer
from clusterkit.tensorboard.series import Scalar, Series
from clusterkit.words.model import Task


class Scalars:
    """Writes each event of a run once, even if several processes write one after the other.

    The file `written` has the offset in the journal up to which events are written. The writing process locks it.
    """

    def __init__(self, run: RunDirectory) -> None:
        info = run.info()
        self._directory = run.tensorboard / "clusterkit"
        self._series = Series(info.job if info else None)
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
            self._add(self._series.sample(time.time(), self._meter.sample(self._series.pids)))
        for writer in self._writers.values():
            writer.flush()
        self._remember()

    def _claim(self) -> bool:
        """Lock the file `written`. Returns False if another process has locked it. Raises OSError."""
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

    def _remember(self) -> None:
        assert self._record is not None
        os.pwrite(self._record, b"%d\n" % max(self._journal.offset, self._before), 0)
