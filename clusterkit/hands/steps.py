"""Steps read from the log, for programs that report none: `--progress-regex 'step (\\d+)'`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from clusterkit.hands.watcher import EVERY
from clusterkit.rules.lines import LineSplitter
from clusterkit.words.events import Progressed
from clusterkit.words.model import Task


class StepReader:
    """A viewer of the logs that posts the newest step it finds, usually at most once a second for each task."""

    def __init__(self, regex: str, post: Callable[[Progressed], None], every: float = EVERY) -> None:
        self._regex = re.compile(regex)
        self._every = every  # seconds between two steps of a task that are posted, at least
        self._post = post
        self._splitters: dict[tuple[Task, int], LineSplitter] = {}
        self._last: dict[tuple[Task, int], tuple[int, float]] = {}
        self._pending: dict[tuple[Task, int], int] = {}

    def feed(self, task: Task, attempt: int, chunk: bytes) -> None:
        """Take a chunk of an attempt's output; an empty one is its end."""
        key = (task, attempt)
        splitter = self._splitters.setdefault(key, LineSplitter())
        lines = splitter.feed(chunk) if chunk else splitter.flush()
        for line, _ in lines:
            if (match := self._regex.search(line)) and match.group(1).isdecimal():
                self._pending[key] = int(match.group(1))
        due = not chunk or key not in self._last or time.monotonic() - self._last[key][1] >= self._every
        if due and (step := self._pending.pop(key, None)) is not None:
            self._last[key] = (step, time.monotonic())
            self._post(Progressed(task, attempt, step))
