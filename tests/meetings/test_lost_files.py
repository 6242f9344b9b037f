"""A run whose files are removed, by hand or by another program, while it is live or afterwards."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clusterkit.cli import cli
from clusterkit.store.directory import RunDirectory
from clusterkit.views.report import report
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.outcome import RunResult, RunState
from tests.commands import Clusterkit
from tests.histories import History, job
from tests.support import ROOT, wait_until

ENDINGS = {
    "succeeded": RunResult(RunState.SUCCEEDED, 0, "worker:0 exited with code 0"),
    "failed": RunResult(RunState.FAILED, 1, "worker:0 exited with code 1"),
    "timed out": RunResult(RunState.TIMED_OUT, 124, "the job took too long"),
    "lost": RunResult(RunState.FAILED, 1, "its supervisor was killed", lost=True),
}


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """A program that prints a line, and ends once the file `go` is beside it."""
    program = tmp_path / "waits.py"
    program.write_text(
        "import pathlib, time\n"
        "print('begun', flush=True)\n"
        "while not pathlib.Path(__file__).with_name('go').exists():\n"
        "    time.sleep(0.02)\n"
    )
    return program


def _begin(ck: Clusterkit, *words: str | Path) -> tuple[subprocess.Popen[str], RunDirectory]:
    """Begin a run named x with the program, and wait for its first line."""
    command = [sys.executable, "-m", "clusterkit", "up", "--run-id", "x", *map(str, words)]
    up = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=ck.environment())
    run = RunDirectory(ck.home / "runs" / "x")
    wait_until(lambda: [log for *_, log in run.logs() if log.stat().st_size], 20, "the first line")
    return up, run


@pytest.mark.process
@pytest.mark.parametrize(("allow", "code", "mark"), [((), 3, "!"), (("--allow", "unsaved"), 0, "✔")])
def test_a_success_without_a_result_is_not_as_asked(
    ck: Clusterkit, waiting: Path, allow: tuple[str, ...], code: int, mark: str
) -> None:
    """Who wants the result, the log or the checkpoints finds nothing, and the exit code says so."""
    up, run = _begin(ck, *allow, waiting)
    shutil.rmtree(run.path)
    waiting.with_name("go").touch()
    out, _ = up.communicate(timeout=20)
    assert up.returncode == code, out
    assert "result.json could not be written: No such file or directory." in out
    assert f"{mark} run x succeeded after " in out
    assert f"The directory of this run was removed, with its logs and checkpoints: {run.path}" in out


@pytest.mark.process
def test_commands_work_on_a_live_run_without_its_job_file(ck: Clusterkit, waiting: Path) -> None:
    """The journal names the tasks."""
    up, run = _begin(ck, waiting)
    run.job_file.unlink()
    assert [row["task"] for row in ck.json("ps", "x")["tasks"]] == ["worker:0"]
    assert "waits.py" in ck("stacks", "x").out
    assert ck("restart", "x", "worker:0").out == "worker:0 restarted.\n"
    assert ck("pause", "x", "worker").out == "worker:0 is paused.\n"
    assert ck("unpause", "x", "worker").out == "worker:0 resumed.\n"
    ck("down", "x")
    up.communicate(timeout=20)
    assert up.returncode == 143


def _left(home: Path, result: RunResult) -> RunDirectory:
    """A run that is over, and of which only the journal is left."""
    run = RunDirectory(home / "runs" / "x")
    run.make()
    spec = job(workers=1)
    history = History(spec).begin()
    events: list[ev.Event] = [ev.Began(), *history.decided(ev.Changed)]
    if not result.lost:
        events.append(ev.Finished(result))
    lines = [{"t": 1.0 + at, "m": float(at), **wire.encode_event(event)} for at, event in enumerate(events)]
    run.journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run.lock_file.touch()
    return run


def _cli(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


@pytest.mark.parametrize("name", ENDINGS)
def test_all_commands_read_how_a_run_ended_in_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Without result.json, such as after a full disk, no command takes a decided end for a lost supervisor."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    result = ENDINGS[name]
    _left(tmp_path, result)
    waited = _cli("wait", "x", "--json")
    assert (waited.exit_code, json.loads(waited.stdout)["state"]) == (result.exit_code, name)
    assert json.loads(_cli("ps", "x", "--json").stdout)["state"] == name
    assert json.loads(_cli("ls", "--json").stdout)[0]["state"] == name
    assert json.loads(_cli("down", "x", "--json").stdout)["state"] == name
    ended = f"The run x {'was lost' if name == 'lost' else name}"
    assert _cli("explain", "x").stdout.startswith(ended)
    assert _cli("wait", "x").stdout == f"{ended} (exit code {result.exit_code}).\n"


def test_a_suspended_run_was_suspended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It did not suspend anything itself."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    _left(tmp_path, RunResult(RunState.SUSPENDED, 75, "preempted"))
    assert _cli("wait", "x").stdout == "The run x was suspended (exit code 75).\n"


@pytest.mark.parametrize("part", ["tasks", "journal.jsonl", "result.json"])
def test_the_report_names_what_was_removed(tmp_path: Path, part: str) -> None:
    """It does not say that everything is there."""
    run = RunDirectory(tmp_path / "x")
    run.make()
    run.result_file.touch()
    assert f"Everything of this run is in {run.path}\n" in report(ENDINGS["failed"], run, color=False)
    removed = run.path / part
    removed.rmdir() if removed.is_dir() else removed.unlink()
    text = report(ENDINGS["failed"], run, color=False)
    assert f"Everything of this run is in {run.path}, except what was removed: {part}\n" in text


def test_a_lost_run_says_how_to_continue_it(tmp_path: Path) -> None:
    """`--resume` would begin another run, and only if there is a checkpoint."""
    run = RunDirectory(tmp_path / "x")
    run.make()
    for checkpoint in (None, "/c/ckpt-4"):
        text = report(replace(ENDINGS["lost"], checkpoint=checkpoint), run, color=False)
        assert "  Continue with: clusterkit up --run-id x --continue …\n" in text
        assert "Resume with" not in text


def test_an_attempt_that_there_was_not_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty answer would look like a task that wrote nothing."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    run = _left(tmp_path, ENDINGS["failed"])
    log = run.log(job(workers=1).leader, 2)
    log.parent.mkdir()
    log.touch()
    assert _cli("logs", "x", "--attempt", "2").output == ""
    answer = _cli("logs", "x", "--attempt", "3", "worker:0")
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert "the run x has no attempt 3 of worker:0: the newest is attempt 2." in answer.stderr
