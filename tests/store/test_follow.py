"""Following a run until it is over: every look, the last one after the end, and no look too many."""

from __future__ import annotations

import fcntl
from itertools import islice
from pathlib import Path

import pytest

from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader, RunEndWaiter, follow

LINES = [b'{"number": %d}\n' % number for number in range(4)]


class Script:
    """A run in which something is written while its follower waits; says when the run is over."""

    def __init__(self, run: RunDirectory, *writes: bytes) -> None:
        self.run, self.writes = run, list(writes)
        self.waits = list[float]()

    def is_over(self, seconds: float) -> bool:
        """Write what comes next; the run is over with the last of it."""
        self.waits.append(seconds)
        with self.run.journal.open("ab") as journal:
            journal.write(self.writes.pop(0))
        return not self.writes


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run without a journal yet."""
    return RunDirectory(tmp_path)


def numbers(script: Script, offset: int = 0) -> list[list[int]]:
    """The numbers that each look sees."""
    looks = follow(JournalReader(script.run, offset).new, script.is_over, every=0.5)
    return [[entry.message["number"] for entry in entries] for entries in looks]


def test_what_comes_while_it_waits_is_seen_at_the_next_look(run: RunDirectory) -> None:
    """Each line once; what was written before the end too; one look for each wait, and no other."""
    script = Script(run, LINES[0] + LINES[1], b"", LINES[2], LINES[3])
    assert numbers(script) == [[], [0, 1], [], [2], [3]]
    assert script.waits == [0.5] * 4


def test_half_a_line_is_seen_once_it_is_whole(run: RunDirectory) -> None:
    """And never, where the supervisor was killed in the middle of it; garbage is passed over."""
    script = Script(run, LINES[0][:5], LINES[0][5:] + b"\xff[{\n", LINES[1] + LINES[2][:5])
    assert numbers(script) == [[], [], [0], [1]]


def test_it_begins_at_an_offset(run: RunDirectory) -> None:
    """In the middle of a line, at the next one."""
    run.journal.write_bytes(b"".join(LINES[:3]))
    assert numbers(Script(run, b""), offset=len(LINES[0])) == [[1, 2], []]
    assert numbers(Script(run, b""), offset=len(LINES[0]) + 3) == [[2], []]


def test_the_time_is_up(run: RunDirectory) -> None:
    """Not before a look and a last question whether the run is over."""
    script = Script(run, b"", b"")
    looks = follow(JournalReader(run).new, script.is_over, timeout=0.0)
    assert next(looks) == []
    with pytest.raises(TimeoutError):
        next(looks)
    assert script.waits == [0.0]
    assert list(follow(JournalReader(run).new, script.is_over, timeout=0.0)) == [[], []]


def test_a_look_can_come_sooner(run: RunDirectory) -> None:
    """The waiting is the caller's: where it returns at once, so does the next look."""
    looks = follow(JournalReader(run).new, lambda seconds: False, every=1000.0)
    assert list(islice(looks, 3)) == [[], [], []]


def test_a_run_is_over_when_its_lock_is_free(run: RunDirectory) -> None:
    """However its supervisor ended, and whatever its files say; one that never had a lock is over too."""
    assert RunEndWaiter(run).is_over(10)
    run.result_file.write_text("{}")
    with run.lock_file.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        life = RunEndWaiter(run)
        assert not life.is_over(0.01)
    assert life.is_over(10)
