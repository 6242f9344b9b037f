"""After a failure: what explains its traceback is in the result, and nothing that a file holds harms it."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusterkit.check import reading
from clusterkit.explain import explaining
from clusterkit.explain.explaining import explained as explained_in
from clusterkit.store.directory import RunDirectory
from clusterkit.system.barrier import start_thread
from clusterkit.views.report import report
from clusterkit.words import wire
from clusterkit.words.account import Account
from clusterkit.words.distribution import Undistributed, WhyAlone
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind, Task, TaskType
from clusterkit.words.outcome import Asked, AttemptEnded, Exit, Failure, FailureRole, RoleKind, RunResult, RunState
from tests.histories import build_job

TF = "import json, os\nimport tensorflow as tf\n"
MADE = "strategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
FIXED = "os.environ['TF_CONFIG'] = json.dumps({'cluster': {'worker': ['a:1']}})\n"
BEGIN = "Traceback (most recent call last):"
STARTUP = "RuntimeError: Collective ops must be configured at program startup"
GENERAL = (
    "MultiWorkerMirroredStrategy was created after other code had initialized TensorFlow. "
    "Create the strategy before any tensor,"
)
RANDOM = "ImportError: cannot import name 'Random' from 'random' (/somewhere/random.py)"


def job_of(place: Path, text: str | bytes, **options: Any) -> JobSpec:
    """A job with two workers and this program."""
    (place / "main.py").write_bytes(text.encode() if isinstance(text, str) else text)
    return build_job({"workers": 2, "program": str(place / "main.py"), **options}, ProgramKind.SCRIPT)


def failed(*tail: str, exit_: Exit | None = None) -> RunResult:
    """The result of a run in which worker:1 failed with this log."""
    cause = Failure(Task(TaskType.WORKER, 1), 1, exit_ or Exit(code=1), 0.0, tail, tail[-1] if tail else None)
    return RunResult(RunState.FAILED, 1, "worker:1 exited with code 1", cause, (), (), 0, None, 1.0)


def explained(result: RunResult, job: JobSpec) -> RunResult:
    """The result with its explanations, of a run whose directory is gone."""
    return explained_in(result, job, RunDirectory(Path("/nonexistent/run")), Account())


def finding(result: RunResult, job: JobSpec) -> str | None:
    """The text of the explanation of the failure."""
    return explained(result, job).finding


def test_an_option_of_up_that_the_program_got_explains_its_failure(tmp_path: Path) -> None:
    """Before anything that its text may show."""
    job = job_of(tmp_path, TF, args=["--workers", "3"])
    found = finding(failed("main.py: error: unrecognized arguments: --workers 3", exit_=Exit(code=2)), job)
    assert str(found).startswith("--workers is an option of `clusterkit up`, but ")


CAUSES = {  # a program, files beside it, the job, the exception, and what is said
    "a strategy that is too late": (f"{TF}tf.zeros(1)\n"
    f"{MADE}", {}, {}, STARTUP, "main.py:4: The strategy is created after"),
    "one in a method": (f"{TF}class T:\n    {MADE}", {}, {}, STARTUP, "main.py:4: The strategy is created when"),
    "TF_CONFIG": (f"{TF}{FIXED}{MADE}", {}, {}, "UnknownError: Could not start gRPC server", "main.py:3: TF_CONFIG"),
    "no ps": (
        f"{TF}s = tf.distribute.ParameterServerStrategy(r)\n", {}, {},
        "ValueError: There must be at least one ps.", "Add --ps 1.",
    ),
    "a ps too many": (f"{TF}{MADE}", {}, {"ps": 1}, "ValueError: There is no id for task_type 'ps'", "Remove --ps"),
    "a file of all": (
        f"{TF}{MADE}model.save('m.h5')\n", {}, {},
        "BlockingIOError: [Errno 11] unable to lock file, errno = 11", "main.py:4: All tasks (2 workers) write"
    ),
    "a hidden module": (TF, {"random.py": ""}, {}, RANDOM, "random.py:1: This file hides Python's own module random"),
    "a hidden package": (
        TF, {"keras.py": ""}, {}, "AttributeError: module 'keras' has no attribute '__version__'", "the package keras",
    ),
    "one that is half imported": (
        TF, {"numpy.py": ""}, {},
        "AttributeError: partially initialized module 'numpy' has no attribute 'array' (most likely due to a circular "
        "import)", "the package numpy",
    ),
    "a package that is a file": (
        TF, {"six.py": ""}, {}, "ModuleNotFoundError: No module named 'six.moves'; 'six' is not a package", "six",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "beside", "options", "exception", "said"), CAUSES.values(), ids=CAUSES)
def test_the_cause_is_explained(
    tmp_path: Path, text: str, beside: dict[str, str], options: dict[str, Any], exception: str, said: str
) -> None:
    """The finding that causes such an exception explains it; other exceptions are not explained."""
    for name, content in beside.items():
        (tmp_path / name).write_text(content)
    job = job_of(tmp_path, text, **options)
    assert said in str(finding(failed(BEGIN, exception), job))
    assert finding(failed(BEGIN, "KeyError: 'x'"), job) is None
    assert finding(failed(f"it said {exception}", BEGIN, "KeyError: 'x'"), job) is None
    assert said not in str(finding(failed(BEGIN, exception), job_of(tmp_path, "print(1)\n")))


def test_the_finding_whose_line_is_in_the_traceback_wins(tmp_path: Path) -> None:
    """The other finding may be correct too, but did not fail."""
    job = job_of(tmp_path, f"{TF}def a():\n    {MADE}def b():\n    {MADE}b()\n")
    second = f'  File "{tmp_path}/main.py", line 6, in b'
    assert str(finding(failed(BEGIN, STARTUP), job)).startswith(f"{tmp_path}/main.py:4: ")
    assert str(finding(failed(BEGIN, second, STARTUP), job)).startswith(f"{tmp_path}/main.py:6: ")


def test_a_start_that_hangs_is_explained_without_a_cause(tmp_path: Path) -> None:
    """All tasks believe to be the same one, so each waits for the others; a stopped run is not explained."""
    reason = "worker:0, worker:1 did not open their ports and reported no progress within 40 s of the start"
    hung = RunResult(RunState.FAILED, 1, reason, None, (), (), 0, None, 1.0)
    job = job_of(tmp_path, f"{TF}{FIXED}{MADE}")
    assert str(finding(hung, job)).startswith(f"{tmp_path}/main.py:3: TF_CONFIG is")
    assert "    Why: " in report(explained(hung, job), RunDirectory(tmp_path), color=False)
    assert finding(replace(hung, state=RunState.STOPPED), job) is None


@pytest.mark.parametrize("exit_", [Exit(signal=9), Exit(error="no such file"), Exit(code=42), Exit(code=0)])
def test_ends_that_are_not_explained(tmp_path: Path, exit_: Exit) -> None:
    """Signals, failed starts and preemptions are not explained."""
    assert finding(failed(BEGIN, STARTUP, exit_=exit_), job_of(tmp_path, f"{TF}tf.zeros(1)\n{MADE}")) is None


HOSTILE = {
    "null bytes": b"import tensorflow\n\0\0",
    "no text": b"import tensorflow\n\xff\xfe\xfa" * 100,
    "parentheses": b"import tensorflow as tf\nx = " + b"(" * 100_000,
    "signs": b"import tensorflow as tf\nx = " + b"-" * 100_000 + b"1",
    "attributes": b"import tensorflow as tf\nx" + b".a" * 100_000,
    "calls": b"import tensorflow as tf\nx" + b"()" * 100_000,
    "sums": b"import tensorflow as tf\nx = 1" + b" + 1" * 50_000,
    "branches": b"import tensorflow as tf\n" + b"".join(b" " * n + b"if 1:\n" for n in range(99)) + b" " * 99 + b"1",
    "more than is read": b"import tensorflow as tf\n" + b"x = 1\n" * 1_000_000,
    "names of each other": b"import tensorflow as tf\na = b\nb = c\nc = a\na.b.c()\n",
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_does_no_harm(tmp_path: Path, text: bytes) -> None:
    """It causes no error and no long wait; what is said does not depend on it."""
    before = time.process_time()
    assert str(finding(failed(BEGIN, STARTUP), job_of(tmp_path, text))).startswith(GENERAL)
    assert time.process_time() - before < explaining.WITHIN + 3  # others may have the machine meanwhile


def test_missing_files_do_no_harm(tmp_path: Path) -> None:
    """The program may be removed, or replaced by a pipe without a writer."""
    job = job_of(tmp_path, TF)
    (tmp_path / "main.py").unlink()
    assert str(finding(failed(BEGIN, STARTUP), job)).startswith(GENERAL)
    os.mkfifo(tmp_path / "main.py")
    assert str(finding(failed(BEGIN, STARTUP), job)).startswith(GENERAL)


@pytest.mark.parametrize("error", [MemoryError, RecursionError, OSError, AssertionError])
def test_an_error_in_the_check_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Only the program's line is missing."""

    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(reading, "findings_of", fails)
    said = finding(failed(BEGIN, STARTUP), job_of(tmp_path, f"{TF}tf.zeros(1)\n{MADE}"))
    assert str(said).startswith(GENERAL)


def test_the_check_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that hangs does not keep the run from ending."""
    released = threading.Event()
    monkeypatch.setattr(reading, "findings_of", lambda *_, **__: released.wait(30) or [])
    monkeypatch.setattr(explaining, "WITHIN", 0.05)
    before = time.monotonic()
    assert str(finding(failed(BEGIN, STARTUP), job_of(tmp_path, TF))).startswith(GENERAL)
    assert time.monotonic() - before < 10
    released.set()


def test_the_time_limit_is_for_the_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusterkit's own modules, which may be slow to load, have been imported by then."""
    module = "clusterkit.explain.evidence"
    monkeypatch.delitem(sys.modules, module)
    loaded: list[bool] = []

    def start(*args: Any) -> threading.Thread:
        loaded.append(module in sys.modules)
        return start_thread(*args)

    monkeypatch.setattr(explaining, "start_thread", start)
    explained(failed(BEGIN, STARTUP), job_of(tmp_path, TF))
    assert loaded == [True]


def test_the_explanation_is_in_the_report_and_in_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has it above the last lines of the log, whole and set apart, and the result as fields."""
    monkeypatch.chdir(tmp_path)  # so that the program's name is short
    result = explained(failed(BEGIN, STARTUP), job_of(tmp_path, f"{TF}tf.zeros(1)\n{MADE}"))
    lines = report(result, RunDirectory(tmp_path), color=False, width=80).splitlines()
    begins = ("    Why: ", "    │ ")
    start, end = (next(at for at, line in enumerate(lines) if line.startswith(begin)) for begin in begins)
    block = lines[start - 1 : end]
    assert (block[0], block[-1], max(map(len, block)) <= 80) == ("", "", True)
    said = " ".join(" ".join(block).replace("Why: ", "").replace("Fix: ", "").split())
    assert "main.py:4: The strategy is created after line 3" in said
    assert result.explanations[0].advice in said
    assert wire.decode(RunResult, wire.encode(result)) == result
    assert "Why:" not in report(failed(BEGIN, STARTUP), RunDirectory(tmp_path), color=False)


def test_a_failure_that_was_overcome_is_explained(tmp_path: Path) -> None:
    """The job has succeeded after a restart, but its program still has the mistake."""
    run, job, worker = RunDirectory(tmp_path), job_of(tmp_path, TF), Task(TaskType.WORKER, 1)
    run.of_task(worker).mkdir(parents=True)
    run.log(worker, 1).write_text(f"{BEGIN}\n{STARTUP}\n")
    role = FailureRole(RoleKind.CAUSE, worker, 1)
    ended = AttemptEnded(worker, 1, 0.0, 1.0, Exit(code=1), None, None, None, None, role=role)
    result = RunResult(RunState.SUCCEEDED, 0, "", attempts=(ended,), restarts=1)
    said = explained_in(result, job, run, Account())
    assert [one.row for one in said.explanations] == ["strategy-too-late"]
    assert "    Why: " in report(said, run, color=False)


def test_servers_still_run_when_the_coordinator_has_finished(tmp_path: Path) -> None:
    """They never finish by themselves, so that nothing was cut off."""
    ends = [(Task(TaskType.CHIEF, 0), Exit(code=0)), (Task(TaskType.WORKER, 0), Exit(signal=9, asked=Asked.SUCCESS))]
    attempts = tuple(AttemptEnded(task, 1, 0.0, 1.0, exit_, 0, None, None, None) for task, exit_ in ends)
    alone = Undistributed((ends[0][0],), WhyAlone.NEVER_CONNECTED, ("MirroredStrategy",), has_ps=True)
    result = RunResult(RunState.SUCCEEDED, 0, "", attempts=attempts, undistributed=alone)
    said = explained_in(result, job_of(tmp_path, TF, workers=1, ps=1), RunDirectory(tmp_path), Account())
    assert [one.row for one in said.explanations] == ["no-strategy"]


@pytest.mark.parametrize(
    ("exit_", "row"), [(Exit(code=1), "leaves-early"), (Exit(signal=9, asked=Asked.SUCCESS), "ended-with-the-chief")]
)
def test_a_worker_that_had_not_finished_is_explained(tmp_path: Path, exit_: Exit, row: str) -> None:
    """The chief ended at another step (tensorflow#45839), and is named although the run succeeded."""
    run, job, (chief, worker) = RunDirectory(tmp_path), job_of(tmp_path, TF), (Task(TaskType.WORKER, n) for n in (0, 1))
    run.of_task(worker).mkdir(parents=True)
    aborted = "UnavailableError: Collective ops is aborted by: Socket closed"
    run.log(worker, 1).write_text(f'{BEGIN}\n  File "/home/me/train.py", line 9, in <module>\n{aborted}\n')
    ends = [(chief, Exit(code=0), 16), (worker, exit_, 20)]
    attempts = tuple(AttemptEnded(task, 1, 0.0, 1.0, exit_, 0, step, None, None) for task, exit_, step in ends)
    late = Failure(worker, 1, exit_, 1.0, (aborted,), aborted)
    said = explained_in(
        RunResult(RunState.SUCCEEDED, 0, "", attempts=attempts, unfinished=(late,)), job, run, Account()
    )
    assert [one.row for one in said.explanations] == [row]
    assert said.explanations[0].means.startswith("worker:0 ")
    assert "worker:1" in said.explanations[0].means


def test_a_server_that_is_ended_after_the_success_is_no_late_worker(tmp_path: Path) -> None:
    """A parameter-server job ends so, also one that recovered from a failure: nothing is said of it."""
    run = RunDirectory(tmp_path)
    chief, ps, worker = Task(TaskType.CHIEF, 0), Task(TaskType.PS, 0), Task(TaskType.WORKER, 1)
    ended, killed = Exit(signal=15, asked=Asked.SUCCESS), FailureRole(RoleKind.CAUSE, worker, 1)
    attempts = (
        AttemptEnded(worker, 1, 0.0, 1.0, Exit(signal=9), None, None, None, None, role=killed),
        *(AttemptEnded(task, 1, 0.0, 9.0, ended, None, None, None, None) for task in (worker, ps)),
        AttemptEnded(chief, 1, 0.0, 9.0, Exit(code=0), 0, 20, None, None),
    )
    job = job_of(tmp_path, TF, ps=1)
    assert explained_in(RunResult(RunState.SUCCEEDED, 0, "", attempts=attempts), job, run, Account()).explanations == ()
