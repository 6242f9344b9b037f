"""Reports: turns the files of a run or campaign into one HTML file or into Markdown."""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from clusterkit import __version__
from clusterkit.ledger.takeover import account_of
from clusterkit.page.bundle import MODULES, document
from clusterkit.page.live import LiveRun
from clusterkit.page.logs import lines_after
from clusterkit.page.markdown import RunFacts, campaign_markdown, run_markdown
from clusterkit.page.model.board import json_text, map_text
from clusterkit.page.model.campaigns import campaign_entities
from clusterkit.page.model.drawn import Drawn
from clusterkit.page.model.entities import Run, StallVerdict, Story
from clusterkit.page.model.merged import ArrivalsIndex
from clusterkit.store.arrivals import LogFile, Piece, Source
from clusterkit.store.campaigns import CampaignFile
from clusterkit.store.directory import RunDirectory
from clusterkit.store.examined import examined_cells
from clusterkit.store.store import RunStore
from clusterkit.system.files import open_regular
from clusterkit.text.printable import printable_lines
from clusterkit.words.errors import ClusterkitError

STATIC = Path(__file__).parent / "static"
# The maximum number of points of a curve in a report with few curves, and in a report with very many curves.
MOST_POINTS, FEWEST_POINTS = 800, 50
POINTS = 100_000  # if all curves together would have more points than this, each curve gets fewer points
MOST_KEPT = 10  # the maximum number of failed or interrupted runs that a campaign's report includes
LEAST_LOGS = 1 << 18  # the minimum room for the logs of each run in a campaign's report, in characters of JSON
LONGEST_STACKS = 1 << 18  # bytes; at most this much of a file with stacks is included
Subject = RunDirectory | CampaignFile
MOST = 5 << 20  # the maximum size of all logs in a report, in characters of JSON
MOST_RUNS_TOGETHER = 24 << 20  # characters of JSON; a RunsReport that is this long takes no further runs
LOGS_OF_MANY = 1 << 15  # the maximum size of a run's logs in a RunsReport, in characters of JSON
BEFORE, AFTER = 5.0, 10.0  # lines from this many seconds before and after an incident are kept while there is room
LEAST_TAIL, GREATEST_TAIL = 512, 1 << 18  # bytes; how much of the end of each log is kept, at least and at most
FARTHEST_BACK = 1 << 12  # bytes; the beginning of a line is searched for within this distance before an offset
_FOR_TAILS = 0.6  # the fraction of the room for logs that is reserved for the ends of logs


class Format(enum.StrEnum):
    """The format of a report."""

    HTML = "html"
    MARKDOWN = "md"


class NoReport(ClusterkitError):
    """The report can't be created."""

    exit_code = 2


def report(subject: Subject, kind: Format, store: RunStore) -> str:
    if isinstance(subject, CampaignFile):
        return _of_campaign(subject, kind, store)
    return _of_run(subject, kind)


def _of_run(run: RunDirectory, kind: Format) -> str:
    live = LiveRun(run)
    live.update()
    if live.model.board.get("run") is None or not run.path.is_dir():
        raise NoReport(f"The run {run.run_id} can't be read.")
    if kind is Format.HTML:
        plain = run_markdown(_facts(run, live))
        return document(page_files(), _run_data(run, live, MOST), f"run {run.run_id}", plain)
    return run_markdown(_facts(run, live))


def _of_campaign(campaign: CampaignFile, kind: Format, store: RunStore) -> str:
    record = campaign.record()
    if kind is Format.MARKDOWN:
        return campaign_markdown(record)
    there = {run.run_id: run for run in store.all() if run.run_id.startswith(f"{record.campaign}-")}
    told = (*record.failing, *record.interrupted)
    kept = [there[run.run_id] for run in told if run.run_id in there][:MOST_KEPT]
    room = max(LEAST_LOGS, MOST // max(1, len(kept)))
    runs = []
    for run in kept:
        live = LiveRun(run)
        live.update()
        runs.append(f"{json.dumps(run.run_id)}:{_run_data(run, live, room)}")
    entities = json_text(campaign_entities(record, {run.run_id for run in kept}))
    data = f'{{"entities":{entities},"runs":{{{",".join(runs)}}},"config":{_config()}}}'
    return document(page_files(), data, f"campaign {record.campaign}", campaign_markdown(record))


class RunsReport:
    """Collects runs for one HTML file. `#run/ID` at the end of the file's address selects the run to show.

    `back` is the address and the text of a link in this file, which leads to the page from which users open the file.
    """

    def __init__(self, title: str, back: tuple[str, str]) -> None:
        self._title, self._back = title, back
        self._runs: dict[str, str] = {}
        self._room = MOST_RUNS_TOGETHER

    def add(self, run: RunDirectory) -> None:
        """Add a run, unless the run can't be read or the file would become too large."""
        if run.run_id in self._runs or self._room <= 0 or not run.path.is_dir():
            return
        live = LiveRun(run)
        live.update()
        if live.model.board.get("run") is not None:
            self._runs[run.run_id] = _run_data(run, live, LOGS_OF_MANY)
            self._room -= len(self._runs[run.run_id])

    @property
    def run_ids(self) -> frozenset[str]:
        return frozenset(self._runs)

    def html(self) -> str:
        href, text = self._back
        runs = ",".join(f"{json.dumps(run)}:{data}" for run, data in self._runs.items())
        home = json.dumps({"href": href, "text": text})
        return document(page_files(), f'{{"runs":{{{runs}}},"home":{home},"config":{_config()}}}', self._title)


def _run_data(run: RunDirectory, live: LiveRun, most: int) -> str:
    board = live.model.board
    incidents = [one.at for one in board.entities().values() if isinstance(one, Story | StallVerdict)]
    found: Run = board.get("run")
    logs = extract(run, found.wall, incidents, most)
    left = {"log_bytes": logs.total, "left_out": logs.left_out}
    parts = {
        "entities": map_text(board.all()),
        "now": json.dumps(round(_now(live), 3)),
        "series": json_text(dict(_series(live))),
        "logs": json_text(logs.lines),
        "files": json_text(dict(_stacks(run, live))),
        "config": _config(**left),
    }
    return "{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}"


def _config(**more: Any) -> str:
    return json_text({"version": __version__, "made": round(time.time(), 3), **more})


def _now(live: LiveRun) -> float:
    run: Run = live.model.board.get("run")
    return live.model.seconds(time.time()) if run.ended is None else run.ended


def _series(live: LiveRun) -> Iterator[tuple[str, Drawn]]:
    keys = list(live.model.curves.keys())
    most = min(MOST_POINTS, max(FEWEST_POINTS, POINTS // max(1, len(keys))))
    for name, task in keys:
        if (curve := live.model.curve(name, task, most)) is not None:
            yield f"{name}/{task}", curve


def _stacks(run: RunDirectory, live: LiveRun) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file with stacks that the page links to."""
    for one in live.model.board.entities().values():
        if isinstance(one, StallVerdict) and one.report is not None and "/" not in one.report:
            with suppress(OSError), open_regular(run.all_stacks / one.report) as file:
                text = file.read(LONGEST_STACKS).decode(errors="replace")
                yield f"stacks/{one.report}", printable_lines(text)


def _facts(run: RunDirectory, live: LiveRun) -> RunFacts:
    info, board = run.info(), live.model.board
    return RunFacts(
        run=board.get("run"),
        now=_now(live),
        clusterkit="" if info is None else info.clusterkit,
        platform={} if info is None else info.platform,
        seed=None if info is None else info.seed,
        result=None if board.get("run").ended is None else run.result(),
        recovered=account_of(run),
        goodput=board.get("goodput"),
        examined=examined_cells(run),
    )


def page_files() -> dict[str, str]:
    paths = sorted(path for path in STATIC.rglob("*") if path.suffix in (MODULES, ".css", ".svg", ".html"))
    return {str(path.relative_to(STATIC)): path.read_text() for path in paths}


def extract(run: RunDirectory, began: float, incidents: Sequence[float], most: int = MOST) -> Extract:
    """Return log lines of a run, in the order in which the lines were written.

    `began` is the wall time at which the run began. `incidents` contains times in seconds since the run began.
    """
    index = ArrivalsIndex(run)
    index.update()
    room = most
    while True:
        found = Extract(run, index, began, incidents, room)
        if room < LEAST_TAIL or sum(len(json.dumps(line)) for line in found.lines) <= most:
            return found
        room //= 2  # try again with less room, since lines may be longer in JSON than in the logs


class Extract:
    """The log lines in a report. A line with the field `skipped` stands for that many bytes that are left out.

    `total` is the size of all logs, and `left_out` is the number of bytes that are left out of all logs together.
    """

    def __init__(
        self, run: RunDirectory, index: ArrivalsIndex, began: float, incidents: Sequence[float], most: int
    ) -> None:
        self._run, self._index, self._began = run, index, began
        self._sizes = dict(_sizes(run))
        self.total = sum(self._sizes.values())
        whole = self.total <= most // 2
        tail = min(max(LEAST_TAIL, int(most * _FOR_TAILS) // max(1, len(self._sizes))), GREATEST_TAIL)
        self._tails = {key: 0 if whole else max(0, size - tail) for key, size in self._sizes.items()}
        share = int(most * (1 - _FOR_TAILS)) // max(1, len(incidents))
        self._windows = [[began + at - BEFORE, began + at + AFTER, share] for at in incidents]
        self._read: dict[Source, int] = {}  # the offset up to which each log was read
        self.left_out = 0
        self.lines = list(self._lines())

    def _lines(self) -> Iterator[dict[str, Any]]:
        for piece in self._index.after(0):
            source = piece.source
            if source in self._sizes and (start := self._wanted(piece)) is not None:
                yield from self._of(source, start, min(piece.end, self._sizes[source]), piece.at, final=False)
        for source, size in self._sizes.items():  # ends of logs that are not recorded or lack a newline
            if self._read.get(source, 0) < size:
                start = max(self._read.get(source, 0), self._tails[source])
                yield from self._of(source, start, size, None, final=True)

    def _wanted(self, piece: Piece) -> int | None:
        """Return the offset from which a piece is kept; None if no part of the piece is kept."""
        for window in self._windows:
            if window[0] <= piece.at <= window[1] and window[2] > 0:
                window[2] -= piece.end - piece.start
                return piece.start
        tail = self._tails[piece.source]
        return max(piece.start, tail) if piece.end > tail else None

    def _of(self, source: Source, start: int, end: int, at: float | None, final: bool) -> Iterator[dict[str, Any]]:
        """Yield the lines that end between two offsets of a log.

        If bytes before these lines are left out, first yield a line with the field `skipped`.
        """
        done, (task, attempt) = self._read.get(source, 0), source
        of = {"t": None if at is None else round(at - self._began, 3), "task": str(task), "attempt": attempt}
        with closing(LogFile(self._run.log(task, attempt))) as log:
            begin = max(done, log.line_start(start, FARTHEST_BACK))
            if begin > done:
                self.left_out += begin - done
                yield {**of, "text": "", "skipped": begin - done}
            for line in lines_after(log, begin, end, final):
                yield {**of, "text": line.text}
                begin = line.end
        self._read[source] = begin


def _sizes(run: RunDirectory) -> Iterator[tuple[Source, int]]:
    for task, attempt, path in run.logs():
        with closing(LogFile(path)) as log:
            if log.is_open:
                yield (task, attempt), log.size
