"""The directory of a run that was left: reopened for another supervisor, whatever is in it."""

from __future__ import annotations

import fcntl
import os
import random
import stat
from pathlib import Path

import pytest

from clusterkit.store.directory import RunDirectory
from clusterkit.words.errors import RunDirectoryError
from tests.histories import task

WORKER = task("worker:0")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run that began, with a task."""
    directory = RunDirectory(tmp_path / "runs" / "x")
    directory.make()
    directory.add_task(WORKER)
    return directory


def test_what_tasks_wrote_stays_and_what_was_the_supervisors_goes(run: RunDirectory) -> None:
    """Logs, checkpoints and lines of the journal; its result and its key."""
    run.log(WORKER, 1).write_text("said")
    (run.checkpoints / "ckpt").write_text("weights")
    run.journal.write_bytes(b'{"event": "Began"}\n')
    run.write_failure(1, "the supervisor was killed by SIGKILL", lost=True)
    run.agents_key.write_text("secret")
    result = run.result()
    assert result is not None
    assert not result.final
    run.reopen()
    assert (run.log(WORKER, 1).read_text(), (run.checkpoints / "ckpt").read_text()) == ("said", "weights")
    assert run.journal.read_bytes() == b'{"event": "Began"}\n'
    assert (run.result(), run.agents_key.exists()) == (None, False)


def test_what_is_missing_is_made(run: RunDirectory) -> None:
    """Somebody has tidied up."""
    run.tensorboard.rmdir()
    run.journal.unlink()
    run.reopen()
    assert run.tensorboard.is_dir()
    assert run.journal.read_bytes() == b""
    assert stat.S_IMODE(run.journal.stat().st_mode) == 0o600


@pytest.mark.parametrize("seed", range(40))
def test_only_the_line_that_was_not_written_to_its_end_is_cut_off(run: RunDirectory, seed: int) -> None:
    """Also where it is longer than a block, or the only one; the seed is in the test's name."""
    draw = random.Random(seed)
    sizes = [draw.choice((0, 1, 7, 65535, 65536, 65537, 200_000)) for _ in range(draw.randrange(4))]
    whole = b"".join(bytes(draw.choices(b"ab\xff{}", k=size)) + b"\n" for size in sizes)
    half = bytes(draw.choices(b"xyz", k=draw.choice((0, 1, 65536, 70_000))))
    run.journal.write_bytes(whole + half)
    run.reopen()
    assert run.journal.read_bytes() == whole


@pytest.mark.parametrize("make", [Path.touch, lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/null")])
def test_pipes_are_new(run: RunDirectory, make: object) -> None:
    """Whatever is in their place, so that a process that was left can't speak for a later attempt."""
    for pipe in (run.progress(WORKER), run.requests(WORKER)):
        pipe.unlink()
        assert callable(make)
        make(pipe)
    old = os.lstat(run.progress(WORKER)).st_ino
    holder = os.open(run.progress(WORKER), os.O_RDONLY | os.O_NONBLOCK)  # keeps its number from being used again
    run.add_task(WORKER)
    os.close(holder)
    assert all(stat.S_ISFIFO(pipe.lstat().st_mode) for pipe in (run.progress(WORKER), run.requests(WORKER)))
    assert run.progress(WORKER).lstat().st_ino != old or stat.S_ISFIFO(run.progress(WORKER).lstat().st_mode)


@pytest.mark.parametrize("name", ["journal.jsonl", "result.json", "tasks/arrivals", "agents.pem"])
def test_a_directory_in_the_place_of_a_file_is_named(run: RunDirectory, name: str) -> None:
    """Nothing of it is removed."""
    place = run.path / name
    place.unlink(missing_ok=True)
    (place / "deep").mkdir(parents=True)
    with pytest.raises(RunDirectoryError, match=r"Cannot use the run directory"):
        run.reopen()
    assert (place / "deep").is_dir()


def test_a_live_run_can_not_be_taken(run: RunDirectory) -> None:
    """Its supervisor has the lock; a client that just looks is waited for."""
    held = run.lock()
    with pytest.raises(RunDirectoryError, match=r"The run x is still running"):
        RunDirectory(run.path).lock(0.0)
    fcntl.flock(held, fcntl.LOCK_UN)
    taken = RunDirectory(run.path).lock(0.0)
    assert run.is_live()
    os.close(held)
    os.close(taken)
