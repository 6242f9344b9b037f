"""The logs of a run: parses the page's queries, and returns the lines in pages of limited size."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from clusterkit.page.logs import AttemptLog, Matches, Page, Search
from clusterkit.page.model.merged import ArrivalsIndex, MergedLog
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import parse_line
from clusterkit.system.files import open_regular
from clusterkit.system.searching import Searcher
from clusterkit.words.errors import CannotLook, ClusterkitError
from clusterkit.words.model import Task

MOST_LINES = 5000  # the maximum number of lines of a page
MOST_CHARACTERS = 4 << 20  # the maximum number of characters of a page
MOST_SEARCHED = 1 << 20  # bytes; each check of a followed log for new lines searches at most this much
LOOK_FOR = 0.4  # seconds; a search that takes longer returns the matches found so far
LONGEST_PATTERN = 1000  # the maximum length of a search text, in characters
SEARCH_LIMIT = 1.0  # seconds of CPU time for searching one line for a regular expression
LONGEST_MATCHED = 4096  # characters; only this much of the beginning of a line is searched for a regular expression


class BadQuestion(ClusterkitError):
    """A request has an invalid parameter."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A query for log lines: which logs are read, and which lines are returned."""

    task: Task | None = None
    attempt: int | None = None
    limit: int = 500
    grep: str = ""
    regex: bool = False

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Wanted:
        """Parse a query. Raises BadQuestion."""
        try:
            task = Task.parse(query["task"]) if query.get("task") else None
            attempt = _count(query, "attempt", 1, 10**9) if query.get("attempt") else None
        except ValueError as error:
            raise BadQuestion(str(error)) from None
        grep = query.get("grep", "")
        if len(grep) > LONGEST_PATTERN:
            raise BadQuestion(f"The search text must have at most {LONGEST_PATTERN} characters.")
        limit = _count(query, "limit", 1, MOST_LINES) if "limit" in query else 500
        return cls(task, attempt, limit, grep, query.get("regex", "0") not in ("", "0"))

    def matches(self, searcher: Searcher) -> Matches | None:
        """Return the condition that a line must meet; None if every line is returned. Raises BadQuestion."""
        if not self.grep:
            return None
        if self.regex:
            try:
                re.compile(self.grep)
            except (re.error, RecursionError, OverflowError) as error:
                raise BadQuestion(f"This is not a regular expression: {error}.") from None
            return lambda text: searcher.finds(self.grep, text[:LONGEST_MATCHED])
        plain = self.grep.lower()
        return lambda text: plain in text.lower()


class LogBook:
    """The logs of one run. The methods read files: call the methods in a thread."""

    def __init__(self, run: RunDirectory, searcher: Searcher | None = None) -> None:
        self._run = run
        self._searcher = searcher or Searcher(SEARCH_LIMIT)
        self._index = ArrivalsIndex(run)
        self._lock = threading.Lock()
        self._began: float | None = None
        self.over = False  # True once the logs are complete

    def check(self, wanted: Wanted) -> None:
        """Raise BadQuestion if the query has an invalid regular expression."""
        wanted.matches(self._searcher)

    def page(self, wanted: Wanted, start: str | None, end: str | None) -> dict[str, Any]:
        """Return the page that starts at the cursor `start` or ends at the cursor `end`. Raises ClusterkitError.

        If the cursor `start` is the text "end", return the last page.
        """
        search = Search(wanted.limit, MOST_CHARACTERS, time.monotonic() + LOOK_FOR, wanted.matches(self._searcher))
        with self._lock:
            log = self._log(wanted)
            if start == "end" or end is not None:
                return self._shown(log.before(end, search))
            return self._shown(log.after(start or "0", search))

    def page_at(self, wanted: Wanted, seconds: float) -> dict[str, Any]:
        """Return the page that begins at a time, in seconds since the run began. Raises ClusterkitError."""
        with self._lock:
            self._log(wanted)
            pieces = self._index.since(self._beginning() + seconds)
            if wanted.task is None or wanted.attempt is None:
                start = next((str(piece.offset) for piece in pieces), str(self._index.size))
            else:
                source = (wanted.task, wanted.attempt)
                end = str(self._index.ends.get(source, 0))
                start = next((str(piece.start) for piece in pieces if piece.source == source), end)
        return self.page(wanted, start, None)

    def following(self, wanted: Wanted, cursor: str, most: int) -> dict[str, Any]:
        """Return the lines after a cursor. If too many lines follow, skip the older lines. Raises ClusterkitError."""
        search = Search(MOST_LINES, most, time.monotonic() + LOOK_FOR, wanted.matches(self._searcher))
        keep = MOST_SEARCHED if wanted.grep else most
        with self._lock:
            log = self._log(wanted)
            new, skipped = log.skip(cursor, keep)
            return self._shown(log.after(new, search), skipped)

    def end(self, wanted: Wanted) -> str:
        with self._lock:
            return self._log(wanted).before(None, Search(0, 0, 0.0)).next

    def _log(self, wanted: Wanted) -> AttemptLog | MergedLog:
        with suppress(CannotLook):
            self.over = self._run.is_over()  # checked before the files are read, so that nothing is missed
        self._index.update()
        if wanted.task is not None and wanted.attempt is not None:
            source, final = (wanted.task, wanted.attempt), (wanted.task, wanted.attempt + 1) in self._index.ends
            return AttemptLog(self._run.log(*source), source, self.over or final, self._index.when)
        return MergedLog(self._run, self._index, self.over, lambda task: wanted.task in (None, task))

    def _shown(self, page: Page, skipped: int = 0) -> dict[str, Any]:
        began = self._beginning()
        times = (None if line.t is None else round(line.t - began, 3) for line in page.lines)
        lines = [{**line._asdict(), "t": t} for line, t in zip(page.lines, times, strict=True)]
        return {**page._asdict(), "lines": lines, "skipped": skipped}

    def _beginning(self) -> float:
        if self._began is None:
            try:
                with open_regular(self._run.journal) as file:
                    self._began = float((parse_line(file.readline(1 << 16)) or {})["t"])
            except (OSError, ValueError, KeyError, TypeError, OverflowError):
                return self._run.created()
        return self._began


def _count(query: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = query[name]
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
        raise BadQuestion(f"`{name}` must be a number from {least} to {most}.")
    return int(text)
