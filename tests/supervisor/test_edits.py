"""`up --watch`: real runs whose program is edited."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from clusterkit.words.model import TaskState
from tests.commands import Clusterkit
from tests.projects import Project
from tests.support import Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]

Start = Callable[..., Up]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A program of its own for each test."""
    return Project(tmp_path / "project")


def started(up: Start, project: Project, *flags: str) -> Up:
    """A run of the project that has made a step."""
    run = up("--workers", "2", *(flags or ("--watch",)), project.path / "train.py", project.path)
    wait_until(project.runs, 20, lambda: f"the first attempts; it printed {run.output}")
    run.wait_for("Checkpointed", 20)
    return run


def stopped(run: Up) -> None:
    """Ctrl-C, and the run ends."""
    run.signal(signal.SIGINT)
    assert run.wait(20) == 130, run.output


def none_is_alive(run: Up) -> bool:
    """Whether no task runs, by the journal."""
    last = {event["task"]: event["state"] for event in run.events("Changed")}
    return set(last.values()) == {TaskState.DOWN.value}


def runs_the_newest(project: Project, run: Up) -> None:
    """Wait until what was saved last runs."""
    wait_until(project.runs, 20, lambda: f"version {project.version}; the run printed\n{run.output[-3000:]}")


def test_a_session(up: Start, project: Project) -> None:
    """A module is edited, broken and mended; renamed and named back; the program raises, and is mended."""
    run = started(up, project)
    project.write_part()
    runs_the_newest(project, run)
    assert run.wait_for("EditTrains", 20)["seconds"] < 15
    (resumed, *_) = run.events("Resumed", attempt=2)
    assert resumed["step"] > 0
    project.write_part("VERSION = (\n")
    run.wait_for("ProgramChanged", 20, problem="part.py:1 is not valid Python: '(' was never closed in `VERSION = (`")
    (project.path / "part.py").rename(project.path / "parts.py")
    run.wait_for("ProgramChanged", 20, problem="part.py is gone, and train.py imports it")
    assert {event["attempt"] for event in run.events("Spawned")} == {1, 2}, "nothing restarts with such a program"
    project.write_part()
    runs_the_newest(project, run)
    project.write_program(raises=True)
    waits = run.wait_for("WaitsForChange", 20)
    assert "my bug" in waits["reason"]
    wait_until(lambda: none_is_alive(run), 20, "the end of all tasks")
    project.write_program()
    runs_the_newest(project, run)
    stopped(run)
    assert "train.py changed: restarting all tasks from the checkpoint of step" in run.output
    assert "The job failed: worker:" in run.output
    assert "Waiting for a change to" in run.output
    assert run.result["restarts"] >= 3


def test_fresh_trains_from_the_start(up: Start, project: Project) -> None:
    """The checkpoints so far are kept beside the new ones, under a number."""
    run = started(up, project, "--watch-fresh")
    for number in (1, 2):
        run.wait_for("Checkpointed", 20, attempt=number)
        project.write_part()
        runs_the_newest(project, run)
        assert run.wait_for("Resumed", 20, task="worker:0", attempt=number + 1)["step"] == 0
    stopped(run)
    assert int((run.run / "checkpoints-1" / "step.ckpt").read_text()) >= 5
    assert int((run.run / "checkpoints-2" / "step.ckpt").read_text()) >= 5
    assert f"The checkpoints so far are in {run.run / 'checkpoints-2'}." in run.output
    assert "part.py changed: restarting all tasks from the start." in run.output
    assert "steps are lost" not in run.output


def test_a_preloaded_module_renews_the_fork_server(up: Start, project: Project) -> None:
    """Else every fork would have the old one. A change of the program alone does not."""
    run = started(up, project, "--watch", "--preload", "part")
    first = run.fork_server()
    project.write_program()
    runs_the_newest(project, run)
    project.write_part()
    runs_the_newest(project, run)
    assert run.fork_server(2) != first
    assert {event["forked"] for event in run.events("Spawned")} == {True}
    stopped(run)
    assert "The fork server is gone (part.py has changed, which it had imported); another one starts" in run.output


@pytest.mark.parametrize("how", ["made again", "exchanged"])
def test_a_directory_that_is_replaced_has_the_new_program(up: Start, project: Project, how: str) -> None:
    """The run stands in it, and so did the tasks, but what counts is the directory that has its name now."""
    run = up("--workers", "2", "--watch", "train.py", project.path, cwd=project.path)
    wait_until(project.runs, 20, lambda: f"the first attempts; it printed {run.output}")
    if how == "made again":
        shutil.rmtree(project.path)
        project.path.mkdir()
        project.write_program()
        project.write_part()
    else:
        new = Project(project.path.with_name("new"), version=10)
        project.path.rename(project.path.with_name("old"))
        new.path.rename(project.path)
        project.version, project.program, project.part = new.version, new.program, new.part
    runs_the_newest(project, run)
    project.write_part()
    runs_the_newest(project, run)
    stopped(run)


def test_a_directory_that_is_gone_fails_the_job_which_waits_for_a_change(up: Start, project: Project) -> None:
    """A task that has to restart meanwhile can't; with the directory the program starts again."""
    run = up("--workers", "2", "--watch", "train.py", project.path, cwd=project.path)
    wait_until(project.runs, 20, lambda: f"the first attempts; it printed {run.output}")
    shutil.rmtree(project.path)
    run.wait_for("ProgramChanged", 20)
    run.kill("worker:1")
    run.wait_for("WaitsForChange", 40)
    project.path.mkdir()
    project.write_program()
    project.write_part()
    runs_the_newest(project, run)
    stopped(run)


def test_a_directory_whose_name_is_not_utf_8_is_watched_too(up: Start, tmp_path: Path) -> None:
    """Where it is, the journal and the run's files say as well as they can."""
    project = Project(tmp_path / os.fsdecode(b"caf\xe9"))
    run = up("--workers", "2", "--watch", "train.py", project.path, cwd=project.path)
    wait_until(project.runs, 20, lambda: f"the first attempts; it printed {run.output}")
    project.write_part()
    runs_the_newest(project, run)
    stopped(run)


def test_a_detached_run_whose_program_raises_is_live(project: Project, ck: Clusterkit) -> None:
    """The command says so and returns; the run waits for a change, and trains after it."""
    project.write_program(raises=True)
    ended = ck(
        "up",
        "-d",
        "--workers",
        "2",
        "--run-id",
        "edits",
        "--watch",
        "--restart",
        "never",
        project.path / "train.py",
        project.path,
    )
    assert ended.code == 0
    assert "exited with code 1 (ValueError: my bug). Waiting for a change" in ended.err
    assert "waiting" in ck("ls").out
    project.write_program()
    wait_until(project.runs, 20, "the mended program")
    assert ck("down", "edits").code == 0


EDITS = ("program", "part", "part", "broken program", "broken part", "raises", "renamed", "deleted", "package",
         "directory", "touched", "replaced", "bytes")  # fmt: skip


def edit(project: Project, kind: str, chance: random.Random) -> None:
    """One edit. What was renamed or deleted stays so until an edit writes it again."""
    place = project.path
    program, module = place / "train.py", place / "part.py"
    if kind == "program":
        project.write_program()
    elif kind == "part":
        shutil.rmtree(place / "part", ignore_errors=True)
        project.write_part()
    elif kind in ("broken program", "raises"):
        project.write_program(broken=kind == "broken program", raises=kind == "raises")
    elif kind == "broken part":
        project.write_part("VERSION = (\n")
    elif kind == "bytes":
        module.write_bytes(chance.randbytes(100))
    elif kind == "package":
        (place / "part").mkdir(exist_ok=True)
        project.write_part()
        with suppress(FileNotFoundError):
            module.rename(place / "part" / "__init__.py")
    elif kind == "directory":
        place.rename(place.with_name("elsewhere"))
        place.with_name("elsewhere").rename(place)
    with suppress(FileNotFoundError):
        if kind == "renamed":
            chance.choice([program, module]).rename(place / "old.py")
        elif kind == "deleted":
            chance.choice([program, module]).unlink()
        elif kind == "touched":
            os.utime(program)
        elif kind == "replaced":  # as many editors save
            (place / ".part.py.swp").write_bytes(module.read_bytes())
            (place / ".part.py.swp").rename(module)


@pytest.mark.parametrize("count", [12, pytest.param(50, marks=pytest.mark.soak)])
def test_random_edits_end_with_the_program_of_the_last_one(up: Start, project: Project, count: int) -> None:
    """Good and broken ones, renamed and deleted files, faster than tasks start, and slower."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    run = started(up, project)
    project.in_place = True
    for _ in range(count):
        kind = chance.choice(EDITS)
        print(kind)
        edit(project, kind, chance)
        threading.Event().wait(chance.choice([0.0, 0.01, 0.1, 0.4, 0.8]))  # the moment is the test's subject
    for last in ("program", "part"):
        edit(project, last, chance)
    runs_the_newest(project, run)
    stopped(run)
