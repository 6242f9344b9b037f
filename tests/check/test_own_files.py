"""A program's own files: which there are, which differ, and why the program can't run with them."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.check import own_files as own
from clusterkit.check.own_files import OwnFiles, own_files, problem_of
from clusterkit.words.job import JobSpec, Setup
from clusterkit.words.model import Program, ProgramKind
from tests.histories import job

PROGRAM = {
    "train.py": "import json\nimport numpy\nimport model\nfrom lib import data\n",
    "model.py": "import layers\n",
    "layers.py": "",
    "lib/__init__.py": "",
    "lib/data.py": "from . import text\n",
    "lib/text.py": "",
    "unused.py": "this is not Python\n",
}
OWN = {"train.py", "model.py", "layers.py", "lib/__init__.py", "lib/data.py", "lib/text.py"}


def write(place: Path, files: dict[str, str]) -> JobSpec:
    """A job whose program has these files."""
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return replace(job(1), program=Program(ProgramKind.SCRIPT, "train.py"), setup=Setup(cwd=str(place)))


def names(files: OwnFiles) -> set[str]:
    """The names of all files."""
    return {files.name(path) for path in files.digests}


def test_a_program_has_what_it_imports_from_its_directory(tmp_path: Path) -> None:
    """Packages and what they import too, but no installed module, and nothing that it does not import."""
    found = own_files(write(tmp_path, PROGRAM))
    assert names(found) == OWN
    assert {path.relative_to(tmp_path) for path in found.directories()} == {Path(), Path("lib")}


def test_pythonpath_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the tasks."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "src"))
    spec = write(tmp_path, {"app/train.py": "import shared\n", "src/shared.py": ""})
    found = own_files(replace(spec, setup=Setup(cwd=str(tmp_path / "app"))))
    assert names(found) == {"train.py", str(tmp_path / "src" / "shared.py")}
    assert set(found.directories()) == {tmp_path / "app", tmp_path / "src"}


def test_a_relative_pythonpath_makes_no_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one file is two, one of which is shown with its whole path."""
    spec = write(tmp_path / "app", {"train.py": "import part\n", "part.py": ""})
    monkeypatch.chdir(tmp_path / "app")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([".", "./", "../app"]))
    assert names(own_files(spec)) == {"train.py", "part.py"}


def test_a_relative_pythonpath_in_a_deleted_directory_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the current one may be while a program is watched."""
    spec = write(tmp_path / "app", {"train.py": "import part\n", "part.py": ""})
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("PYTHONPATH", ".")
    assert names(own_files(spec)) == {"train.py", "part.py"}


def test_an_installed_package_beside_the_program_is_none_of_its_own(tmp_path: Path) -> None:
    """Where `site-packages` is on PYTHONPATH, or the environment is in the program's directory."""
    spec = write(tmp_path, {"site-packages/train.py": "import model\n", "site-packages/model.py": ""})
    assert names(own_files(replace(spec, setup=Setup(cwd=str(tmp_path / "site-packages"))))) == {"train.py"}


def test_a_module_and_its_packages(tmp_path: Path) -> None:
    """`-m app.train` executes app/__init__.py too."""
    spec = write(tmp_path, {"app/__init__.py": "", "app/train.py": "from app import model\n", "app/model.py": ""})
    found = own_files(replace(spec, program=Program(ProgramKind.MODULE, "app.train")))
    assert names(found) == {"app/__init__.py", "app/train.py", "app/model.py"}


def test_what_is_preloaded_counts(tmp_path: Path) -> None:
    """Also if the program does not say that it imports it."""
    spec = write(tmp_path, {"train.py": "", "ours.py": "import more\n", "more.py": ""})
    assert names(own_files(replace(spec, preload=("ours", "json")))) == {"train.py", "ours.py", "more.py"}


def test_a_command_is_a_file_of_which_nothing_is_read(tmp_path: Path) -> None:
    """Whatever its words look like."""
    spec = replace(write(tmp_path, {"train.sh": "import model\n", "model.py": ""}))
    spec = replace(spec, program=Program(ProgramKind.COMMAND, "train.sh"))
    before = own_files(spec)
    assert names(before) == {"train.sh"}
    write(tmp_path, {"train.sh": "def f(:\n"})
    after = own_files(spec)
    assert [after.name(path) for path in after.changed_since(before)] == ["train.sh"]
    assert problem_of(after, before, spec) == ""


def changed(place: Path, edit: dict[str, str | None]) -> tuple[list[str], str]:
    """What differs after an edit, None for a file that is deleted, and the problem with it."""
    spec = write(place, PROGRAM)
    before = own_files(spec)
    for name, text in edit.items():
        if text is None:
            (place / name).unlink()
        else:
            write(place, {name: text})
    now = own_files(spec)
    return sorted(now.name(path) for path in now.changed_since(before)), problem_of(now, before, spec)


EDITS: list[tuple[dict[str, str | None], list[str], str]] = [
    ({}, [], ""),
    ({"train.py": PROGRAM["train.py"]}, [], ""),
    ({"train.py": "import model\n"}, ["lib/__init__.py", "lib/data.py", "lib/text.py", "train.py"], ""),
    ({"unused.py": "still not Python\n"}, [], ""),
    ({"lib/text.py": "x = 1\n"}, ["lib/text.py"], ""),
    ({"model.py": "import layers, new\n", "new.py": ""}, ["model.py", "new.py"], ""),
    ({"model.py": "x = 1\ndef f(:\n"}, ["layers.py", "model.py"],
     "model.py:2 is not valid Python: invalid syntax in `def f(:`"),
    ({"train.py": None}, sorted(OWN), "train.py is gone"),
    ({"model.py": None}, ["layers.py", "model.py"], "model.py is gone, and train.py imports it"),
    ({"lib/text.py": None}, ["lib/text.py"], "lib/text.py is gone, and lib/data.py imports it"),
    ({"model.py": None, "train.py": "import json\nfrom lib import data\n"}, ["layers.py", "model.py", "train.py"], ""),
    ({"model.py": None, "model/__init__.py": ""}, ["layers.py", "model.py", "model/__init__.py"], ""),
    ({"layers.py": None, "model.py": "try:\n    import layers\nexcept ImportError:\n    layers = None\n"},
     ["layers.py", "model.py"], ""),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "files", "problem"), EDITS)
def test_edits(tmp_path: Path, edit: dict[str, str | None], files: list[str], problem: str) -> None:
    """What is seen of an edit."""
    assert changed(tmp_path, edit) == (files, problem)


def test_another_interpreter_may_have_another_syntax(tmp_path: Path) -> None:
    """What clusterkit's own Python can't read is no problem then."""
    spec = write(tmp_path, PROGRAM)
    spec = replace(spec, setup=replace(spec.setup, python="/opt/python3.99"))
    before = own_files(spec)
    write(tmp_path, {"model.py": "match = = 1\n"})
    assert problem_of(own_files(spec), before, spec) == ""


def test_a_large_file_is_looked_at_from_outside(tmp_path: Path) -> None:
    """100 MB that are not there; nothing of it is read, and a change of it is one all the same."""
    spec = write(tmp_path, {"train.py": "import big\n", "big.py": ""})
    for name in ("train.py", "big.py"):
        os.truncate(tmp_path / name, 100 << 20)
    before = own_files(spec)
    assert names(before) == {"train.py"}
    assert before.texts == {}
    os.truncate(tmp_path / "train.py", 101 << 20)
    after = own_files(spec)
    assert [after.name(path) for path in after.changed_since(before)] == ["train.py"]
    assert problem_of(after, before, spec) == ""


HOSTILE = {
    "a null byte": b"import os\0\n",
    "Latin-1": "x = 'caf\xe9'\n".encode("latin-1"),
    "a coding that there is not": b"# coding: klingon\n",
    "nothing but opening brackets": b"(" * 100_000,
    "deeply nested": b"x = " + b"-" * 100_000 + b"1\n",
    "half a character": b"x = '\xf0\x9f'\n",
    "control characters": b"def f(:  # \x1b[2J\x07\n",
    "an endless line": b"def " + b"a" * 1_000_000,
    "relative to nowhere": b"from " + b"." * 1000 + b" import x\n",
    "a name with an accent": "import caf\xe9\n".encode(),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_is_in_a_file_there_is_a_short_answer(tmp_path: Path, text: bytes) -> None:
    """In the program and in a module."""
    spec = write(tmp_path, PROGRAM)
    before = own_files(spec)
    for name in ("model.py", "train.py"):
        (tmp_path / name).write_bytes(text)
        assert len(problem_of(own_files(spec), before, spec)) < own.LONGEST_LINE + 250


def test_random_bytes(tmp_path: Path) -> None:
    """In each file of a program."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    spec = write(tmp_path, PROGRAM)
    before = own_files(spec)
    for _ in range(100):
        name = chance.choice(sorted(OWN))
        text = bytearray(PROGRAM[name].encode() * 3)
        for _ in range(chance.randrange(8)):
            at = chance.randrange(len(text) + 1)
            text[at:at] = chance.randbytes(chance.randrange(4))
        (tmp_path / name).write_bytes(text if chance.random() < 0.7 else chance.randbytes(200))
        now = own_files(spec)
        assert isinstance(problem_of(now, before, spec), str)
        assert "train.py" in names(now)


def _entry(place: Path, kind: str) -> None:
    """Something else that has the name of a module."""
    if kind == "a directory":
        place.mkdir()
    elif kind == "a symlink to itself":
        place.symlink_to(place)
    elif kind == "a named pipe":
        os.mkfifo(place)
    elif kind == "a symlink to a device":
        place.symlink_to("/dev/zero")
    elif kind == "a dangling symlink":
        place.symlink_to(place.with_name("nowhere"))


@pytest.mark.parametrize("name", ["train.py", "model.py"])
@pytest.mark.parametrize(
    "kind", ["a directory", "a symlink to itself", "a named pipe", "a symlink to a device", "a dangling symlink"]
)
@pytest.mark.timeout(20)
def test_what_is_no_file_is_gone(tmp_path: Path, name: str, kind: str) -> None:
    """Nothing waits for it, or follows it."""
    spec = write(tmp_path, PROGRAM)
    before = own_files(spec)
    (tmp_path / name).unlink()
    _entry(tmp_path / name, kind)
    assert problem_of(own_files(spec), before, spec).startswith(f"{name} is gone")


def test_directories_in_a_circle(tmp_path: Path) -> None:
    """Packages that contain each other by symlinks are read once each."""
    spec = write(tmp_path, {"train.py": "import a.b.a.b.a.b\n", "a/__init__.py": "", "a/b/__init__.py": "import a\n"})
    (tmp_path / "a" / "b" / "a").symlink_to(tmp_path / "a")
    assert {"train.py", "a/__init__.py", "a/b/__init__.py"} <= names(own_files(spec))


def test_a_directory_that_is_renamed_is_watched_from_above(tmp_path: Path) -> None:
    """Until it is there again."""
    spec = write(tmp_path / "project", PROGRAM)
    before = own_files(spec)
    (tmp_path / "project").rename(tmp_path / "other")
    now = own_files(spec)
    assert problem_of(now, before, spec) == "train.py is gone"
    assert now.directories() == [tmp_path]
    (tmp_path / "other").rename(tmp_path / "project")
    again = own_files(spec)
    assert (again.changed_since(before), problem_of(again, before, spec)) == ([], "")
