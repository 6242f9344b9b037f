"""The journal as a client reads it: while it is written, and whatever is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import KEPT_REPORTS, JournalLine, JournalReader, events_of
from clusterkit.words import events as ev
from clusterkit.words import wire
from tests.histories import task

WORKER = task("worker:1")


def line(at: float, event: ev.Event) -> bytes:
    """As the supervisor writes it."""
    return json.dumps({"t": at, "m": at, **wire.encode_event(event)}).encode() + b"\n"


def test_each_event_is_read_once_and_half_a_line_later(tmp_path: Path) -> None:
    """The rest of a line that is being written comes with the next look."""
    run = RunDirectory(tmp_path)
    journal, reader = run.journal, JournalReader(run)
    assert reader.events() == []
    whole, half = line(1.0, ev.Began()), line(2.0, ev.Ready(WORKER, 1))
    journal.write_bytes(whole + half[:20])
    assert reader.events() == [(1.0, ev.Began())]
    assert reader.events() == []
    journal.write_bytes(whole + half)
    assert reader.events() == [(2.0, ev.Ready(WORKER, 1))]


def test_what_is_no_event_is_left_out(tmp_path: Path) -> None:
    """Garbage, JSON that is something else, and events of a version to come."""
    strange = [
        b"\xff", b"[]", b"{}", b'{"t": 1, "event": "Spawned"}', b'{"t": 1, "event": "Spawned", "task": 3}',
        b"[" * 100_000, b'{"t": 1e999, "event": "Ticked"}', b'{"t": 1%s, "event": "Ticked"}' % (b"0" * 400),
        b'{"t": 1, "event": []}',
    ]  # fmt: skip
    (tmp_path / "journal.jsonl").write_bytes(b"\n".join(strange) + b"\n" + line(1.0, ev.Ticked()))
    assert JournalReader(RunDirectory(tmp_path)).events() == [(1.0, ev.Ticked())]


def test_a_number_that_json_has_not_is_null(tmp_path: Path) -> None:
    """A program may report NaN; those who read what `--json` prints may not know it."""
    run = RunDirectory(tmp_path)
    run.journal.write_bytes(b'{"event": "Progressed", "metrics": {"loss": NaN, "more": -Infinity}}\n')
    (entry,) = JournalReader(run).new()
    assert entry.message["metrics"] == {"loss": None, "more": None}


def test_old_progress_is_passed_over_where_only_the_present_matters(tmp_path: Path) -> None:
    """The last reports of each task stay, and everything else, in order."""
    progress = [line(n, ev.Progressed(task(f"worker:{n % 2}"), 1, n)) for n in range(1000)]
    (tmp_path / "journal.jsonl").write_bytes(line(0.0, ev.Began()) + b"".join(progress) + line(1e3, ev.Ticked()))
    events = events_of(JournalReader(RunDirectory(tmp_path)).newest())
    assert [type(event) for _, event in (events[0], events[-1])] == [ev.Began, ev.Ticked]
    assert [at for at, _ in events[1:-1]] == [float(n) for n in range(1000 - 2 * KEPT_REPORTS, 1000)]


def test_a_reader_goes_on_from_the_offset_of_an_entry(tmp_path: Path) -> None:
    """Whoever comes back with the offset of the last one that it saw misses nothing and sees nothing twice."""
    run = RunDirectory(tmp_path)
    run.journal.write_bytes(line(1.0, ev.Began()) + b"garbage\n" + line(2.0, ev.Ticked()) + line(3.0, ev.Ticked()))
    entries = JournalReader(run).new()
    assert [entry.event() for entry in entries] == [(1.0, ev.Began()), (2.0, ev.Ticked()), (3.0, ev.Ticked())]
    for index, entry in enumerate(entries):
        assert events_of(JournalReader(run, entry.offset).new()) == events_of(entries[index + 1 :])


@pytest.mark.parametrize("wall", [None, "soon", 1e300, [], {}, float("nan"), float("inf"), -1e12])
def test_an_event_without_a_proper_wall_time_is_none(wall: object) -> None:
    """A damaged journal may have anything there."""
    message = {"t": wall, "m": 1.0, **wire.encode_event(ev.Began())}
    assert JournalLine(0, message).timed() is None
    assert JournalLine(0, {**message, "t": 2.0}).timed() == (1.0, ev.Began(), 2.0)
    assert JournalLine(0, {**message, "t": 2.0, "m": wall}).timed() is None
