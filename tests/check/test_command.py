"""`clusterkit check`, and `up`, which starts nothing that is not valid Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit import Cluster
from clusterkit.words.errors import BadJob
from tests.commands import Clusterkit
from tests.support import CHILDREN, Command

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

Start = Callable[..., Command]
LATE = "import tensorflow as tf\nseed = tf.constant(1)\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
ALONE = "import tensorflow as tf\nwith tf.distribute.MirroredStrategy().scope():\n    pass\n"
BROKEN = "def f(:\n    pass\n"
RAISES = "raise RuntimeError('Collective ops must be configured at program startup')\n"


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """Write a program with this text."""

    def write(text: str) -> Path:
        (tmp_path / "train.py").write_text(text)
        return tmp_path / "train.py"

    return write


def test_a_program_without_findings(ck: Clusterkit) -> None:
    """The exit code is 0, and the output confirms the check."""
    assert ck("check", "--workers", "2", "--ps", "1", "workloads/ps_train.py").out == "No findings.\n"
    assert not (ck.home / "runs").exists()


def test_warnings_leave_the_exit_code_at_0(ck: Clusterkit, program: Callable[[str], Path]) -> None:
    """Each warning is one line: location, problem and advice."""
    said = ck("check", "--workers", "2", program(ALONE)).out
    assert said.startswith(f"{program(ALONE)}:2: warning: MirroredStrategy uses the devices of one process")
    assert said.endswith(" [wrong-strategy]\n1 warning.\n")


def test_the_options_of_up_are_taken(ck: Clusterkit, program: Callable[[str], Path]) -> None:
    """In `clusterkit up …`, the word `up` is replaced by `check`, also with options that change no finding."""
    options = ["--workers", "2", "--restart", "never", "--start", "cold", "--network", "virtual", "--dashboard"]
    fault = ("--fault", "kill worker:1 @ step=3")
    assert "1 warning." in ck("check", *options, *fault, program(ALONE)).out
    assert not (ck.home / "runs").exists()


def test_what_fails_in_every_run_makes_it_1(ck: Clusterkit, program: Callable[[str], Path]) -> None:
    """Each error is one line, too; with the program's own modules, and with programs that need no TensorFlow."""
    said = ck("check", "--workers", "2", "--ps", "1", program(LATE), code=1).out
    assert said.startswith(f"{program(LATE)}:3: error: MultiWorkerMirroredStrategy does not support parameter servers")
    assert said.endswith(" [wrong-strategy]\n1 error.\n")
    said = ck("check", program("prnt(1)\n"), code=1).out
    assert said.startswith(f"{program('prnt(1)')}:1: error: The name prnt is not defined anywhere")


def test_up_starts_a_program_with_such_an_error_if_it_is_told_to(
    clusterkit: Start, program: Callable[[str], Path]
) -> None:
    """The check may be mistaken about packages that it does not read; the failure is the program's own."""
    options = ("--no-check", "--start", "cold", "--restart", "never")
    command = clusterkit("up", *options, program("print('begins')\nprnt(1)\n"))
    assert command.wait(40) == 1
    assert "begins" in command.output
    assert "NameError: name 'prnt' is not defined" in command.output


def test_invalid_python_makes_it_1(ck: Clusterkit, program: Callable[[str], Path]) -> None:
    """It is the only error with which `up` starts nothing, whatever it is told."""
    said = ck("check", program(BROKEN), code=1).out
    assert said.startswith(f"{program(BROKEN)}:1: error: This is not valid Python: invalid syntax.")
    assert said.endswith(" [syntax-error]\n1 error.\n")


def test_json_has_every_part_of_a_finding(ck: Clusterkit, program: Callable[[str], Path]) -> None:
    """Editors and CI can use every field."""
    found = json.loads(ck("check", "--json", "--workers", "2", program(LATE), code=1).out)
    assert (found["errors"], found["warnings"], found["program"]) == (1, 0, str(program(LATE)))
    (one,) = found["findings"]
    assert {key: one[key] for key in ("id", "severity", "file", "line")} == {
        "id": "strategy-too-late",
        "severity": "error",
        "file": str(program(LATE)),
        "line": 3,
    }
    assert "after line 2 has initialized TensorFlow" in one["what"]
    assert one["advice"].startswith("Create the strategy before all tensors")


def test_servers_are_an_option_as_of_up(ck: Clusterkit, program: Callable[[str], Path]) -> None:
    """With `builtin`, only the chief runs the program."""
    resolver = "tf.distribute.cluster_resolver.TFConfigClusterResolver()"
    text = f"import tensorflow as tf\nstrategy = tf.distribute.ParameterServerStrategy({resolver})\n"
    job = ("check", "--workers", "2", "--ps", "1")
    assert "Run with --servers builtin" in ck(*job, program(text), code=1).out
    assert ck(*job, "--servers", "builtin", program(text)).out == "No findings.\n"


def test_its_own_modules_are_read_too(ck: Clusterkit, program: Callable[[str], Path], tmp_path: Path) -> None:
    """Imported modules are checked too; with -m the program is found as Python finds it."""
    (tmp_path / "model.py").write_text(LATE)
    said = ck("check", "--workers", "2", program("import model\n"), code=1).out
    assert f"{tmp_path}/model.py:3: error: " in said
    said = ck("check", "--workers", "2", "--cwd", str(tmp_path), "-m", "train", code=1).out
    assert f"{tmp_path}/model.py:3: error: " in said


def test_a_job_file_is_supported(ck: Clusterkit, program: Callable[[str], Path], tmp_path: Path) -> None:
    """It may have any key, and the command line any option of a job, but none of those that show a run."""
    job = tmp_path / "job.toml"
    job.write_text(f"workers = 2\nprogram = {json.dumps(str(program(LATE)))}\nrestart = 'never'\n")
    assert "1 error." in ck("check", "-f", job, code=1).out
    assert ck("check", "-f", job, "--workers", "1").out == "No findings.\n"
    assert "1 error." in ck("check", "-f", job, "--restart", "never", code=1).out
    assert "No such option" in ck("check", "-f", job, "--quiet", code=2).err


@pytest.mark.parametrize("kind", ["a command", "a script of a shell", "an archive"])
def test_only_python_can_be_checked(ck: Clusterkit, tmp_path: Path, kind: str) -> None:
    """Other programs are rejected with exit code 2."""
    path = tmp_path / "run"
    path.write_bytes(b"PK\x03\x04\0" if kind == "an archive" else b"#!/bin/sh\n")
    path.chmod(0o644 if kind == "an archive" else 0o755)
    said = ck("check", "true" if kind == "a command" else path, code=2).err
    assert "Only Python programs can be checked." in said


def test_bad_input_is_2_as_everywhere(ck: Clusterkit) -> None:
    """A missing program and an invalid job are rejected."""
    assert "There is no program gone.py." in ck("check", "gone.py", code=2).err
    assert "Add --workers 2." in ck("check", "--ps", "1", CHILDREN / "roles.py", code=2).err


def test_up_rejects_invalid_python(clusterkit: Start, home: Path, program: Callable[[str], Path]) -> None:
    """The exit code is 2, and the message names the line."""
    command = clusterkit("up", "--workers", "2", program(BROKEN))
    assert command.wait(20) == 2
    assert command.output == (
        f"clusterkit: {program(BROKEN)}:1 is not valid Python: invalid syntax.\nNothing was started.\n"
    )
    assert not (home / "runs").exists()


def test_the_api_raises_as_for_any_bad_job(home: Path, program: Callable[[str], Path]) -> None:
    """The exception names the line."""
    with pytest.raises(BadJob, match=r"train.py:1 is not valid Python"):
        Cluster(program(BROKEN), workers=2, home=home)


def test_up_shows_findings_only_after_a_failure(clusterkit: Start, program: Callable[[str], Path]) -> None:
    """It shows none before the start, and none if the job succeeds."""
    never = "".join(f"    {line}\n" for line in LATE.splitlines())
    up = ("up", "--workers", "2", "--start", "cold", "--restart", "never")
    command = clusterkit(*up, program(f"def never():\n{never}"))
    assert command.wait(40) == 0
    assert "Why: " not in command.output
    command = clusterkit(*up, written := program(f"{RAISES}def never():\n{never}"))
    assert command.wait(40) == 1
    before, _, after = command.output.partition("  Cause: worker:")
    assert "the strategy" not in before.lower()
    said = f"Why: {written}:5: The strategy is created after line 4 has initialized TensorFlow"
    assert said in " ".join(after.split())
    run = Path(command.output.rpartition("Everything of this run is in ")[2].strip())
    assert json.loads((run / "result.json").read_text())["finding"].startswith(f"{written}:5: The strategy")


def test_a_file_that_hides_a_module_explains_the_traceback(
    clusterkit: Start, program: Callable[[str], Path], tmp_path: Path
) -> None:
    """A file `random.py` hides Python's `random`, which TensorFlow's dependencies import."""
    (tmp_path / "random.py").write_text("x = 1\n")
    written = program("import tempfile\nimport tensorflow\n")
    command = clusterkit("up", "--start", "cold", "--restart", "never", written)
    assert command.wait(40) == 1
    assert "ImportError: cannot import name 'Random' from 'random'" in command.output
    said = f"Why: {tmp_path}/random.py:1: This file hides Python's own module random from"
    assert said in " ".join(command.output.split())
