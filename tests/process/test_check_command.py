"""`clusterkit check`, and `up`, which starts nothing that is certain to fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit import Cluster
from clusterkit.words.errors import BadJob
from tests.commands import Clusterkit
from tests.support import CHILDREN, Command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

Start = Callable[..., Command]
FAILS = "import tensorflow as tf\nseed = tf.constant(1)\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
ALONE = "import tensorflow as tf\nstrategy = tf.distribute.MirroredStrategy()\nwith tf.GradientTape(): ...\nx.save(1)\n"


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """A file with that text."""

    def write(text: str) -> Path:
        (tmp_path / "train.py").write_text(text)
        return tmp_path / "train.py"

    return write


def test_a_program_without_findings(ck: Clusterkit) -> None:
    """Exit code 0, and a word that it was looked at."""
    assert ck("check", "--workers", "2", "--ps", "1", "workloads/ps_train.py").out == "Nothing was found.\n"
    assert not (ck.home / "runs").exists()


def test_an_error_makes_the_exit_code_1(ck: Clusterkit) -> None:
    """Where, what and what to do, one a line; a file below the directory is named from there."""
    said = ck("check", "--workers", "2", "--ps", "1", "workloads/mwms_train.py", code=1).out
    assert said.startswith("workloads/mwms_train.py:")
    assert ": error: MultiWorkerMirroredStrategy has no use for parameter servers" in said
    assert said.endswith(" [multi-worker-with-ps]\n1 error.\n")


def test_warnings_alone_leave_it_at_0(ck: Clusterkit, program: Callable[[str], Path]) -> None:
    """They are for the user to judge."""
    said = ck("check", "--workers", "2", program(ALONE)).out
    assert f"{program(ALONE)}:2: warning: " in said
    assert said.endswith(("warning.\n", "warnings.\n"))


def test_json_has_every_part_of_a_finding(ck: Clusterkit, program: Callable[[str], Path]) -> None:
    """For editors and for CI."""
    found = json.loads(ck("check", "--json", "--workers", "2", program(FAILS), code=1).out)
    assert (found["errors"], found["warnings"], found["program"]) == (1, 0, str(program(FAILS)))
    (one,) = found["findings"]
    assert {key: one[key] for key in ("id", "severity", "file", "line")} == {
        "id": "strategy-after-operations",
        "severity": "error",
        "file": str(program(FAILS)),
        "line": 3,
    }
    assert "since line 2" in one["what"]
    assert one["advice"].startswith("Make the strategy first")


def test_its_own_modules_are_read_too(ck: Clusterkit, program: Callable[[str], Path], tmp_path: Path) -> None:
    """The program itself may be two lines; with -m it is found as Python finds it."""
    (tmp_path / "model.py").write_text(FAILS)
    said = ck("check", "--workers", "2", program("import model\n"), code=1).out
    assert f"{tmp_path}/model.py:3: error: " in said
    said = ck("check", "--workers", "2", "--cwd", str(tmp_path), "-m", "train", code=1).out
    assert f"{tmp_path}/model.py:3: error: " in said


def test_a_job_file_is_taken(ck: Clusterkit, program: Callable[[str], Path], tmp_path: Path) -> None:
    """All options of `up`, and the file's."""
    job = tmp_path / "job.toml"
    job.write_text(f"workers = 2\nprogram = {json.dumps(str(program(FAILS)))}\nforce = true\n")
    assert "1 error." in ck("check", "-f", job, code=1).out
    assert ck("check", "-f", job, "--workers", "1").out == "Nothing was found.\n"


@pytest.mark.parametrize("kind", ["a command", "a script of a shell", "an archive"])
def test_only_python_can_be_checked(ck: Clusterkit, tmp_path: Path, kind: str) -> None:
    """Anything else is said to be something else, with exit code 2."""
    path = tmp_path / "run"
    path.write_bytes(b"PK\x03\x04\0" if kind == "an archive" else b"#!/bin/sh\n")
    path.chmod(0o644 if kind == "an archive" else 0o755)
    said = ck("check", "true" if kind == "a command" else path, code=2).err
    assert "Only Python programs can be checked." in said


def test_bad_input_is_2_as_everywhere(ck: Clusterkit) -> None:
    """A program that is not there, and a job that can't be."""
    assert "There is no program gone.py." in ck("check", "gone.py", code=2).err
    assert "Add --workers 2." in ck("check", "--ps", "1", CHILDREN / "roles.py", code=2).err


def test_up_starts_nothing_that_is_certain_to_fail(
    clusterkit: Start, home: Path, program: Callable[[str], Path]
) -> None:
    """Exit code 2 with the finding, what to do, and how to start it nevertheless."""
    command = clusterkit("up", "--workers", "2", program(FAILS))
    assert command.wait(20) == 2
    assert f"clusterkit: {program(FAILS)}:3: error: " in command.output
    assert "--force" in command.output
    assert command.output.endswith("Nothing was started.\n")
    assert not (home / "runs").exists()


def test_up_starts_it_all_the_same_with_force(clusterkit: Start, program: Callable[[str], Path]) -> None:
    """The traceback is the program's own then."""
    broken = program("def f(:\n    pass\n")
    assert clusterkit("up", broken).wait(20) == 2
    command = clusterkit("up", "--force", "--restart", "never", broken)
    assert command.wait(40) == 1
    assert "SyntaxError" in command.output


def test_up_says_nothing_of_warnings(ck: Clusterkit, clusterkit: Start, program: Callable[[str], Path]) -> None:
    """They are `check`'s: a run is not the place to be told what one knows."""
    lines = "".join(f"    {line}\n" for line in ALONE.splitlines())
    written = program(f"print('the program ran')\ndef never():\n{lines}")
    assert "[trains-alone]" in ck("check", "--workers", "2", written).out
    command = clusterkit("up", "--workers", "2", "--start", "cold", written)
    assert command.wait(40) == 0
    assert command.output.count("the program ran") == 2
    assert "trains-alone" not in command.output


def test_the_api_raises_as_for_any_bad_job(home: Path, program: Callable[[str], Path]) -> None:
    """With the finding in its text."""
    with pytest.raises(BadJob, match=r"strategy-after-operations(.|\n)*--force"):
        Cluster(program(FAILS), workers=2, home=home)
