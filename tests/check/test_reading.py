"""What the check reads of a job: the program, its modules, and the files beside it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from clusterkit.check import reading
from clusterkit.check.findings import Finding
from clusterkit.check.parsing import refuse_unparsable
from clusterkit.check.reading import NotChecked, findings_of
from clusterkit.cli.commands.up import command
from clusterkit.cli.options import given
from clusterkit.words.errors import BadJob
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind
from tests.histories import build_job
from tests.support import CHILDREN, WORKLOADS

TF = "import tensorflow as tf\n"
LATE = f"{TF}x = tf.zeros(1)\ns = tf.distribute.MultiWorkerMirroredStrategy()\n"
NO_PYTHON = "print 'old'\n"


def job(place: Path, text: str | bytes, kind: ProgramKind = ProgramKind.SCRIPT, **options: Any) -> JobSpec:
    """A job with two workers and this program."""
    (place / "main.py").write_bytes(text.encode() if isinstance(text, str) else text)
    program = (
        {"module": "main", "cwd": str(place)} if kind is ProgramKind.MODULE else {"program": str(place / "main.py")}
    )
    return build_job({"workers": 2, **program, **options}, kind)


@pytest.mark.parametrize("kind", [ProgramKind.SCRIPT, ProgramKind.MODULE])
def test_paths_are_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: ProgramKind
) -> None:
    """Files below it have relative paths, others absolute ones; for scripts and modules."""
    (found,) = findings_of(job(tmp_path, LATE, kind))
    assert str(found.location) == f"{tmp_path}/main.py:3"
    monkeypatch.chdir(tmp_path)
    (found,) = findings_of(job(tmp_path, LATE, kind))
    assert str(found.location) == "main.py:3"


def test_only_invalid_python_stops_a_job(tmp_path: Path) -> None:
    """The message names the line; warnings do not stop a job."""
    refuse_unparsable(job(tmp_path, LATE))
    with pytest.raises(BadJob) as raised:
        refuse_unparsable(job(tmp_path, "x = 1\nreturn (\n"))
    assert list(raised.value.problems) == [f"{tmp_path}/main.py:2 is not valid Python: '(' was never closed."]


@pytest.mark.parametrize(
    "text", ["\ufeffx = 1\n".encode(), b"# coding: latin-1\nx = '\xe4'\n", b"x = " + b"-" * 20000 + b"1", b""]
)
def test_valid_python_is_accepted(tmp_path: Path, text: bytes) -> None:
    """Byte order marks, encodings, and code that nests too deeply for this interpreter are accepted."""
    refuse_unparsable(job(tmp_path, text))


@pytest.mark.parametrize("text", [NO_PYTHON.encode(), b"x = '\0'\n", b"x = '\xe4'\n", b"return 1\n"])
def test_invalid_python_is_rejected(tmp_path: Path, text: bytes) -> None:
    """Python 2, binary files and misplaced statements are rejected."""
    with pytest.raises(BadJob, match="is not valid Python: "):
        refuse_unparsable(job(tmp_path, text))


def test_another_python_may_accept_it(tmp_path: Path) -> None:
    """Invalid syntax is rejected if clusterkit's interpreter runs it, and not checked if another one does."""
    (found,) = findings_of(job(tmp_path, NO_PYTHON))
    assert (found.id, found.severity.value, found.location.line) == ("syntax-error", "error", 1)
    theirs = job(tmp_path, NO_PYTHON, python="/usr/bin/python2")
    refuse_unparsable(theirs)
    with pytest.raises(NotChecked, match="can't be read by clusterkit's own Python"):
        findings_of(theirs)


def test_a_command_is_not_checked(tmp_path: Path) -> None:
    """It does not stop a job either."""
    shell = job(tmp_path, NO_PYTHON, ProgramKind.COMMAND)
    refuse_unparsable(shell)
    with pytest.raises(NotChecked, match="Only Python programs"):
        findings_of(shell)


def test_an_archive_is_not_checked(tmp_path: Path) -> None:
    """Python can run it, but it has no source text."""
    (tmp_path / "app").write_bytes(b"PK\x03\x04\0\0")
    archive = build_job({"program": str(tmp_path / "app")}, ProgramKind.SCRIPT)
    refuse_unparsable(archive)
    with pytest.raises(NotChecked, match="Only Python programs"):
        findings_of(archive)


def test_the_size_of_the_text_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module beyond the limit is skipped."""
    (tmp_path / "model.py").write_text(LATE + "x = 1\n" * 100)
    program = job(tmp_path, f"{TF}import model\n")
    assert [str(found.location) for found in findings_of(program)] == [f"{tmp_path}/model.py:3"]
    monkeypatch.setattr(reading, "MOST", 200)
    assert findings_of(program) == []


def test_an_invalid_module_is_skipped(tmp_path: Path) -> None:
    """It may be for another version of Python, or never be imported."""
    (tmp_path / "other.py").write_text(NO_PYTHON)
    assert [found.id for found in findings_of(job(tmp_path, f"{LATE}import other\n"))] == ["strategy-too-late"]


def test_deeply_nested_values_do_no_harm(tmp_path: Path) -> None:
    """The check survives values that exceed the interpreter's limits."""
    write = "import os\nos.environ['TF_CONFIG'] = a\n"
    for text in (f"{TF}a = b\nb = a\n{write}", f"{TF}a = {'[' * 150 + ']' * 150}\n{write}"):
        assert findings_of(job(tmp_path, text)) == []
    with pytest.raises(NotChecked, match="can't be read"):
        findings_of(job(tmp_path, f"{TF}x{'.a' * 3000}\n"))


def hidden(place: Path, name: str, text: str = TF) -> list[Finding]:
    """The findings of a program with this file beside it."""
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).touch()
    return [found for found in findings_of(job(place, text)) if found.id == "hides-module"]


@pytest.mark.parametrize("name", ["random.py", "keras.py", "tensorflow.py", "numpy.py", "six.py", "types/__init__.py"])
def test_a_file_that_hides_a_module_is_found(tmp_path: Path, name: str) -> None:
    """It hides a standard module or a package that TensorFlow or Keras requires."""
    (found,) = hidden(tmp_path, name)
    assert str(found.location) == f"{tmp_path}/{name}:1"


@pytest.mark.parametrize(
    "name", ["model.py", "utils.py", "data.py", "sys.py", "os.py", "random.txt", "types/x.py", "a-b.py", "pytest.py"]
)
def test_a_file_that_hides_nothing(tmp_path: Path, name: str) -> None:
    """Other names, modules that Python loads first, and packages that TensorFlow does not need are ignored."""
    assert hidden(tmp_path, name) == []


def test_a_program_without_tensorflow_may_hide_modules(tmp_path: Path) -> None:
    """Only programs that import TensorFlow are checked."""
    assert hidden(tmp_path, "random.py", "import random\n") == []


def test_a_program_may_hide_a_module_itself(tmp_path: Path) -> None:
    """The program itself may be the file that hides a module, as in `clusterkit up random.py`."""
    (tmp_path / "random.py").write_text(TF)
    (found,) = findings_of(build_job({"program": str(tmp_path / "random.py")}, ProgramKind.SCRIPT))
    assert found.id == "hides-module"


@pytest.mark.parametrize("what", ["a pipe", "a directory", "nothing", "a link to itself"])
def test_only_regular_files_are_read(tmp_path: Path, what: str) -> None:
    """The check does not wait for a pipe without a writer."""
    path = tmp_path / "random.py"
    if what == "a pipe":
        os.mkfifo(path)
    elif what == "a directory":
        path.mkdir()
    elif what == "a link to itself":
        path.symlink_to(path)
    assert findings_of(job(tmp_path, f"{TF}import random\n")) == []


def named(program: Path) -> list[str]:
    """The commands in a program's docstring."""
    return re.findall(r"^ +clusterkit up (.*)", program.read_text(), re.M)


@pytest.mark.parametrize("words", [words for path in sorted(WORKLOADS.glob("*.py")) for words in named(path)], ids=str)
def test_no_workload_has_a_finding(words: str) -> None:
    """Each is checked with the commands in its docstring."""
    with command.make_context("up", words.split()) as context:
        options = given(context.params).options
    options["program"] = str(WORKLOADS.parent / options["program"])
    assert findings_of(build_job(options, ProgramKind.SCRIPT)) == []


TUTORIALS: dict[str, dict[str, Any]] = {
    "main.py": {"workers": 2},
    "loop.py": {"workers": 2},
    "coordinator.py": {"workers": 2, "ps": 2},
    "creator.py": {"workers": 2, "ps": 1, "keras": 2, "servers": "builtin"},
}


@pytest.mark.parametrize("name", TUTORIALS)
def test_no_tutorial_has_a_finding(name: str) -> None:
    """TensorFlow's tutorials run unchanged."""
    program = {"program": str(CHILDREN / "tutorials" / name)}
    assert findings_of(build_job({**program, **TUTORIALS[name]}, ProgramKind.SCRIPT)) == []
