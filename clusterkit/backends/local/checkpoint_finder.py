"""Finds the checkpoints that existed when attempts started, in a background thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

from clusterkit.store.checkpoints import move_aside, newest_checkpoint
from clusterkit.system.barrier import start_thread
from clusterkit.words.events import CheckpointFound, Crashed, Impaired, Noted
from clusterkit.words.model import Task

PATIENCE = 2.0  # seconds; how long `stop` waits for a scan, which a hanging file system may block forever


class _Query(NamedTuple):
    task: Task
    attempt: int
    moment: float  # wall time of the attempt's start


class CheckpointFinder:
    """Posts CheckpointFound for each attempt that had a checkpoint to resume from when it started.

    Checkpoints written after the start are ignored, because the attempt may write a checkpoint during the scan.
    This class does not use a Poller: a scan may hang forever, and `stop` must not wait for a scan.
    """

    def __init__(self, directory: PurePath, post: Callable[[CheckpointFound | Crashed], None]) -> None:
        self._directory = directory
        self._post = post
        self._starts = queue.SimpleQueue[_Query | None]()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self, task: Task, attempt: int, moment: float) -> None:
        """Search for the newest checkpoint that existed at the wall time `moment`."""
        self._starts.put(_Query(task, attempt, moment))
        if self._thread is None:
            with suppress(OSError):  # the thread can't be started now; the next call of `look` tries again
                self._thread = start_thread("checkpoint finder", self._run, self._post)

    def stop(self) -> None:
        """End the thread and any running scan; return after PATIENCE seconds even if the scan hangs."""
        self._ended.set()
        self._starts.put(None)
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _run(self) -> None:
        while (start := self._starts.get()) is not None:
            together = [start]  # a gang's attempts start in quick succession, so one scan serves several of them
            with suppress(queue.Empty):
                while (start := self._starts.get_nowait()) is not None:
                    together.append(start)
            moment = max(start.moment for start in together)
            found = newest_checkpoint(self._directory, moment, self._ended.is_set)
            for start in together:
                if found is not None and not self._ended.is_set():
                    self._post(CheckpointFound(start.task, start.attempt, found))
            if self._ended.is_set():
                break


def start_afresh(directory: Path) -> Noted | Impaired:
    """Move the checkpoints aside, so that no attempt resumes from them; return the event that reports the outcome."""
    try:
        aside = move_aside(directory)
    except OSError as error:
        what = f"The checkpoints in {directory} can't be moved aside ({error.strerror})"
        return Impaired(f"{what}, so the program may resume from them.")
    return Noted("There were no checkpoints." if aside is None else f"The checkpoints so far are in {aside}.")
