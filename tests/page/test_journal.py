"""Journals as the dashboard reads them: all that matters of very long ones, and nothing of what makes no sense."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clusterkit.page import journal
from clusterkit.page.journal import Happening, JournalBlocks
from clusterkit.page.live import LiveRun
from clusterkit.store.directory import RunDirectory
from clusterkit.words import events as ev
from clusterkit.words.model import Task
from tests.histories import job
from tests.page.histories import beginning, line, progress, written


def read(run: RunDirectory) -> list[Happening]:
    """Everything that is read of a journal."""
    blocks = JournalBlocks(run)
    found = list(blocks.new())
    assert not blocks.has_new()
    return found


def test_of_very_many_reports_those_beside_other_events_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last ones before and the first ones after: what recoveries are worked out from."""
    monkeypatch.setattr(journal, "MOST_BETWEEN", 100)
    spec = job(workers=2)
    one, two = spec.tasks
    lines = list(beginning(spec))
    for part in range(5):
        reports = [list(progress(task, 2000, begin=1 + 100 * part)) for task in (one, two)]
        lines += [text for pair in zip(*reports, strict=True) for text in pair]
        lines.append(line(50 + 100 * part, ev.Checkpointed(one, 1, part, f"ckpt-{part}")))
    run = written(tmp_path / "r", spec, lines)
    found = read(run)
    events = [happening.event for happening in found]
    assert len(events) < 2000
    assert sum(not isinstance(event, ev.Progressed) for event in events) == sum(
        b'"Progressed"' not in text for text in lines
    )
    for number, event in enumerate(events):
        if isinstance(event, ev.Checkpointed):
            before = [other for other in events[max(0, number - 4) : number] if isinstance(other, ev.Progressed)]
            assert {(other.task, other.step) for other in before} >= {(one, 1999), (two, 1999)}
            after = [other for other in events[number + 1 : number + 7] if isinstance(other, ev.Progressed)]
            assert not after or {(other.task, other.step) for other in after} >= {(one, 0), (two, 0), (one, 1)}
    assert [happening.offset for happening in found] == sorted({happening.offset for happening in found})
    assert found[-1].offset == run.journal.stat().st_size


def test_a_line_without_an_end_is_read_later_and_one_without_bounds_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a writer is never overtaken, and no line fills the memory."""
    monkeypatch.setattr(journal, "BLOCK", 1000)
    monkeypatch.setattr(journal, "LONGEST", 5000)
    spec = job(workers=1)
    whole, last = line(0.0, ev.Began()), line(1.0, ev.Noted("last"))
    run = written(tmp_path / "r", spec, [whole, b"x" * 30_000, last[:10]])
    blocks = JournalBlocks(run)
    assert [one.event for one in blocks.new()] == [ev.Began()]
    with run.journal.open("ab") as file:
        file.write(last[10:] + last)
    assert [one.event for one in blocks.new()] == [ev.Noted("last")]


def test_random_bytes_in_a_journal_raise_nothing(tmp_path: Path) -> None:
    """Neither do lines of JSON that are no events, and the model shows what is left."""
    rng, spec = random.Random(2), job(workers=1)
    good = [*beginning(spec), *progress(spec.tasks[0], 30)]
    odd = [b"{}", b"[]", b"5", b"null", b'{"event": "Began"}', b"[" * 9999]
    at = b'{"t": 5, "m": 5, "event": '
    of = b'"task": "worker:0", "attempt": '
    odd += [
        b'{"t": 1e999, "m": 1e999, "event": "Began"}',
        b'{"t": 5, "m": "x", "event": "Began"}',
        b'{"t": null, "m": 5, "event": "Began"}',
        b'{"t": -9e10, "m": -9e10, "event": "Warned", "text": "\\ud800", "task": null}',
        at + b'"Progressed", "task": "worker:7", "attempt": 1, "step": 1, "metrics": {"a": 1e400}}',
        at + b'"Progressed", ' + of + b'1, "step": 1, "metrics": {"\\u0000": 2}}',
        at + b'"Progressed", ' + of + b'1, "step": ' + b"9" * 400 + b"}",
        at + b'"Resumed", ' + of + b'99, "step": -5, "path": null}',
        at + b'"Paused", ' + of + b'7, "paused": true}',
        at + b'"FaultHealed", "number": 9, "fault": "", "action": "kill", "tasks": [], "why": ""}',
    ]
    for number in range(30):
        lines = [*good, *(text + b"\n" for text in rng.choices(odd, k=10)), rng.randbytes(200) + b"\n"]
        rng.shuffle(lines)
        live = LiveRun(written(tmp_path / f"r{number}", spec, lines))
        live.update()
        text = live.message(None).text
        assert '"run":' in text
        assert "\x00" not in text
    assert Task.parse("worker:0") in live.model.attempts


def test_a_run_of_the_same_name_begins_anew(tmp_path: Path) -> None:
    """Where a journal is shorter than what was read of it, it is another one."""
    spec = job(workers=1)
    run = written(tmp_path / "r", spec, [*beginning(spec), *progress(spec.tasks[0], 50)])
    live = LiveRun(run)
    live.update()
    assert live.model.board.get("run").step == 49
    run.journal.write_bytes(b"".join(beginning(spec)))
    live._refreshed = float("-inf")
    live.update()
    assert live.model.board.get("run").step is None
