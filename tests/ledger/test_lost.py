"""The result of a run whose supervisor was lost: what its journal says of attempts, restarts, steps and time."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterkit.ledger.ledger import ledger_of
from clusterkit.ledger.takeover import lost_result, result_of
from clusterkit.store.directory import RunDirectory, RunInfo
from clusterkit.supervisor.loop import Journal
from clusterkit.words.events import Event
from clusterkit.words.outcome import Exit, RunResult, RunState
from tests.histories import SIGKILL, History, job

Told = list[tuple[float, Event]]


def history() -> tuple[History, Told]:
    """worker:1 was killed, and both workers have started again; with all that was told."""
    told: Told = []
    run = History(job(workers=2), observe=lambda event, now: told.append((now, event)))
    run.begin()
    run.progresses("worker:0", 5)
    run.after(10)
    run.exits("worker:1", signal=SIGKILL)
    run.after(30)
    run.progresses("worker:0", 9)
    return run, told


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """The directory of a run that has begun."""
    made = RunDirectory(tmp_path / "runs" / "r-1")
    made.make()
    made.lock_file.touch()
    made.write_info(RunInfo(created=0.0, endpoints={}, job=job(workers=2)))
    return made


def write(run: RunDirectory, told: Told) -> None:
    """Write its journal."""
    journal = Journal(run.journal, lambda: 0.0, lambda error: None)
    for at, event in told:
        journal.write(event, at)
    journal.close()


def test_the_journal_says_how_far_the_run_had_come(run: RunDirectory) -> None:
    """Attempts that lived have ended with the supervisor, at the last thing that was written."""
    write(run, history()[1])
    result = result_of(run)
    assert result is not None
    assert (result.state, result.lost, result.exit_code) == (RunState.FAILED, True, 1)
    assert result.reason == "its supervisor was killed"
    assert [(str(one.task), one.attempt) for one in result.attempts] == [
        ("worker:0", 1), ("worker:0", 2), ("worker:1", 1), ("worker:1", 2),
    ]  # fmt: skip
    assert [one.exit == Exit(lost=True) for one in result.attempts] == [False, True, False, True]
    assert (result.restarts, result.last_step) == (1, 9)
    assert result.duration == 40.0
    assert all(one.ended == 40.0 for one in result.attempts if one.attempt == 2)


def test_who_sees_the_end_knows_when_it_was() -> None:
    """The guardian does: nothing has to be written in the run's last seconds."""
    run, told = history()
    result = lost_result(ledger_of(run.job, told), "the supervisor was killed by SIGKILL", later=2.5)
    assert result is not None
    assert (result.duration, result.reason) == (42.5, "the supervisor was killed by SIGKILL")
    assert [one.ended for one in result.attempts if one.attempt == 2] == [42.5, 42.5]


def test_a_result_that_was_decided_and_not_written_is_the_result(run: RunDirectory) -> None:
    """The supervisor was killed after its last decision."""
    ended, told = history()
    for name in ("worker:0", "worker:1"):
        ended.exits(name, code=0)
    ended.after(60)
    write(run, told)
    assert result_of(run) == ended.result


def test_what_is_written_counts(run: RunDirectory) -> None:
    """It says why, too."""
    write(run, history()[1])
    run.write_failure(1, "the supervisor was killed by SIGSEGV", lost=True)
    assert result_of(run) == RunResult(RunState.FAILED, 1, "the supervisor was killed by SIGSEGV", lost=True)


@pytest.mark.parametrize("journal", [b"", b"\x00\xff{}\n[1]\n", b'{"event": "Began", "t": "x"}\n'])
def test_without_a_journal_nothing_is_known(run: RunDirectory, journal: bytes) -> None:
    """Whatever is in the file."""
    run.journal.write_bytes(journal)
    assert result_of(run) is None
