"""Warm starts without TensorFlow: which tasks a run's fork server serves, and how it fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterkit.warm.fork_client import ANSWER_WITHIN, Launch
from clusterkit.warm.servable import Preload
from clusterkit.warm.starter import ForkServerSettings, WarmStarter
from clusterkit.words.events import Noted
from tests.losses import lose
from tests.support import CHILDREN, Up, fork_server_of, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

FORKED = CHILDREN / "forked.py"
GOOD = ("--preload", "preloads.good", "--restart-backoff", "0")
JOB = ("--workers", "2", "--ps", "1", "--restart-backoff", "0.1", "--grace-period", "1")
Start = Callable[..., Up]


def told(run: Up, task: str = "worker:0", attempt: int = 1) -> dict[str, Any]:
    """The report of an attempt of forked.py about itself."""
    said: dict[str, Any] = json.loads(run.log(task, attempt))
    return said


def reasons(run: Up) -> list[str]:
    """The lines that give the reasons for cold starts."""
    said = [line.partition(" │ ") for line in run.output.splitlines()]
    own = [text for who, _, text in said if who.strip() == "clusterkit"]
    return [line for line in own if "cold" in line or "fork server" in line]


def test_every_attempt_is_forked_from_one_server(up: Start) -> None:
    """First ones and restarts; the imported modules are available, and no descriptor of the server is open."""
    run = up("--workers", "2", "--restart-scope", "task", *GOOD, FORKED, "2")
    assert run.wait(30) == 0
    assert len(run.pids()["worker:0"]) == 3
    cold = 3 + 1  # the standard ones, and that of the stack dumps
    for attempt in (1, 2, 3):
        assert told(run, attempt=attempt)["warm"] is True
        assert len(told(run, attempt=attempt)["descriptors"]) == cold
    assert len(run.events("Noted", server="ready")) == 1
    assert reasons(run) == []


def test_a_program_without_tensorflow_has_no_fork_server(up: Start) -> None:
    """A cold start costs less."""
    run = up(FORKED, "0")
    assert run.wait(30) == 0
    assert told(run)["warm"] is False
    assert not (run.run / "fork-server.log").exists()
    assert reasons(run) == []


def test_a_cold_start_can_be_requested(up: Start) -> None:
    """Also for a command."""
    run = up("--start", "cold", "sleep", "0.01")
    assert run.wait(30) == 0
    assert not (run.run / "fork-server.log").exists()


REFUSED = {  # what is preloaded: the line that says why the tasks start cold
    "missing": "the import failed: ModuleNotFoundError: No module named 'no_such_module_anywhere'",
    "threads": "a preloaded module has started threads (a pool of its own), which a fork does not have",
}


@pytest.mark.parametrize("preload", REFUSED)
def test_a_preload_that_can_not_be_forked_is_reported_and_the_run_is_cold(up: Start, preload: str) -> None:
    """In one line, and no other server is started, since it would fail in the same way."""
    run = up("--preload", f"preloads.{preload}", "--restart-backoff", "0", FORKED, "1")
    assert run.wait(30) == 0
    assert reasons(run) == [f"The fork server is gone ({REFUSED[preload]}); tasks start cold from now on."]
    assert [told(run, attempt=attempt)["warm"] for attempt in (1, 2)] == [False, False]


def test_a_restart_in_a_deleted_directory_is_a_start_that_fails(up: Start, tmp_path: Path) -> None:
    """The program can't be found any longer; the run ends as after any failure."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "good.py").write_text("")
    (place / "program.py").write_text("print('it began')\nimport time\ntime.sleep(600)\n")
    run = up("--workers", "1", "--preload", "good", "--restart-backoff", "0", "program.py", cwd=place)
    wait_until(lambda: "it began" in run.output, 20, lambda: f"the program; it printed {run.output}")
    run.wait_for("Spawned")  # the journal may have it later than the output has that
    shutil.rmtree(place)
    run.kill("worker:0")
    assert run.wait(40) == 1, run.output
    failed = run.events("SpawnFailed")[0]
    assert failed["error"] == f"No such file or directory ({place} (deleted))"


def test_a_server_that_is_killed_during_its_imports_is_replaced_twice(up: Start, tmp_path: Path) -> None:
    """No task waits for the second one, and after the third no other is started."""
    run = up("--preload", "preloads.killed", FORKED, "0", "1", tmp_path)
    run.wait_for("Noted", count=3, server="lost")
    (tmp_path / "1").touch()
    assert run.wait(30) == 0
    lost = run.events("Noted", server="lost")
    assert [event["again"] for event in lost] == [True, True, False]
    assert lost[0]["m"] < run.events("Spawned")[0]["m"]
    assert told(run)["warm"] is False


def test_servers_that_die_at_once_are_replaced_twice(up: Start, tmp_path: Path) -> None:
    """One that has forked a task does not count; after three others in a row the run continues cold, with a message."""
    run = up(*GOOD, FORKED, "1", "1", tmp_path)
    run.wait_for("Spawned")  # by the first of them
    for count in (1, 2, 3, 4):
        os.kill(run.fork_server(count), signal.SIGKILL)
        run.wait_for("Noted", count=count, server="lost")
    (tmp_path / "1").touch()
    assert run.wait(30) == 0
    lost = run.events("Noted", server="lost")
    assert [event["again"] for event in lost] == [True] * 3 + [False]
    assert len(run.events("Noted", server="ready")) == 4
    assert [told(run, attempt=attempt)["warm"] for attempt in (1, 2)] == [True, False]
    assert reasons(run)[-1] == "The fork server is gone (it was killed); tasks start cold from now on."


def test_a_server_that_can_not_start_does_not_fail_the_run(tmp_path: Path) -> None:
    """For example if its log can't be created; the run reports that."""
    posted: list[Any] = []
    launch = Launch(sys.executable, dict(os.environ), Preload(False), str(tmp_path / "no" / "log"))
    starts = WarmStarter(ForkServerSettings(launch), posted.append, lambda: posted.append("changed"))
    starts.replace_lost()
    starts.stop()
    why = "it could not start: No such file or directory"
    assert posted == [Noted(f"The fork server is gone ({why}); tasks start cold from now on."), "changed"]


def job_file(place: Path, text: str) -> Path:
    """A job of two workers that starts warm."""
    file = place / "job.toml"
    file.write_text(
        f"program = '{FORKED}'\nargs = ['0']\nworkers = 2\nrestart-scope = 'task'\n"
        f"preload = ['preloads.good']\n{text}\n"
    )
    return file


def test_a_variable_that_is_read_at_import_makes_its_tasks_cold(up: Start, tmp_path: Path) -> None:
    """The server suits most tasks, here the workers; for every other one a line gives the reason."""
    run = up("-f", job_file(tmp_path, "evaluator = true\n[task.worker.env]\nOMP_NUM_THREADS = '1'\nMINE = '2'"))
    assert run.wait(30) == 0
    assert told(run)["warm"] is True
    assert told(run, "evaluator:0")["warm"] is False
    assert reasons(run) == [
        "evaluator:0 starts cold: its OMP_NUM_THREADS differs from the fork server's, and is read at import."
    ]


def test_another_interpreter_makes_a_task_cold(up: Start, tmp_path: Path) -> None:
    """The server has another interpreter."""
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    run = up("-f", job_file(tmp_path, f"evaluator = true\n[task.evaluator]\npython = '{python}'"))
    assert run.wait(30) == 0
    assert [told(run, task)["warm"] for task in ("worker:0", "worker:1", "evaluator:0")] == [True, True, False]
    assert reasons(run) == [f"evaluator:0 starts cold: it runs with another interpreter, {python}."]


def test_a_module_beside_the_program_that_the_server_has_from_elsewhere(up: Start, tmp_path: Path) -> None:
    """The task has to import its own; a file that appears between two attempts counts too."""
    (tmp_path / "wanted.py").touch()
    (tmp_path / "main.py").write_text(
        "import mmap, os, sys, time\nfrom pathlib import Path\nprint(getattr(mmap, 'OWN', None), flush=True)\n"
        "if os.environ['CLUSTERKIT_ATTEMPT'] == '1':\n"
        "    Path(__file__).with_name('mmap.py').write_text('OWN = True')\n    sys.exit(1)\n"
    )
    run = up("--preload", "wanted", "--restart-backoff", "0", tmp_path / "main.py")
    assert run.wait(30) == 0
    assert [run.log("worker:0", attempt) for attempt in (1, 2)] == [b"None\n", b"True\n"]
    assert reasons(run) == [f"worker:0 starts cold: {tmp_path} has modules with the names of preloaded ones: mmap."]


def test_modules_that_a_preload_imports_from_the_programs_directory(up: Start, tmp_path: Path) -> None:
    """It is the task's own module, and the task starts warm; for a task in another directory it is not."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "wanted.py").write_text("import brought")
        (tmp_path / name / "brought.py").write_text(f"import os\nFROM = '{name}'\nBORN_IN = os.getpid()")
        (tmp_path / name / "train.py").write_text(
            "import os, wanted, brought\nprint(brought.FROM, brought.BORN_IN != os.getpid())"
        )
    job = (
        f"module = 'train'\ncwd = '{tmp_path / 'a'}'\nworkers = 2\nevaluator = true\n"
        f"preload = ['wanted']\n[task.evaluator]\ncwd = '{tmp_path / 'b'}'\n"
    )
    (tmp_path / "job.toml").write_text(job)
    run = up("-f", tmp_path / "job.toml")
    assert run.wait(30) == 0
    assert [run.log(task) for task in ("worker:0", "worker:1")] == [b"a True\n", b"a True\n"]
    assert run.log("evaluator:0") == b"b False\n"
    assert reasons(run) == [
        f"evaluator:0 starts cold: {tmp_path / 'b'} has modules with the names of preloaded ones: brought, wanted."
    ]


def test_ctrl_c_while_the_server_imports_ends_at_once(up: Start, home: Path) -> None:
    """No task has started, and none counts as failed."""
    run = up(*JOB, "--preload", "preloads.slow", CHILDREN / "roles.py")
    wait_until(lambda: b"importing" in (run.run / "fork-server.log").read_bytes(), 20, "the import")
    run.signal(signal.SIGINT)
    assert run.wait(3) == 130
    assert run.events("Spawned") == []
    assert processes_of(home) == {}


@pytest.mark.parametrize("victim", ["supervisor", "guardian"])
@pytest.mark.parametrize("preload", ["slow", "good"])
def test_sigkill_of_the_supervisor_or_the_guardian_ends_the_server_too(
    up: Start, home: Path, victim: str, preload: str
) -> None:
    """During its imports, and while its tasks are live."""
    run = up(*JOB, "--preload", f"preloads.{preload}", CHILDREN / "roles.py", "--steps", "10000")
    if preload == "good":
        run.wait_for_step(1)
    else:
        wait_until(lambda: b"importing" in (run.run / "fork-server.log").read_bytes(), 20, "the import")
    os.kill(run.supervisor if victim == "supervisor" else run.process.pid, signal.SIGKILL)
    assert run.wait(5) == (1 if victim == "supervisor" else -signal.SIGKILL)
    wait_until(lambda: not processes_of(home), 2, lambda: f"everything is gone; left: {processes_of(home)}")


def test_both_killed_at_once_take_server_and_forks_with_them(up: Start, home: Path) -> None:
    """By the parent-death signal, since guardian and supervisor are gone."""
    run = up(*JOB, *GOOD, CHILDREN / "roles.py", "--steps", "10000")
    run.wait_for_step(1)
    lose(run)
    run.wait(5)
    wait_until(lambda: not processes_of(home), 2, lambda: f"everything is gone; left: {processes_of(home)}")


def test_a_server_that_hangs_is_given_up(up: Start, home: Path, tmp_path: Path) -> None:
    """A restart waits some seconds for it, then starts cold; later ones use another server."""
    run = up(*GOOD, FORKED, "2", "1", "2", tmp_path)
    hanging = run.fork_server()
    run.wait_for("Spawned")
    os.kill(hanging, signal.SIGSTOP)
    (tmp_path / "1").touch()
    lost = run.wait_for("Noted", server="lost")
    second = run.wait_for("Spawned", attempt=2)
    planned = run.events("RestartPlanned")[0]
    assert ANSWER_WITHIN - 0.5 < second["m"] - planned["m"] < ANSWER_WITHIN + 5
    assert (lost["why"], lost["again"]) == (f"it did not answer within {ANSWER_WITHIN:g} s", True)
    another = run.fork_server(count=2)
    wait_until(lambda: fork_server_of(home) == another, 5, "the end of the one that hung")
    (tmp_path / "2").touch()
    assert run.wait(30) == 0
    assert [told(run, attempt=attempt)["warm"] for attempt in (1, 2, 3)] == [True, False, True]


def test_a_server_that_hangs_does_not_delay_the_end(up: Start) -> None:
    """It has no state, and is killed."""
    run = up(*JOB, *GOOD, CHILDREN / "roles.py", "--steps", "10000")
    run.wait_for_step(1)
    os.kill(run.fork_server(), signal.SIGSTOP)
    run.signal(signal.SIGINT)
    assert run.wait(5) == 130
