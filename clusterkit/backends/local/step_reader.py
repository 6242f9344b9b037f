"""Finds steps in the output of tasks, for `--progress-regex`."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from clusterkit.backends.local.watcher import EVERY
from clusterkit.job.step_regex import LONGEST, step_in
from clusterkit.system.barrier import join, start_thread
from clusterkit.system.searching import Searcher, TooSlow
from clusterkit.text.lines import LineSplitter
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Crashed, Impaired, Progressed
from clusterkit.words.model import Task

SEARCH_LIMIT = 1.0  # seconds of CPU time for one chunk of output
LONGEST_WAIT = 5.0  # seconds; how long the end of an attempt's output waits until all of the output has been searched
MOST_WAITING = 1 << 24  # bytes of output that wait to be searched; then the output itself waits
_TOO_SLOW = (
    "Searching the output of {task} with --progress-regex '{regex}' takes too long: after {limit:g} s, the search was "
    "ended. No steps are read from the logs any more, so no stall is noticed either. Start the run again with a "
    "simpler regular expression: a repetition inside a repeated group, as in (\\w+\\s?)*, can make a search this slow."
)
_FAILED = "{why} No steps are read from the logs any more, so no stall is noticed either."
Key = tuple[Task, int]  # a task and its attempt
Post = Callable[[Progressed | Impaired | Crashed], None]


@dataclass(slots=True)
class Chunk:
    """A piece of an attempt's output; an empty one marks the end. `searched` is set after the search."""

    key: Key
    data: bytes
    searched: threading.Event = field(default_factory=threading.Event)


class StepReader:
    """Searches output for steps, and posts the newest step of each task, at most once in `every` seconds.

    A thread of its own waits for the process that searches, so that an expression that takes forever delays nobody
    else: the output is written and shown meanwhile. Then no more steps are read, and one Impaired event says so.
    """

    def __init__(self, regex: str, post: Post, every: float = EVERY) -> None:
        self._regex = regex
        self._every = every
        self._post = post
        self._searcher = Searcher(SEARCH_LIMIT)
        self._chunks = queue.SimpleQueue[Chunk | None]()
        self._waiting = 0  # bytes
        self._room = threading.Condition()
        self._splitters: dict[Key, LineSplitter] = {}
        self._posted_at: dict[Key, float] = {}
        self._pending: dict[Key, int] = {}  # the steps that have not been posted yet
        self._has_ended = False

    def start(self) -> None:
        """Start the process that searches, and the thread. Raises OSError."""
        try:
            self._searcher.start()
        except ClusterkitError as error:
            self._give_up(_FAILED.format(why=error))
        self._thread = start_thread("steps", self._run, self._post)

    def feed(self, task: Task, attempt: int, data: bytes) -> None:
        """Have a piece of an attempt's output searched; an empty piece marks the end of the output.

        At the end, wait for the search, so that the last step is posted before the end of the output is.
        """
        with self._room:
            self._room.wait_for(lambda: self._waiting < MOST_WAITING or self._has_ended, LONGEST_WAIT)
            if self._has_ended:
                return
            self._waiting += len(data)
            chunk = Chunk((task, attempt), data)
            self._chunks.put(chunk)
        if not data:
            chunk.searched.wait(LONGEST_WAIT)

    def close(self) -> None:
        """Search what is left, and end the thread and the process. Raises ThreadStuck."""
        self._chunks.put(None)
        self._thread.join(LONGEST_WAIT)
        self._has_ended = True
        self._searcher.close()  # ends a search that is still running
        join(self._thread)

    def _run(self) -> None:
        while True:
            try:
                chunk = self._chunks.get(timeout=self._until_due())
            except queue.Empty:
                self._post_due()
                continue
            if chunk is None:
                return
            self._search(chunk)
            with self._room:
                self._waiting -= len(chunk.data)
                self._room.notify_all()
            self._post_due()
            if not chunk.data:
                self._posted_at.pop(chunk.key, None)
            chunk.searched.set()

    def _search(self, chunk: Chunk) -> None:
        if self._has_ended:
            return
        key = chunk.key
        splitter = self._splitters.setdefault(key, LineSplitter())
        lines = splitter.feed(chunk.data) if chunk.data else splitter.flush()
        try:
            matches = self._searcher.matches(self._regex, [line[:LONGEST] for line, _ in lines]) if lines else []
        except TooSlow:
            self._give_up(_TOO_SLOW.format(task=key[0], regex=self._regex, limit=SEARCH_LIMIT))
            return
        except ClusterkitError as error:
            self._give_up(_FAILED.format(why=error))
            return
        steps = [step for groups in matches if (step := step_in(groups)) is not None]
        if steps:
            self._pending[key] = steps[-1]
        if not chunk.data:
            self._posted_at[key] = -math.inf  # the last step is due at once
            del self._splitters[key]

    def _give_up(self, why: str) -> None:
        with self._room:
            if self._has_ended:  # `close` ended the search
                return
            self._has_ended = True
            self._room.notify_all()
        self._post(Impaired(why, ends_steps=True))

    def _until_due(self) -> float | None:
        """Return the seconds until a pending step may be posted; None if no step is pending."""
        if not self._pending:
            return None
        due = min(self._posted_at.get(key, -math.inf) for key in self._pending) + self._every
        return max(0.0, due - time.monotonic())

    def _post_due(self) -> None:
        now = time.monotonic()
        for (task, attempt), step in list(self._pending.items()):
            key = task, attempt
            if now < self._posted_at.get(key, -math.inf) + self._every:
                continue
            self._posted_at[key] = now
            del self._pending[key]
            self._post(Progressed(task, attempt, step))
