"""Reads steps from the output of programs that report none: `--progress-regex 'step (\\d+)'`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from clusterkit.backends.local.watcher import EVERY
from clusterkit.job.step_regex import step_in
from clusterkit.text.lines import LineSplitter
from clusterkit.words.events import Impaired, Progressed
from clusterkit.words.model import Task

SLOW = 2.0  # seconds of CPU time for one chunk of output (512 KiB at most): the searches delay the supervisor
_GIVEN_UP = (
    "Searching the output of {} with --progress-regex takes too long ({:.0f} s for one piece of it), so no steps are "
    "read from the logs any more. Start the run again with a simpler regular expression."
)


class StepReader:
    """Searches output for steps, and posts the newest one of each task at most every `every` seconds."""

    def __init__(self, regex: str, post: Callable[[Progressed | Impaired], None], every: float = EVERY) -> None:
        self._regex = re.compile(regex)
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
            if (step := step_in(self._regex, line)) is not None:
                self._pending[key] = step
            # A search can't be interrupted, but no further one is begun.
            if (took := time.thread_time() - began) > SLOW:
                self._given_up = True
                self._post(Impaired(_GIVEN_UP.format(key[0], took)))
                return
