"""The open runs: those with viewers, and a few without."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from clusterkit.page.live import LiveRun, Watched
from clusterkit.page.logbook import LogBook
from clusterkit.page.searching import Searcher
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import NoSuchRun, RunStore

MOST_IDLE = 2  # open runs without viewers


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run and its readers."""

    run: RunDirectory
    watched: Watched
    logs: LogBook


class Runs:
    """Opens runs by their ids."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._lock = asyncio.Lock()
        self._searcher = Searcher()

    async def open(self, run_id: str) -> OpenRun:
        """The run with exactly that id. Raises NoSuchRun."""
        async with self._lock:
            run = self._store.run(run_id)
            if not await asyncio.to_thread(run.path.is_dir):
                raise NoSuchRun(f"There is no run {run_id}. It may have been removed.")
            if run_id not in self._open:
                live = await asyncio.to_thread(LiveRun, run)
                self._open[run_id] = OpenRun(run, Watched(live), LogBook(run, self._searcher))
            self._open.move_to_end(run_id)
            await self._forget(run_id)
            return self._open[run_id]

    async def close(self) -> None:
        """Close all runs, and end the search process."""
        for opened in self._open.values():
            await opened.watched.close()
        self._open.clear()
        await asyncio.to_thread(self._searcher.close)

    async def _forget(self, kept: str) -> None:
        idle = [name for name, opened in self._open.items() if name != kept and opened.watched.is_idle]
        for name in idle[: max(0, len(idle) - MOST_IDLE)]:
            await self._open.pop(name).watched.close()
