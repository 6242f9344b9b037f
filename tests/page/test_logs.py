"""Pages of logs: forward, backward and merged they have every line once, whatever tasks wrote."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clusterkit.page import logs
from clusterkit.page.logbook import LogBook, Wanted
from clusterkit.page.logs import BadCursor, shown
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.words.model import Task
from tests.histories import job
from tests.page.histories import WALL, written

WORDS = (
    b"step 1",
    b"loss",
    b"\x1b[31mred\x1b[0m",
    "grün ✔".encode(),
    b"\xff\xfe",
    b"\x1b]0;x\x07",
    b"<b>&",
    b"\t",
    b"",
)
SEEDS = range(12)


@dataclass
class Output:
    """What the tasks of a run wrote, and the lines of it in the order in which they were complete."""

    run: RunDirectory
    lines: list[tuple[str, int, bytes]] = field(default_factory=list)
    _data: dict[tuple[str, int], bytes] = field(default_factory=dict)
    _open: dict[tuple[str, int], bytes] = field(default_factory=dict)
    _times: dict[tuple[str, int], float] = field(default_factory=dict)
    _clock: float = WALL

    def write(self, task: str, attempt: int, data: bytes) -> None:
        """A task writes a chunk, which is noted."""
        key = (task, attempt)
        if key not in self._data:
            self.end(task, attempt - 1)
        self._data[key] = self._data.get(key, b"") + data
        path = self.run.log(Task.parse(task), attempt)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(self._data[key])
        self._clock += 0.01
        self._times[key] = self._clock
        os.utime(path, (self._clock, self._clock))
        with self.run.arrivals.open("ab") as file:
            file.write(b"%.6f %s %d %d\n" % (self._clock, task.encode(), attempt, len(self._data[key])))
        *whole, self._open[key] = (self._open.get(key, b"") + data).split(b"\n")
        self.lines += [(*key, line) for line in whole]

    def end(self, task: str, attempt: int) -> None:
        """The attempt is over: the rest is a line."""
        if rest := self._open.pop((task, attempt), b""):
            self.lines.append((task, attempt, rest))

    def end_all(self) -> None:
        """The run is over."""
        for task, attempt in sorted(self._open, key=lambda key: self._times[key]):
            self.end(task, attempt)

    def of(self, task: str, attempt: int) -> list[bytes]:
        """The lines of one attempt."""
        return [line for one, number, line in self.lines if (one, number) == (task, attempt)]


def output(path: Path, seed: int) -> Output:
    """Two tasks write chunks of any length, with and without ends of lines, in up to three attempts."""
    rng, made = random.Random(seed), Output(written(path / f"r{seed}", job(workers=2)))
    attempts = {"worker:0": 1, "worker:1": 1}
    for _ in range(rng.randrange(1, 120)):
        task = rng.choice(list(attempts))
        if rng.random() < 0.03:
            attempts[task] += 1
        words = rng.choices(WORDS, k=rng.randrange(1, 8))
        data = rng.choice((b"\n", b" ", b"\n\n")).join(words) + rng.choice((b"\n", b"", b"\n"))
        if data:
            made.write(task, attempts[task], data)
    made.end_all()
    return made


def pages(book: LogBook, wanted: dict[str, str], seed: int, backward: bool) -> list[dict[str, Any]]:
    """All lines, by pages of different lengths."""
    rng, found = random.Random(seed), list[dict[str, Any]]()
    cursor: str | None = None if backward else "0"
    for _ in range(1000):
        query = Wanted.parse({**wanted, "limit": str(rng.randrange(1, 9))})
        if backward:
            page = book.page(query, "end" if cursor is None else None, cursor)
            found, cursor = [*page["lines"], *found], page["previous"]
        else:
            page = book.page(query, cursor, None)
            found, cursor = [*found, *page["lines"]], page["next"]
        if not page["lines"] and page["done"]:
            return found
    raise AssertionError("the pages have no end")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backward", [False, True])
def test_every_line_is_there_once(tmp_path: Path, seed: int, backward: bool) -> None:
    """Of all tasks in the order of arrival, of one task, and of one attempt."""
    made = output(tmp_path, seed)
    book = LogBook(made.run)
    found = pages(book, {}, seed, backward)
    assert [(one["task"], one["attempt"], one["text"]) for one in found] == [
        (task, attempt, shown(raw)) for task, attempt, raw in made.lines
    ]
    times = [one["t"] for one in found]
    assert None not in times
    of_one = pages(book, {"task": "worker:1"}, seed, backward)
    assert [one["text"] for one in of_one] == [shown(raw) for task, _, raw in made.lines if task == "worker:1"]
    for task, attempt in {(task, attempt) for task, attempt, _ in made.lines}:
        alone = pages(book, {"task": task, "attempt": str(attempt)}, seed, backward)
        assert [one["text"] for one in alone] == [shown(raw) for raw in made.of(task, attempt)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_line_is_found_by_its_cursor_and_by_what_is_in_it(tmp_path: Path, seed: int) -> None:
    """Whether in capitals or not; a search for nothing finds nothing."""
    made = output(tmp_path, seed)
    book = LogBook(made.run)
    found = pages(book, {}, seed, backward=False)
    for one in found[:: max(1, len(found) // 10)]:
        (again,) = book.page(Wanted(limit=1), one["cursor"], None)["lines"]
        assert again == one
    for query in ({"grep": "STEP"}, {"grep": "nowhere at all"}):
        wanted = [one for one in found if "step" in one["text"]]
        assert pages(book, query, seed, False) == ([] if "nowhere" in query["grep"] else wanted)


def test_lines_of_megabytes_are_shown_in_pieces(tmp_path: Path) -> None:
    """Nothing is read as a whole, and both directions come to their ends."""
    made = Output(written(tmp_path / "r", job(workers=1)))
    made.write("worker:0", 1, b"begin\n" + b"x" * (3 << 20))
    made.write("worker:0", 1, b"y" * (1 << 20) + b"\nend\nno end of a line")
    book = LogBook(made.run)
    for wanted in ({}, {"task": "worker:0", "attempt": "1"}):
        for backward in (False, True):
            texts = [one["text"] for one in pages(book, wanted, 1, backward)]
            assert (texts[0], texts[-2:]) == ("begin", ["end", "no end of a line"])
            assert all(len(text) < logs.LONGEST_SHOWN + 100 for text in texts)
            assert any("more)" in text for text in texts)


def test_a_flood_is_followed_at_its_end(tmp_path: Path) -> None:
    """What is left out is counted: with what is sent, it is everything."""
    made = Output(written(tmp_path / "r", job(workers=2)))
    made.run.lock_file.unlink()  # a run that is just starting
    made.write("worker:0", 1, b"first\n")
    book = LogBook(made.run)
    cursor = book.end(Wanted())
    chunk = b"".join(b"line %06d\n" % number for number in range(5000))
    for number in range(20):
        made.write(f"worker:{number % 2}", 1, chunk)
    page = book.following(Wanted(), cursor, 20_000)
    assert page["skipped"] == 19 * len(chunk)
    rest = book.following(Wanted(), page["next"], 10**9)
    assert len(page["lines"]) + len(rest["lines"]) == 5000
    alone = book.following(Wanted(Task.parse("worker:0"), 1), "6", 20_000)
    assert 0 < len(alone["lines"]) <= 2000
    assert alone["skipped"] + sum(len(one["text"]) + 1 for one in alone["lines"]) == 10 * len(chunk)


@pytest.mark.parametrize("restarts", [False, True])
def test_what_comes_while_one_follows_is_sent_once(tmp_path: Path, restarts: bool) -> None:
    """Also the last line, which has no end, once the run is over; and by a server that starts anew each time."""
    rng, made = random.Random(5), Output(written(tmp_path / "r", job(workers=2)))
    made.run.lock_file.unlink()  # a run that is just starting
    book, found, cursor = LogBook(made.run), list[str](), "0"
    for number in range(60):
        made.write(f"worker:{rng.randrange(2)}", 1, rng.choice((b"a\nb", b"c", b"\n", b"d\n")) + b"%d" % number)
        book = LogBook(made.run) if restarts else book
        page = book.following(Wanted(), cursor, 10_000)
        found, cursor = [*found, *(one["text"] for one in page["lines"])], page["next"]
    made.end_all()
    made.run.lock_file.touch()
    page = book.following(Wanted(), cursor, 10_000)
    found += [one["text"] for one in page["lines"]]
    assert found == [shown(raw) for _, _, raw in made.lines]


@pytest.mark.parametrize("cursor", ["x", "-1", "1.", "1.x", "٣", "9" * 30, "0x1", "1.2.3", " 1"])
def test_a_cursor_that_is_none_is_refused(tmp_path: Path, cursor: str) -> None:
    """With a sentence."""
    book = LogBook(output(tmp_path, 1).run)
    for wanted in (Wanted(), Wanted(Task.parse("worker:0"), 1)):
        with pytest.raises(BadCursor):
            book.page(wanted, cursor, None)


@pytest.mark.slow
def test_a_search_says_how_far_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on from there, and takes no longer than it may."""
    made = Output(written(tmp_path / "r", job(workers=1)))
    made.write("worker:0", 1, b"".join(b"line %d\n" % number for number in range(20_000)) + b"needle\n")
    monkeypatch.setattr("clusterkit.page.logbook.LOOK_FOR", 0.0)
    book, cursor, looks = LogBook(made.run), "0", 0
    while not (page := book.page(Wanted(grep="needle"), cursor, None))["lines"]:
        assert not page["done"]
        cursor, looks = page["next"], looks + 1
        assert looks < 100_000
        if looks == 50:
            monkeypatch.undo()
    assert looks >= 50


def test_random_bytes_where_logs_should_be_raise_nothing(tmp_path: Path) -> None:
    """Neither in the arrivals nor in the logs; a pipe in the place of a log is not waited for."""
    rng = random.Random(9)
    store = RunStore(tmp_path)
    for number in range(40):
        run = written(store.path / f"r{number}", job(workers=1))
        run.of_task(Task.parse("worker:0")).mkdir()
        noise = rng.randbytes(rng.randrange(1, 3000))
        lines = b"".join(b"%d.5 worker:0 1 %d\n" % (rng.randrange(99), rng.randrange(10**6)) for _ in range(20))
        run.arrivals.write_bytes(rng.choice((noise, lines, noise + b"\n" + lines, lines + noise)))
        log = run.log(Task.parse("worker:0"), 1)
        if number % 5 == 0:
            os.mkfifo(log)
        else:
            log.write_bytes(rng.randbytes(rng.randrange(5000)))
        book, began = LogBook(run), time.monotonic()
        for wanted in ({}, {"task": "worker:0", "attempt": "1"}):
            for backward in (False, True):
                pages(book, wanted, number, backward)
        assert time.monotonic() - began < 60
