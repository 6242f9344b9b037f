"""Runs that clients watch. Keeps the model of a run up to date by reading the run's files."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from clusterkit.page.journal import JournalBlocks
from clusterkit.page.logbook import SEARCH_LIMIT, LogBook
from clusterkit.page.metrics import Scraped, scraped
from clusterkit.page.model.board import map_text
from clusterkit.page.model.rows import NO_USAGE
from clusterkit.page.model.run_model import RunModel
from clusterkit.page.model.verdicts import VerdictReader
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import NoSuchRun, RunStore
from clusterkit.store.usage import UsageReader
from clusterkit.system.searching import Searcher
from clusterkit.views.present_use import present_use
from clusterkit.words.errors import CannotLook

REFRESH_EVERY = 1.0  # seconds between reads of resource usage and of other data that may be slightly old
RESULT_WITHIN = 5.0  # seconds; the result file is expected within this time after a run's last change
LINGER = 20.0  # seconds; a run that nobody has viewed for this long counts as idle
T = TypeVar("T")
MOST_IDLE = 2  # the maximum number of idle runs that are kept open


@dataclass(frozen=True, slots=True)
class BoardUpdate:
    """An update for a client: the entities that changed, and the version of the board."""

    text: str  # the changed entities as JSON; empty if no entity changed
    version: int
    offset: int  # a client that applies this update has every change up to this journal offset
    over: bool  # True if no further updates will follow
    gone: bool  # True if the run's directory was removed


class LiveRun:
    """Reads the files of a run into a model. The methods may be slow: call the methods in a thread, one at a time."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._refreshed = float("-inf")
        self._begin()

    def update(self) -> None:
        """Read what the run has written since the last call."""
        self.gone = not self.run.path.is_dir()
        if self.gone:
            return
        now = time.monotonic()
        due = now - self._refreshed >= REFRESH_EVERY
        if due:
            # Checked before the files are read, so that nothing that was written before the end is missed.
            self._live = self._is_live() and not self.model.is_over
        elif not self._journal.has_new():
            return
        if self._journal.is_cut() or (self.model.info is None and self.run.info() is not None):
            self._begin()  # the run was replaced, or the job file has only now been written
        read = self._read()
        if read and self.model.is_over:  # the result is recorded, even if the supervisor has not exited yet
            self._live, due = False, True
        if not (due or read):
            return
        if due:
            for sample in self._uses.new():
                self.model.sample(sample)
        self.model.end(None if self._live else self.model.written or self.run.result())
        wall = time.time()
        usage = present_use(self._uses, self.model.ledger.run, wall) if self._live else NO_USAGE
        self.model.refresh(wall, self._live, usage, due or not self._live)
        self._refreshed = now if due else self._refreshed
        if not self._live:
            self.model.board.put("verdict", self._verdict.read(), self.model.offset, always=True)
        self.over = not self._live and not self._journal.has_new() and self._is_settled()

    def scraped(self) -> Scraped:
        run = self.model.board.get("run")
        now = self.model.seconds(time.time()) if run is None or run.ended is None else run.ended
        try:
            journal = os.stat(self.run.journal).st_size
        except OSError:
            journal = 0
        return scraped(self.model.board.entities(), now, journal, self.model.ledger)

    def message(self, version: int | None, offset: int = -1) -> BoardUpdate:
        """Return the changes since a version of the board or, if `version` is None, since an offset of the journal."""
        board = self.model.board
        if version is not None:
            entries = board.since_version(version)
        else:
            known = 0 <= offset <= self.model.offset
            entries = board.since_offset(offset) if known else board.all()
        text = ""
        if entries or version is None:
            text = f'{{"set":{map_text(entries)},"now":{json.dumps(round(self.model.seconds(time.time()), 3))}}}'
        return BoardUpdate(text, board.version, self.model.settled, self.over, self.gone)

    def _is_settled(self) -> bool:
        """Return whether the result file and the verdict of an ended run were read, or are no longer expected."""
        if self._verdict.is_due:
            return False
        return self.model.written is not None or time.time() - self.run.changed() > RESULT_WITHIN

    def _begin(self) -> None:
        self.model = RunModel(self.run, self.run.info())
        self._journal, self._uses = JournalBlocks(self.run), UsageReader(self.run.usage)
        info = self.model.info
        self._verdict = VerdictReader(self.run, None if info is None else info.job.part_of)
        self._refreshed = float("-inf")
        self._live, self.over, self.gone = True, False, False

    def _read(self) -> bool:
        read = False
        for one in self._journal.new():
            read = True
            self.model.take(*one)
        return read

    def _is_live(self) -> bool:
        try:
            return not self.run.is_over()
        except CannotLook:
            return self._live


class WatchedRun:
    """A run that clients watch. The run's files are read only on a client's request, and for one client at a time."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._lock = asyncio.Lock()
        self.used = time.monotonic()  # the monotonic time of the last request

    @property
    def is_idle(self) -> bool:
        return time.monotonic() - self.used > LINGER

    async def ask(self, question: Callable[[LiveRun], T]) -> T:
        """In a thread, read the new data in the run's files, then call `question`. Return the result of `question`."""

        def answer() -> T:
            self._live.update()
            return question(self._live)

        self.used = time.monotonic()
        async with self._lock:
            return await asyncio.to_thread(answer)

    async def message(self, version: int | None, offset: int) -> BoardUpdate:
        return await self.ask(lambda live: live.message(version, offset))


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run, and the objects that read its journal and logs."""

    run: RunDirectory
    watched: WatchedRun
    logs: LogBook


class RunOpener:
    """Opens runs by their ids, and keeps runs open while clients watch the runs."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._lock = asyncio.Lock()
        self._searcher = Searcher(SEARCH_LIMIT)

    async def open(self, run_id: str) -> OpenRun:
        """Return the run with exactly this id. Raises NoSuchRun."""
        async with self._lock:
            run = self._store.run(run_id)
            if not await asyncio.to_thread(run.path.is_dir):
                raise NoSuchRun(f"There is no run {run_id}. It may have been removed.")
            if run_id not in self._open:
                live = await asyncio.to_thread(LiveRun, run)
                self._open[run_id] = OpenRun(run, WatchedRun(live), LogBook(run, self._searcher))
            self._open.move_to_end(run_id)
            idle = [name for name, opened in self._open.items() if name != run_id and opened.watched.is_idle]
            for name in idle[: max(0, len(idle) - MOST_IDLE)]:
                del self._open[name]
            return self._open[run_id]

    async def close(self) -> None:
        await asyncio.to_thread(self._searcher.close)
