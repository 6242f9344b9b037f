"""`clusterkit doctor` on this machine, with interpreters and jobs for which something is missing."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from clusterkit.doctor.diagnosis import Rating
from clusterkit.doctor.facts import ask_interpreter, run_job
from clusterkit.network.virtual import why_not
from clusterkit.words.job import Network
from tests.commands import Clusterkit
from tests.support import CHILDREN, Command

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]

WHY_NO_NETWORK = why_not(network=True, disk=False)
WHY_NO_DISK = why_not(network=False, disk=True)
ROLES = str(CHILDREN / "roles.py")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter for which nothing is installed."""
    place = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=60)
    return place / "bin" / "python"


def package(site: Path, name: str, version: str, *requires: str) -> None:
    """Install a distribution, by hand, with a module of its name."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {text}" for text in requires)]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
    (site / name).mkdir(exist_ok=True)
    (site / name / "__init__.py").write_text("raise AssertionError('it was imported')\n")


def by_name(ck: Clusterkit, *args: str | Path, code: int = 0) -> dict[str, dict[str, Any]]:
    """The findings of `doctor --json`."""
    document = json.loads(ck("doctor", "--json", *args, code=code).out)
    assert document["wrong"] == sum(finding["grade"] == "wrong" for finding in document["findings"])
    assert (code == 1) == (document["wrong"] > 0)
    return {finding["name"]: finding for finding in document["findings"]}


def test_all_is_well_here_and_nothing_is_left_behind(ck: Clusterkit, home: Path) -> None:
    """Tests run where jobs run. The state directory is as it was."""
    before = sorted(home.rglob("*"))
    page = ck("doctor").out
    assert "✘" not in page
    for title in ("Python and its packages", "The machine", "Where runs are kept"):
        assert f"{title}\n" in page
    for name, said in {"tensorflow": "TensorFlow", "keras": "Keras", "numpy": "NumPy"}.items():
        assert f"{said} {version(name)}" in page
    assert str(home) in page
    for what, why in (("--network virtual", WHY_NO_NETWORK), ("The fault disk-full", WHY_NO_DISK)):
        assert (f"  ✔ {what} works." in page) == (why is None)
    assert sorted(home.rglob("*")) == before


def test_there_is_enough_for_a_job(ck: Clusterkit) -> None:
    """With the size of the job, or a job file."""
    job = ck.home / "job.toml"
    job.write_text(f"program = '{ROLES}'\nworkers = 1\nps = 1\n")
    for args in (("--workers", "1", "--ps", "1"), ("-f", job)):
        found = by_name(ck, *args)
        assert "job" in found or "shortage" in found
        assert found.get("job", {"grade": "fine"})["grade"] == "fine"


def test_a_job_that_needs_more_memory_than_there_is(ck: Clusterkit) -> None:
    """What would be killed is told before it starts."""
    found = by_name(ck, "--workers", "4000", code=1)
    assert "4000 TensorFlow tasks don't fit into " in found["memory-for-job"]["text"]


def test_an_interpreter_without_tensorflow(ck: Clusterkit, bare: Path) -> None:
    """It is asked, not clusterkit's own; what would install it is told."""
    found = by_name(ck, "--python", bare, code=1)
    assert found["python"]["interpreter"] == str(bare)
    assert found["no-tensorflow"]["text"].endswith(f"{bare} -m pip install 'tensorflow>=2.16'")
    page = ck("doctor", "--python", bare, code=1).out
    assert f"    Run: {bare} -m pip install 'tensorflow>=2.16'" in page


def test_a_job_file_may_name_interpreters(ck: Clusterkit, bare: Path) -> None:
    """Each is asked."""
    job = ck.home / "job.toml"
    job.write_text(f"program = '{ROLES}'\nworkers = 1\nps = 1\n[task.ps]\npython = '{bare}'\n")
    document = ck.json("doctor", "-f", job, code=1)
    asked = [finding["interpreter"] for finding in document["findings"] if finding["name"] == "python"]
    assert asked == [sys.executable, str(bare)]


@pytest.mark.parametrize("named", ["/gone/python", "false"])
def test_an_interpreter_that_does_not_start(ck: Clusterkit, named: str) -> None:
    """That is a finding, not a refusal."""
    assert by_name(ck, "--python", named, code=1)["python-broken"]["grade"] == "wrong"


def test_requirements_that_are_not_met(ck: Clusterkit, bare: Path, tmp_path: Path) -> None:
    """As the metadata of what is installed have them; nothing is imported. Extras and other systems don't count.

    Nor does clusterkit itself: tasks need none of its requirements.
    """
    site = tmp_path / "site"
    needs = ("protobuf<8.0.0,>=6.31.1", "wrapt>=1.11.0", "nvidia-nccl-cu12; extra == 'and-cuda'", "numpy>=1.26.0")
    package(site, "tensorflow", "2.21.0", *needs, "winreg; sys_platform == 'win32'", "keras>=3.12.0")
    package(site, "keras", "3.15.1")
    package(site, "protobuf", "8.1")
    package(site, "numpy", "2.4.6")
    package(site, "tf_clusterkit", "0.1.0", "click>=8.4")
    package(site, "packaging", "26")  # the requirements are read with the real one
    import packaging

    (site / "packaging" / "__init__.py").unlink()
    (site / "packaging").rmdir()
    (site / "packaging").symlink_to(Path(str(packaging.__file__)).parent)
    args = ("--python", bare, "--env", f"PYTHONPATH={site}")
    document = ck.json("doctor", *args, code=1)
    texts = [finding["text"] for finding in document["findings"] if finding["name"] == "requirement"]
    assert [text.partition(". Run:")[0] for text in texts] == [
        "tensorflow 2.21.0 requires protobuf<8.0.0,>=6.31.1, and 8.1 is installed",
        "tensorflow 2.21.0 requires wrapt>=1.11.0, and it is not installed",
    ]


def test_tensorflow_cpu_is_a_tensorflow(bare: Path, tmp_path: Path) -> None:
    """What requires `tensorflow` has it then; the packages' own import system is not asked to import anything."""
    package(tmp_path, "tensorflow", "0", "tf_keras")
    info = tmp_path / "tensorflow-0.dist-info"
    (info / "METADATA").write_text("Name: tensorflow_cpu\nVersion: 2.21.0\n")
    (info / "RECORD").write_text("tensorflow/__init__.py,,\n")
    found = ask_interpreter(str(bare), {"PYTHONPATH": str(tmp_path)}, None)
    assert (found.tensorflows, found.tensorflow) == (("tensorflow-cpu",), "2.21.0")
    assert found.has_tensorflow
    assert (found.checked, found.version) == (False, platform.python_version())


def test_the_environment_of_the_tasks_is_looked_at(ck: Clusterkit) -> None:
    """With what the job adds to it."""
    found = by_name(ck, "--env", "TF_CPP_MIN_LOG_LEVEL=3", "--env", "KERAS_BACKEND=jax", code=1)
    assert (found["silenced"]["grade"], found["keras-backend"]["grade"]) == ("doubt", "wrong")


def test_a_state_directory_that_can_not_be_used(clusterkit: Any, home: Path) -> None:
    """A file is in its place."""
    home.mkdir()
    (home / "file").touch()
    command: Command = clusterkit("doctor", "--json", env={"CLUSTERKIT_HOME": str(home / "file")})
    assert command.wait(60) == 1
    found = {finding["name"]: finding for finding in json.loads(command.output)["findings"]}
    assert found["state"]["grade"] == "wrong"
    assert "Set CLUSTERKIT_HOME" in found["state"]["text"]


@pytest.mark.parametrize(
    ("text", "succeeded", "words"),
    [
        ("", True, "A job of two workers succeeded"),
        ("raise RuntimeError('Illegal instruction')", False, "exited with code 1 (attempt 1) (RuntimeError"),
        ("import os; os.kill(os.getpid(), 4)", False, "was killed by SIGILL (attempt 1)"),
    ],
)
def test_the_small_job_is_a_job_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, succeeded: bool, words: str
) -> None:
    """It says how it went, and leaves nothing; options that the environment has are not its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests use the session's at the same time
    program = tmp_path / "program.py"
    program.write_text(text)
    env = {**os.environ, "CLUSTERKIT_UP_WORKERS": "7", "CLUSTERKIT_UP_RUN_ID": "mine", "TMPDIR": str(tmp_path)}
    grade, text = run_job(sys.executable, env, Network.HOST, program)
    assert (grade is Rating.FINE, words in text) == (succeeded, True), text
    assert not list(tmp_path.glob("clusterkit-doctor-*"))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("train.py",), "unexpected extra argument"),
        (("--ps", "1", "--workers", "0"), "parameter servers but no workers"),
        (("-f", "gone.toml"), "gone.toml can't be read"),
        (("--cwd", "/gone"), "/gone for the tasks does not exist"),
        (("--wrong",), "No such option"),
    ],
)
def test_bad_input_is_refused(ck: Clusterkit, args: tuple[str, ...], words: str) -> None:
    """As `up` refuses it: no machine could run that."""
    answer = ck("doctor", *args, code=2)
    assert words in answer.err
    assert answer.out == ""
