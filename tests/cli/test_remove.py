"""`rm` and `prune`: what is removed is what was meant, and one run that can't be removed does not keep the others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clusterkit.cli.commands import remove

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
