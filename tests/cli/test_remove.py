"""`rm` and `prune`: what is removed is what was meant, and one run that can't be removed does not keep the others."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clusterkit.cli.commands import remove
from clusterkit.store.directory import RunDirectory, RunGone
from clusterkit.store.removals import Removals
from clusterkit.words import wire
from clusterkit.words.events import Finished
from clusterkit.words.outcome import RunResult, RunState

ENDED = '{"state": "failed", "exit_code": 1, "reason": "x"}'


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    return tmp_path


def finished(state: Path, name: str, age: float = 0.0) -> Path:
    """A run that ended so many seconds ago."""
    run = state / "runs" / name
    (run / "tasks" / "worker:0").mkdir(parents=True)
    for file, content in (("lock", ""), ("job.json", "{}"), ("result.json", ENDED), ("tasks/worker:0/log", "")):
        (run / file).write_text(content)
    ended = (run / "result.json").stat().st_mtime - age
    os.utime(run / "result.json", (ended, ended))
    return run


def rm(*words: str, said: str | None = None) -> Result:
    """What `clusterkit rm` prints, and its exit code; `said` is typed on a terminal."""
    return CliRunner().invoke(remove.rm, words, input=said)


def test_rm_takes_a_whole_id(state: Path) -> None:
    """A part of one may be a slip; --prefix says that it is not."""
    run = finished(state, "best-model")
    refused = rm("b")
    what = "best-model was not removed: 'b' is the beginning of its id. Give the whole id, or --prefix."
    assert (refused.exit_code, refused.stdout, refused.stderr) == (1, "", f"clusterkit: {what}\n")
    assert run.exists()
    assert rm("--prefix", "b").output == "best-model\n"
    assert not run.exists()


@pytest.mark.parametrize(("said", "code", "kept"), [("y\n", 0, False), ("n\n", 1, True), ("\n", 1, True)])
def test_rm_asks_on_a_terminal(state: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: int, kept: bool) -> None:
    """No is the usual answer. A whole id is not asked about."""
    monkeypatch.setattr(remove, "can_ask", lambda: True)
    run, whole = finished(state, "best-model"), finished(state, "old")
    answer = rm("old", "best", said=said)
    assert "'best' is the beginning of the id best-model. Remove best-model? [y/N]" in answer.stderr
    assert (answer.exit_code, run.exists(), whole.exists()) == (code, kept, False)


@pytest.mark.parametrize("dry", [False, True])
def test_one_run_that_can_not_be_removed_does_not_stop_prune(
    state: Path, monkeypatch: pytest.MonkeyPatch, dry: bool
) -> None:
    """The others go, exit code 1 says that one did not, and how that one ended is still known."""
    busy = finished(state, "busy", 7200.0)
    finished(state, "newer", 3600.0)
    finished(state, "older", 9000.0)
    removed = shutil.rmtree

    def fails(path: Any, *args: Any, **options: Any) -> None:
        if busy in Path(path).parents:
            raise OSError(16, "Device or resource busy", str(path))
        removed(path, *args, **options)

    monkeypatch.setattr(shutil, "rmtree", fails)
    answer = CliRunner().invoke(remove.prune, ["--keep", "0", *(["--dry-run"] if dry else [])])
    if dry:
        assert (answer.exit_code, answer.output) == (0, "newer\nbusy\nolder\n")
        return
    why = f"Cannot remove the run busy: Device or resource busy ({busy / 'tasks'})."
    assert (answer.exit_code, answer.stdout, answer.stderr) == (1, "newer\nolder\n", f"clusterkit: {why}\n")
    assert (busy / "result.json").read_text() == ENDED
    assert (busy / "job.json").exists()
    assert sorted(path.name for path in (state / "runs").iterdir()) == ["busy"]


def test_a_link_to_a_run_is_not_followed(state: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What it leads to is somebody else's."""
    run = finished(tmp_path_factory.mktemp("other"), "theirs")
    (state / "runs").mkdir()
    (state / "runs" / "link").symlink_to(run)
    answer = rm("link")
    assert answer.exit_code == 1
    assert "Cannot remove the run link: it is a symbolic link" in answer.stderr
    assert (run / "result.json").exists()


SUSPENDED = '{"state": "suspended", "exit_code": 75, "reason": "its time limit is reached"}'
LOST = '{"state": "failed", "exit_code": 1, "reason": "x", "lost": true}'


def continuable(state: Path, name: str, result: str | None, age: float = 7200.0) -> Path:
    """A run that `--continue` could continue, with a checkpoint."""
    run = finished(state, name, age)
    (run / "journal.jsonl").write_text('{"t": 1, "m": 1, "event": "Began"}\n')
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "ckpt-5.index").touch()
    if result is None:
        (run / "result.json").unlink()
    else:
        (run / "result.json").write_text(result)
    for file in run.iterdir():
        os.utime(file, (1.0, 1.0))
    return run


def lock_of(run: Path) -> int:
    """What another process holds while a run is live."""
    descriptor = os.open(run / "lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


@pytest.mark.parametrize("result", [SUSPENDED, LOST, None])
@pytest.mark.parametrize("dry", [False, True])
def test_prune_keeps_what_can_be_continued(state: Path, result: str | None, dry: bool) -> None:
    """It has no final result, whatever it ended with; --keep does not count it."""
    run = continuable(state, "wanted", result)
    over = finished(state, "over", 7200.0)
    new = finished(state, "new")
    words = ["--older-than", "1h", "--keep", "1", *(["--dry-run"] if dry else [])]
    answer = CliRunner().invoke(remove.prune, words)
    assert (answer.exit_code, answer.stdout) == (0, "over\n")
    assert "Kept 1 run that can be continued with `up --run-id ID --continue`: wanted." in answer.stderr
    assert "`clusterkit rm --force ID` removes it." in answer.stderr
    assert (run.exists(), over.exists(), new.exists()) == (True, dry, True)
    assert (run / "checkpoints" / "ckpt-5.index").exists()
    as_json = json.loads(CliRunner().invoke(remove.prune, [*words, "--json"]).stdout)
    assert as_json == {"removed": ["over"] if dry else [], "kept": ["wanted"]}


@pytest.mark.parametrize("result", [SUSPENDED, LOST, None])
def test_rm_of_what_can_be_continued_needs_force(state: Path, result: str | None) -> None:
    """The message says how to continue it, and how to remove it."""
    run = continuable(state, "wanted", result)
    refused = rm("wanted")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "`up --run-id wanted --continue` continues it" in refused.stderr
    assert "clusterkit rm --force wanted" in refused.stderr
    assert run.exists()
    assert rm("--force", "wanted").output == "wanted\n"
    assert not run.exists()
    removal = Removals(state).find("wanted")
    assert removal is not None
    assert removal.by == "`clusterkit rm`"


def test_a_run_whose_journal_has_its_end_is_over(state: Path) -> None:
    """Its supervisor was lost just before it wrote the result."""
    run = continuable(state, "decided", None)
    ended = RunResult(RunState.FAILED, 1, "worker:0 exited with code 1")
    line = {"t": 2.0, "m": 2.0, **wire.encode_event(Finished(ended))}
    with (run / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps(line) + "\n")
    assert rm("decided").output == "decided\n"


def test_a_run_that_never_began_is_over(state: Path) -> None:
    """There is nothing to continue."""
    run = finished(state, "empty")
    (run / "result.json").unlink()
    assert rm("empty").output == "empty\n"


def test_the_lock_is_held_while_a_run_is_removed(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So nobody continues what is left of it; whoever waits for the lock then learns that the run is gone."""
    path = finished(state, "over")
    run = RunDirectory(path)
    seen = list[bool]()
    removed = shutil.rmtree

    def look(*args: Any, **options: Any) -> None:
        seen.append(run.is_live())
        removed(*args, **options)

    monkeypatch.setattr(shutil, "rmtree", look)
    assert rm("over").output == "over\n"
    assert seen == [True]
    with pytest.raises(RunGone):
        run.lock(0.0)
    assert not path.exists()


def test_a_lock_of_a_file_that_was_removed_is_none(state: Path) -> None:
    """The file is opened again, and then it is the lock of this run."""
    path = finished(state, "over")
    run = RunDirectory(path)
    other = lock_of(path)
    (path / "lock").unlink()
    mine = run.lock(0.0)
    assert run.is_live()
    os.close(mine)
    os.close(other)


def test_a_live_run_is_not_removed(state: Path) -> None:
    """Neither by force."""
    run = finished(state, "busy")
    lock = lock_of(run)
    for words in (("busy",), ("--force", "busy")):
        answer = rm(*words)
        assert (answer.exit_code, answer.stdout) == (1, "")
        assert "The run busy is live. Stop it first: clusterkit down busy" in answer.stderr
    os.close(lock)
    with RunDirectory(run).shared_lock():
        assert "was not removed: another run copies its checkpoints" in rm("--force", "busy").stderr
    assert run.exists()
