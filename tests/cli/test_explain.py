"""`clusterkit explain`: of the last failed run, of a run, of a file, of standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clusterkit.cli import cli
from clusterkit.store.directory import RunDirectory, RunInfo
from clusterkit.store.store import RunStore
from clusterkit.words.account import Account
from clusterkit.words.model import ProgramKind, Task, TaskType
from clusterkit.words.outcome import Exit, Failure, RunResult, RunState
from tests.commands import Clusterkit
from tests.explain.test_log import ORDINARY, OWN
from tests.histories import build_job

WORKER = Task(TaskType.WORKER, 1)
WHY = "Why: MultiWorkerMirroredStrategy was created after other code had initialized TensorFlow."


def explain(*words: str | Path) -> Result:
    """Call the command."""
    return CliRunner().invoke(cli, ["explain", *map(str, words)])


def said(*words: str | Path) -> str:
    """What it says, on one line."""
    outcome = explain(*words)
    assert outcome.exit_code == 0, outcome.output
    return " ".join(outcome.output.split())


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory without runs."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    return tmp_path


def ended(run_id: str, result: RunResult) -> RunDirectory:
    """A run that has ended so, with a job of two workers."""
    run = RunStore().run(run_id)
    run.make()
    os.close(run.lock())
    job = build_job({"workers": 2, "program": "train.py"}, ProgramKind.SCRIPT)
    run.write_info(RunInfo(run_id=run_id, created=1.0, endpoints={}, job=job))
    run.write_result(result, Account())
    return run


def failed(*tail: str) -> RunResult:
    """The end of a run in which worker:1 failed."""
    cause = Failure(WORKER, 1, Exit(code=1), 0.0, tail, tail[-1])
    return RunResult(RunState.FAILED, 1, "worker:1 exited with code 1", cause)


def test_the_last_run_is_meant(home: Path) -> None:
    """After a success, no older failure is explained, but it is named; so can a run be by the beginning of its id."""
    assert explain().exit_code == 2
    good = RunResult(RunState.SUCCEEDED, 0, "the chief exited with code 0")
    ended("20260101-0", good)
    assert said() == "The run 20260101-0 succeeded: there is nothing to explain."
    ended("20260101-a", failed(*OWN))
    ended("20260102-b", failed(*ORDINARY))
    ended("20260104-c", RunResult(RunState.STOPPED, 130, "it was interrupted"))
    first, _, *error, log, last = explain().output.splitlines()
    assert first == "The run 20260102-b failed: worker:1 exited with code 1 (attempt 1)."
    assert [line.strip() for line in error] == ["│ a.py:1 in <module>: x", "│ KeyError: 'x'"]
    assert log.startswith("The log: ")
    assert log.endswith("20260102-b/tasks/worker:1/attempt-1.log")
    assert last == "clusterkit has no explanation for it."
    assert WHY in said("20260101-a")
    ended("20260105-d", good)
    succeeded = "The run 20260105-d succeeded: there is nothing to explain."
    assert said("20260105-d") == succeeded
    assert said() == f"{succeeded} The last run that failed: clusterkit explain 20260102-b (train.py, in .)"


def test_a_run_as_json() -> None:
    """The addresses of public threads are whole."""
    ended("a", failed(*OWN))
    told = json.loads(explain("a", "--json").output)
    (row,) = told["explanations"]
    assert (told["run_id"], told["task"], told["error"]) == ("a", "worker:1", OWN[-1])
    assert (row["row"], row["task"]) == ("strategy-too-late", "worker:1")
    assert row["reported"][0].startswith("https://github.com/tensorflow/tensorflow/issues/")


def test_a_file(tmp_path: Path) -> None:
    """From anywhere; an ordinary error is named, and has no explanation."""
    log = tmp_path / "job.log"
    log.write_text("\n".join(f"worker:1 │ {line}" for line in OWN))
    assert said(log).startswith(f"worker:1 failed first: {OWN[-1]} {WHY}")
    log.write_text("\n".join(ORDINARY))
    assert said(log) == "It failed: KeyError: 'x' clusterkit has no explanation for it."
    log.write_bytes(bytes(range(256)) * 100)
    assert "This log contains no Python traceback" in said(log)
    assert json.loads(explain(log, "--json").output) == {
        "run_id": None, "task": None, "error": None, "explanations": [],
    }  # fmt: skip


@pytest.mark.parametrize("word", ["nosuch", "/nonexistent/job.log", "/", "/dev/zero", "worker:1", "a/b"])
def test_what_can_not_be_read(word: str) -> None:
    """One line, and exit code 2."""
    outcome = explain(word)
    assert outcome.exit_code == 2
    assert outcome.output.count("\n") == 1


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("words", [["-"], []], ids=["named", "redirected"])
def test_standard_input(words: list[str], tmp_path: Path) -> None:
    """A pipe, or a file to which it is redirected."""
    command = [sys.executable, "-m", "clusterkit", "explain", *words]
    text = "\n".join(OWN)
    piped = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert WHY in " ".join(piped.stdout.split())
    (tmp_path / "job.log").write_text(text)
    with (tmp_path / "job.log").open() as file:
        redirected = subprocess.run(command, stdin=file, capture_output=True, text=True, timeout=30)
    assert redirected.stdout == piped.stdout


@pytest.mark.process
@pytest.mark.slow
def test_a_run_is_explained_where_it_is_shown(ck: Clusterkit, tmp_path: Path) -> None:
    """By `up`, in result.json, by `show`, by `explain` and in Markdown."""
    program = tmp_path / "train.py"
    program.write_text("raise RuntimeError('Collective ops must be configured at program startup')\n")
    up = ck("up", "--workers", "2", "--restart", "never", "--run-id", "mine", program, code=1)
    shown = [up, ck("show"), ck("explain"), ck("explain", "mine")]
    assert [WHY in " ".join(answer.out.split()) for answer in shown] == [True] * 4
    result = ck.json("show", "mine", "--json")["result"]
    assert [row["row"] for row in result["explanations"]] == ["strategy-too-late"]
    assert result["finding"] == f"{result['explanations'][0]['means']} {result['explanations'][0]['advice']}"
    assert "Why: `MultiWorkerMirroredStrategy was created" in ck("report", "--format", "md", "-o", "-").out


@pytest.mark.process
@pytest.mark.slow
def test_standard_input_that_stays_silent(tmp_path: Path) -> None:
    """It is said what is waited for."""
    command = [sys.executable, "-m", "clusterkit", "explain", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert process.stderr.readline() == "Reading a log from standard input …\n".encode()
        process.stdin.close()
        assert process.wait(20) == 0
