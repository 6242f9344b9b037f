"""The lists of all runs and campaigns, which the page polls. Files are read again only if they have changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from clusterkit.ledger.ledger import Ledger
from clusterkit.page.journal import JournalBlocks
from clusterkit.page.model.campaigns import CampaignEntity, campaign_entities, campaign_entity
from clusterkit.page.model.entities import Entity, RunRow
from clusterkit.page.model.rows import clean
from clusterkit.store.directory import RunDirectory, RunInfo
from clusterkit.store.store import RUN_ID, NoSuchRun, RunStore
from clusterkit.views.listing import run_state
from clusterkit.views.naming import main_metric
from clusterkit.views.situations import reason_of, told
from clusterkit.words.errors import CannotLook, ClusterkitError

MOST_RUNS = 5000  # the list has at most this many runs, the newest
Times = tuple[int, ...]
MOST = 1000  # the list has at most this many campaigns, the newest


@dataclass(slots=True)
class _Known:
    """The last known state of a run. `times` are the modification times of the run's files at the last read.

    New events are read from `journal` until the run is over.
    """

    times: Times
    row: RunRow
    over: bool
    info: RunInfo | None
    journal: JournalBlocks
    ledger: Ledger


class Overview:
    """Lists all runs. The method `rows` reads files: call `rows` in a thread."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def rows(self) -> dict[str, RunRow]:
        with self._lock:
            runs = self._store.all()[-MOST_RUNS:]
            ids = {run.run_id for run in runs}
            self._known = {run_id: known for run_id, known in self._known.items() if run_id in ids}
            return {f"run/{run.run_id}": self._row(run) for run in runs}

    def _row(self, run: RunDirectory) -> RunRow:
        known, times = self._known.get(run.run_id), _times(run)
        if known is not None and known.over and known.times == times:
            return known.row
        if known is None or (known.info is None and times[0]) or known.journal.is_cut():
            known = self._known[run.run_id] = _new(run)
        try:
            live = run.is_live() or not run.is_over()
        except CannotLook:
            return known.row
        self._read(run, known, live)
        known.times, known.over = times, not live
        return known.row

    def _read(self, run: RunDirectory, known: _Known, live: bool) -> None:
        result = None if live else run.result()
        status = known.ledger.run
        if result is None:
            for one in known.journal.new():
                known.ledger.add(one.clock, one.event, one.wall)
            result = status.result
        wall = time.time()
        seconds = None if result is None else result.duration
        if live and result is None:
            seconds = max(0.0, wall - (status.began_at or known.row.wall))
            state, text, _ = told(known.ledger, wall, seconds)
        else:
            state = run_state(False, status.phase, result)
            text = status.reason if result is None else "" if result.fine else reason_of(result)
        known.row = replace(
            known.row,
            state=state,
            seconds=seconds,
            step=status.step if result is None else result.last_step,
            restarts=status.restarts if result is None else result.restarts,
            text=clean(text),
            metric=_metric(status.metrics if result is None else result.metrics),
        )


def _metric(metrics: Mapping[str, float | None]) -> tuple[str, float | None] | None:
    name = main_metric(metrics)
    return None if name is None else (clean(name), metrics[name])


def _new(run: RunDirectory) -> _Known:
    info = run.info()
    job = None if info is None else info.job
    program, shape = ("", "") if job is None else (clean(str(job.program)), job.shape_text)
    part_of = "" if job is None else clean(job.part_of or "")
    row = RunRow(run.run_id, program, shape, "", run.created(), part_of=part_of)
    return _Known((), row, False, info, JournalBlocks(run), Ledger(job))


def _times(run: RunDirectory) -> Times:
    times = []
    for file in (run.job_file, run.journal, run.result_file):
        found = 0
        with suppress(OSError):
            found = file.stat().st_mtime_ns
        times.append(found)
    return tuple(times)


class CampaignList:
    """Lists campaigns. The methods read files: call the methods in a thread."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        # Maps a campaign's id to ((the time of the campaign's file, whether the campaign was live), the entity).
        self._known: dict[str, tuple[tuple[float, bool], CampaignEntity]] = {}
        self._lock = threading.Lock()

    def rows(self) -> dict[str, CampaignEntity]:
        """Return all campaigns by their keys, except campaigns with damaged records."""
        with self._lock:
            known, self._known = self._known, {}
            for file in sorted(self._store.campaigns(), key=lambda file: file.changed())[-MOST:]:
                now = (file.changed(), file.is_live())
                before = known.get(file.campaign_id)
                with suppress(ClusterkitError):
                    entity = before[1] if before and before[0] == now else campaign_entity(file.record())
                    self._known[file.campaign_id] = now, entity
            return {f"campaign/{name}": entity for name, (_, entity) in self._known.items()}

    def entities(self, campaign_id: str) -> dict[str, Entity]:
        """Return all entities of the campaign with exactly this id. Raises NoSuchRun and RunDirectoryError."""
        if not RUN_ID.fullmatch(campaign_id) or not (file := self._store.campaign(campaign_id)).path.is_file():
            raise NoSuchRun("There is no such campaign. It may have been removed.")
        record = file.record()
        begun = [run.run_id for runs in (record.runs, record.interrupted, record.running) for run in runs]
        kept = {name for name in begun if RUN_ID.fullmatch(name) and self._store.run(name).path.is_dir()}
        return campaign_entities(record, kept)
