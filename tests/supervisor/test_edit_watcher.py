"""The thread that watches a program's files, alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from clusterkit.supervisor import edit_watcher
from clusterkit.supervisor.edit_watcher import EditWatcher
from clusterkit.words.events import Impaired, ProgramChanged
from clusterkit.words.job import Setup
from clusterkit.words.model import Program, ProgramKind
from tests.histories import job
from tests.projects import TEXT, Project
from tests.support import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A program of its own for each test."""
    return Project(tmp_path / "project")


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is being saved is not taken for an empty one, however long the test is held meanwhile."""
    monkeypatch.setattr(edit_watcher, "EMPTY_FOR", 30.0)


@dataclass
class Posted:
    """What a watcher has posted."""

    events: list[Any] = field(default_factory=list)

    def wait(self, count: int) -> Any:
        """The count-th event."""
        wait_until(lambda: len(self.events) >= count, 10, lambda: f"{count} events: {self.events}")
        return self.events[count - 1]


@contextmanager
def watching(project: Project) -> Iterator[Posted]:
    """A watcher of a project."""
    posted = Posted()
    program = Program(ProgramKind.SCRIPT, "train.py")
    spec = replace(job(1), watch=True, program=program, setup=Setup(cwd=str(project.path)))
    watcher = EditWatcher(spec, posted.events.append)
    try:
        yield posted
    finally:
        watcher.stop()


def test_the_time_since_the_save_is_measured(project: Project) -> None:
    """A file that was renamed has an old time, which says nothing."""
    with watching(project) as posted:
        project.write_part()
        first = posted.wait(1)
        assert first == ProgramChanged(("part.py",), first.ago)
        assert 0 < first.ago < 5
        (project.path / "new.py").write_text("VERSION = 7\n")
        os.utime(project.path / "new.py", (1, 1))
        (project.path / "new.py").rename(project.path / "part.py")
        assert posted.wait(2) == ProgramChanged(("part.py",), 0.0)


def test_a_file_that_is_emptied_before_it_is_written_is_one_change(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many editors save, between whose two calls a busy machine may take its time; a file may also stay empty."""
    with watching(project) as posted:
        for number in range(3):
            posted.events.clear()
            (project.path / "part.py").write_text("")
            time.sleep(0.15)  # more than the watcher waits for further changes
            (project.path / "part.py").write_text(f"VERSION = {number}\n")
            assert posted.wait(1).files == ("part.py",)
            time.sleep(0.5)
            assert len(posted.events) == 1
        monkeypatch.setattr(edit_watcher, "EMPTY_FOR", 0.3)
        (project.path / "part.py").write_text("")
        assert posted.wait(2) == ProgramChanged(("part.py",), posted.events[1].ago)


def test_a_file_that_comes_back_empty_before_it_is_written_is_one_change(project: Project) -> None:
    """As where a directory was removed and is made again."""
    with watching(project) as posted:
        (project.path / "part.py").unlink()
        assert posted.wait(1).problem == "part.py is gone, and train.py imports it"
        (project.path / "part.py").write_text("")
        time.sleep(0.15)
        project.write_part()
        assert posted.wait(2).problem == ""
        time.sleep(0.5)
        assert len(posted.events) == 2


def test_other_files_in_the_directory_are_nobodys_business(project: Project) -> None:
    """Logs, data and bytecode are written there all the time."""
    with watching(project) as posted:
        for number in range(50):
            (project.path / "log.txt").write_text(str(number))
            (project.path / f"data{number}.py").write_text("")
        project.write_part()
        assert posted.wait(1).files == ("part.py",)


def test_a_file_that_a_symlink_names_is_watched_where_it_is(project: Project) -> None:
    """And the symlink too: it may name another file."""
    place, elsewhere = project.path, project.path.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "real.py").write_text(TEXT)
    (elsewhere / "part.py").write_text("VERSION = 1\n")
    (place / "train.py").unlink()
    (place / "train.py").symlink_to(elsewhere / "real.py")
    with watching(project) as posted:
        (elsewhere / "part.py").write_text("VERSION = 2\n")
        assert posted.wait(1).files == ("part.py",)
        (place / "train.py").unlink()
        assert posted.wait(2).problem.endswith("train.py is gone")
        (place / "train.py").write_text(TEXT)
        assert posted.wait(3).problem == ""


def test_where_the_system_reports_nothing_the_files_are_looked_at(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its limit of watches is reached; the user learns of it."""

    def refuse(*_: object) -> Iterator[bool]:
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr("clusterkit.supervisor.edit_watcher._changes", refuse)
    with watching(project) as posted:
        impaired = posted.wait(1)
        assert isinstance(impaired, Impaired)
        assert impaired.what.startswith("The system does not report changes of files (OS file watch limit reached).")
        project.write_part()
        assert posted.wait(2).files == ("part.py",)
        (project.path / "part.py").unlink()
        assert posted.wait(3).problem == "part.py is gone, and train.py imports it"
        project.write_part()
        assert posted.wait(4).problem == ""


def test_in_a_directory_whose_name_is_not_utf_8_the_files_are_looked_at(tmp_path: Path) -> None:
    """What the system's reports come through takes no such name, and says so in several lines."""
    project = Project(tmp_path / os.fsdecode(b"caf\xe9"))
    with watching(project) as posted:
        impaired = posted.wait(1)
        assert isinstance(impaired, Impaired)
        assert impaired.what.startswith("The system does not report changes of files (")
        assert "\n" not in impaired.what
        project.write_part()
        assert posted.wait(2).files == ("part.py",)


def test_files_beyond_the_limits_are_said_once_not_to_be_watched(project: Project) -> None:
    """A program of very many files, or with a very long one, is likely to be generated."""
    for number in range(400):
        (project.path / f"m{number}.py").write_text(f"import m{number + 1}\n")
    with watching(project) as posted:
        project.write_part("import m0\n")
        limited = posted.wait(1)
        assert limited == Impaired(
            "--watch follows at most 300 files of a program, and 8 MiB in all, so changes of m298.py, for example, "
            "will not be seen."
        )
        assert posted.wait(2).files[-1] == "part.py"
        (project.path / "m297.py").write_text("VERSION = 0\n")
        assert posted.wait(3).files == ("m297.py",)
        (project.path / "m297.py").write_text("import m298\n")
        assert isinstance(posted.wait(4), ProgramChanged)


def test_a_file_that_is_too_large_is_said_not_to_be_watched(project: Project) -> None:
    """Its name, at the start."""
    (project.path / "large.py").write_bytes(b"#" * (9 << 20))
    project.write_part("import large\n")
    with watching(project) as posted:
        assert "so changes of large.py, for example, will not be seen." in posted.wait(1).what


def test_a_program_without_a_file_is_said_to_be_watched_in_vain(project: Project) -> None:
    """An installed module, for example."""
    posted = Posted()
    spec = replace(job(1), watch=True, program=Program(ProgramKind.MODULE, "json.tool"))
    EditWatcher(spec, posted.events.append).stop()
    assert posted.events[0].what == "--watch finds no file of json.tool, so no change of it will be seen."
