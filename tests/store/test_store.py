"""The run store: what a run writes is read back, and broken or older files are read as far as they go."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.store.directory import RunDirectory, RunInfo
from clusterkit.store.store import NoSuchRun, RunStore, newest_first
from clusterkit.words import wire
from clusterkit.words.account import Account
from clusterkit.words.errors import RunDirectoryError
from clusterkit.words.outcome import RunResult, RunState
from tests.histories import job, task

ENDPOINTS = {task("worker:0"): "127.0.0.1:2000", task("worker:1"): "127.0.0.1:2001"}
INFO = RunInfo(created=7.0, pid=42, endpoints=ENDPOINTS, job=job(workers=2), run_id="one", checkpoints="/data")
RESULT = RunResult(RunState.SUCCEEDED, 0, "worker:0 exited with code 0", duration=3.0)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """An empty one."""
    return RunStore(tmp_path)


@pytest.fixture
def run(store: RunStore) -> RunDirectory:
    """A run that was only just created."""
    made = store.run("one")
    made.make()
    return made


@pytest.fixture
def live(store: RunStore) -> Iterator[RunDirectory]:
    """A run whose supervisor is this process."""
    made = store.run("live")
    made.make()
    descriptor = made.lock()
    yield made
    os.close(descriptor)


def test_runs_that_can_not_be_listed_are_one_clear_error(tmp_path: Path) -> None:
    """Not the same as that there are none: a misspelled home has none."""
    none = RunStore(tmp_path / "gone")
    assert [*none.all(), *none.campaigns()] == []
    store = RunStore(tmp_path / ("x" * 300))
    for look in (store.all, store.campaigns, store.newest_any):
        with pytest.raises(RunDirectoryError, match=r"File name too long .* Set CLUSTERKIT_HOME"):
            look()


def test_a_checkpoint_directory_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    """CLUSTERKIT_HOME has nothing to do with it."""
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError) as raised:
        RunStore(tmp_path).run("one", f"{tmp_path}/file/x").make()
    assert str(raised.value).startswith(f"Cannot use the checkpoint directory {tmp_path}/file/x: Not a directory")
    assert "CLUSTERKIT_HOME" not in str(raised.value)
    assert not (tmp_path / "runs/one").exists()


def test_all_directories_that_a_run_makes_are_for_its_owner_only(tmp_path: Path) -> None:
    """Also those above its own, whatever the umask: who could write there might put another run in its place."""
    before = os.umask(0)
    try:
        made = RunStore(tmp_path / "state/clusterkit").run("one")
        made.make()
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").rglob("*") if path.is_dir()} == {0o700}
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_what_a_run_writes_is_read_back(run: RunDirectory) -> None:
    """At its beginning, and at its end."""
    assert (run.info(), run.result(), run.account()) == (None, None, None)
    run.write_info(INFO)
    run.write_result(RESULT, Account())
    assert (run.info(), run.result(), run.account()) == (INFO, RESULT, Account())
    assert (run.created(), run.endpoints(), run.used_checkpoints()) == (7.0, ENDPOINTS, Path("/data"))


def test_a_failure_is_added_to_a_result(run: RunDirectory) -> None:
    """Also where there is none yet; what was known before stays."""
    run.write_failure(1, "the supervisor was killed by SIGKILL")
    assert run.result() == RunResult(RunState.FAILED, 1, "the supervisor was killed by SIGKILL")
    run.write_result(RESULT, Account())
    run.write_failure(70, "a defect")
    assert run.result() == RunResult(RunState.FAILED, 70, "a defect", duration=3.0)


HUGE = b'{"created": 1%s}' % (b"0" * 400)


@pytest.mark.parametrize(
    "written", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"job": 1}', b'{"created": "x"}', HUGE]
)
def test_broken_files_hold_nothing(run: RunDirectory, written: bytes) -> None:
    """No error, whatever is in them."""
    run.job_file.write_bytes(written)
    run.result_file.write_bytes(written)
    assert (run.info(), run.result(), run.account()) == (None, None, None)
    assert (run.endpoints(), run.used_checkpoints()) == ({}, run.checkpoints)
    assert run.created() == run.changed()


@pytest.mark.parametrize("extra", [{}, {"of": "a newer clusterkit"}])
def test_files_of_other_versions_are_read(run: RunDirectory, extra: dict[str, Any]) -> None:
    """With less in them than today, or more."""
    start = {"created": 7.0, "endpoints": wire.encode(ENDPOINTS), "job": wire.encode(INFO.job)}
    run.job_file.write_text(json.dumps({**start, **extra}))
    run.result_file.write_text(json.dumps({"state": "failed", "exit_code": 1, "reason": "lost", **extra}))
    assert run.info() == RunInfo(created=7.0, endpoints=ENDPOINTS, job=INFO.job)
    assert run.result() == RunResult(RunState.FAILED, 1, "lost")


def test_a_run_that_starts_is_neither_live_nor_over(run: RunDirectory, live: RunDirectory) -> None:
    """For a minute: after that, without a lock, it has come to nothing."""
    assert (run.is_live(), run.is_over()) == (False, False)
    assert (live.is_live(), live.is_over()) == (True, False)
    os.utime(run.journal, (1.0, 1.0))
    assert run.is_over()


def test_a_run_is_chosen_by_the_beginning_of_its_id(store: RunStore, live: RunDirectory) -> None:
    """Or by its directory; without one the newest live run, and else, if that will do, the newest."""
    for run_id, created in (("two", 1.0), ("twelve", 9.0), ("t", 3.0)):
        run = store.run(run_id)
        run.make()
        run.job_file.write_text(json.dumps({"created": created}))
    assert [run.run_id for run in newest_first(store.all())][1:] == ["twelve", "t", "two"]
    assert store.choose(None, finished=True).run_id == "live"
    assert [store.find(prefix).run_id for prefix in ("twe", "two", "t")] == ["twelve", "two", "t"]
    with pytest.raises(NoSuchRun, match="'tw' matches several runs: twelve, two"):
        store.find("tw")
    with pytest.raises(NoSuchRun, match=r"/nowhere is not the directory of a run\."):
        store.find("/nowhere")
    with pytest.raises(NoSuchRun, match="is not the directory of a run"):
        store.find("x/" * 3000)
    with pytest.raises(NoSuchRun, match="There is no run 'x'"):
        store.choose("x", finished=True)


def test_without_runs_there_is_nothing_to_choose(store: RunStore) -> None:
    """The message says what to do."""
    with pytest.raises(NoSuchRun, match=r"There is no run in .*\. Start one: clusterkit up PROGRAM"):
        store.choose(None, finished=True)
    with pytest.raises(NoSuchRun, match=r"No run is live\. Start one: clusterkit up PROGRAM"):
        store.choose(None, finished=False)
    store.run("one").make()
    with pytest.raises(NoSuchRun, match=r"No run is live\. The newest, one, is over: see `clusterkit show`\."):
        store.choose(None, finished=False)


def test_a_run_id_is_taken_once(run: RunDirectory) -> None:
    """The run that has it stays as it is."""
    with pytest.raises(RunDirectoryError, match="A run one already exists"):
        run.make()
    assert run.journal.exists()


def test_who_can_not_write_sees_whether_a_run_is_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host that has mounted the state directory read-only."""
    run = RunStore(tmp_path).run("r-1")
    run.make()
    lock = run.lock()
    opened, opened_file = os.open, Path.open

    def read_only(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *args, **kwargs)

    def read_only_file(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if set(mode) & {"w", "a", "+"}:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))
        return opened_file(self, mode, *args, **kwargs)

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(Path, "open", read_only_file)
    assert run.is_live()
    waiting = threading.Thread(target=run.wait_until_over)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    os.close(lock)
    waiting.join(10)
    assert not waiting.is_alive()
    assert not run.is_live()
