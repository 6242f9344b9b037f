"""Replay: what happened, read back from a journal, leads a fresh machine to the same decisions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from clusterkit.ledger.ledger import ledger_of
from clusterkit.ledger.takeover import history_of
from clusterkit.machine.core import Machine
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.supervisor.loop import Journal
from clusterkit.words import events as ev
from clusterkit.words.actions import Record
from clusterkit.words.job import JobSpec, Limits, RestartRules
from tests.histories import SIGKILL, SIGTERM, History, job


def a_ps_job(run: History) -> None:
    """A ps is killed, then a worker; the chief resumes and succeeds."""
    run.progresses("chief:0", 10)
    run.checkpoints("chief:0", 10)
    run.after(3)
    run.exits("ps:0", signal=SIGKILL)
    run.after(4)
    run.resumes("chief:0", 10, "ckpt-10")
    run.exits("worker:1", exception="ValueError: bits \ud800 and all")
    run.after(0.37)
    run.progresses("chief:0", 11)
    run.after(5)
    run.exits("chief:0", code=0)
    run.after(30)


def a_failing_gang(run: History) -> None:
    """Every attempt fails until the budget is used up."""
    while not run.over:
        run.exits("worker:1", exception="ValueError: x")
        run.exits("worker:0", exception="UnavailableError: y")
        run.after(41.7)


def a_gang_that_shrinks(run: History) -> None:
    """It loses its first worker, and succeeds with the others."""
    for _ in range(2):
        run.checkpoints("worker:0", 10)
        run.exits("worker:0", signal=SIGKILL)
        run.after(41.7)
    run.exits("worker:1", code=0)
    run.after(41.7)


def a_failing_worker(run: History) -> None:
    """The coordinator continues without it, then restarts without it, and succeeds."""
    run.progresses("chief:0", 10)
    for name in ("worker:1", "worker:1", "chief:0"):
        run.exits(name, signal=SIGKILL)
        run.after(41.7)
    run.exits("chief:0", code=0)
    run.after(41.7)


def a_stalled_and_stopped_job(run: History) -> None:
    """A stall is warned of and then acted upon; Ctrl-C and the grace period end the rest."""
    run.stubborn.add("worker:0")
    run.vitals["worker:1"] = ev.Vitals(1, True, "T")
    run.progresses("worker:0", 3)
    run.after(75)
    run.vitals.clear()
    run.after(75)
    run.send(ev.Interrupted(SIGTERM))
    run.after(60)


@pytest.mark.parametrize(
    ("spec", "story"),
    [
        (job(workers=2, ps=1, evaluator=1), a_ps_job),
        (job(workers=2, restart=RestartRules(budget=2)), a_failing_gang),
        (job(workers=2, limits=Limits(stall=70)), a_stalled_and_stopped_job),
        (job(workers=4, restart=RestartRules(budget=1, min_workers=3)), a_gang_that_shrinks),
        (job(workers=2, ps=1, restart=RestartRules(budget=1, min_workers=1)), a_failing_worker),
    ],
)
def test_a_journal_replays_to_the_same_decisions(
    spec: JobSpec, story: Callable[[History], None], tmp_path: Path
) -> None:
    """The machine is a function of the job, the seed and the events: the journal proves it."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, lambda: 1.7e9, pytest.fail)
    run = History(spec, seed=77, now=12345.678901234, observe=journal.write)
    story(run.begin())
    journal.close()
    assert run.over
    machine, replayed, recorded = Machine(spec, 77), [], []
    for now, event in JournalReader(RunDirectory(path.parent)).events("m"):
        if isinstance(event, get_args(ev.Happened)):
            replayed += [(now, a.event) for a in machine.handle(event, now) if isinstance(a, Record)]
        else:
            recorded.append((now, event))
    assert recorded == replayed
    assert [event for _, event in recorded] == [record.event for record in run.asked(Record)]


def test_another_seed_decides_otherwise() -> None:
    """The seed is part of what a replay needs: it decides the jitter of the backoff."""
    delays = set()
    for seed in range(5):
        run = History(job(workers=1), seed=seed).begin()
        run.exits("worker:0", code=1)
        delays.add(run.decided(ev.RestartPlanned)[0].delay)
    assert len(delays) == 5


def test_a_journals_last_line_may_be_cut_off(tmp_path: Path) -> None:
    """A supervisor that was killed while it wrote leaves a readable journal."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, lambda: 0.0, pytest.fail)
    journal.write(ev.Began(), 1.5)
    journal.write(ev.Interrupted(2), 2.5)
    journal.close()
    path.write_bytes(path.read_bytes()[:-5])
    assert list(JournalReader(RunDirectory(path.parent)).events("m")) == [(1.5, ev.Began())]


class FullDisk:
    """A file that takes a few bytes at a time, and after some of them none."""

    def __init__(self, room: int) -> None:
        self.room, self.taken = room, b""

    def write(self, data: memoryview) -> int:
        """As many bytes as fit, at most seven."""
        if not self.room:
            raise OSError(28, "No space left on device")
        part = bytes(data[: min(7, self.room)])
        self.room -= len(part)
        self.taken += part
        return len(part)

    def close(self) -> None:
        """Nothing to let go of."""


@pytest.mark.parametrize(("room", "told"), [(10_000, []), (130, ["could not be written: No space left on device"])])
def test_a_full_disk_is_told_once_and_leaves_whole_lines(
    room: int, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes a part of a line gets the rest of it; where it takes nothing more, the writing ends."""
    errors: list[str] = []
    path, disk = tmp_path / "journal.jsonl", FullDisk(room)
    journal = Journal(path, lambda: 0.0, errors.append)
    journal.close()
    monkeypatch.setattr(journal, "_file", disk)
    for number in range(10):
        journal.write(ev.Interrupted(number), 1.0)
    path.write_bytes(disk.taken)
    assert errors == [f"the journal {text}" for text in told]
    read = [event for _, event in JournalReader(RunDirectory(path.parent)).events("m")]
    assert read == [ev.Interrupted(number) for number in range(len(read))]
    assert len(read) == (10 if not told else 2)


def test_the_journal_of_a_run_with_several_allocations_replays(tmp_path: Path) -> None:
    """Each machine begins with what the journal says until then, and decides as it did."""
    path, spec = tmp_path / "journal.jsonl", job(workers=2, ps=1)
    journal = Journal(path, lambda: 0.0, pytest.fail)
    run = History(spec, seed=77, observe=journal.write).begin()
    for number in (2, 3):
        run.progresses("chief:0", 10 * number)
        run.checkpoints("chief:0", 10 * number)
        run.exits("worker:1", signal=SIGKILL)
        if number == 2:
            run.send(ev.AllocationEnding("it was requeued", 20.0))
        before = history_of(ledger_of(spec, JournalReader(RunDirectory(path.parent)).events("m")))
        run = History(spec, seed=77, now=before.last_event_at + 50, before=before, observe=journal.write)
        run.send(ev.Continued(number))
    run.exits("chief:0", code=0)
    run.after(30)
    journal.close()
    machine, replayed, recorded = Machine(spec, 77), [], []
    past: list[tuple[float, ev.Event]] = []
    for now, event in JournalReader(RunDirectory(path.parent)).events("m"):
        if isinstance(event, ev.Continued):
            machine = Machine(spec, 77, history_of(ledger_of(spec, past)))
        past.append((now, event))
        if isinstance(event, get_args(ev.Happened)):
            replayed += [(now, a.event) for a in machine.handle(event, now) if isinstance(a, Record)]
        else:
            recorded.append((now, event))
    assert recorded == replayed
    assert [event.allocation for _, event in past if isinstance(event, ev.Continued)] == [2, 3]
