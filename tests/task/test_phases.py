"""A task's reports of its phases: which calls make a save or a read, and that no failure of ours changes a program."""

from __future__ import annotations

import builtins
import gc
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusterkit.task.patches import phases
from clusterkit.task.patches.steps import Steps
from tests.support import load
from tests.task.counted import Reports
from tests.task.phase_calls import read, rename, reporting, told, whole, write


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reports]:
    """The supervisor's end of the pipe."""
    yield from reporting(tmp_path, monkeypatch)


def in_place(place: Path) -> None:
    """Two checkpoints, each a file that gets its name at once."""
    write(place / "ckpt-1")
    write(place / "ckpt-2")


def over(place: Path) -> None:
    """The same file twice."""
    write(place / "state")
    write(place / "state")


def in_place_between_steps(place: Path) -> None:
    """A file that is written in place, after each step."""
    for _ in range(2):
        phases.phases.settle()
        write(place / "state")
    phases.phases.settle()
    phases.phases.settle()


def before_the_first_step(place: Path) -> None:
    """The configuration of the program."""
    write(place / "config.json")
    phases.phases.settle()


def a_picture(place: Path) -> None:
    """A file that holds no state, by its name."""
    phases.phases.settle()
    write(place / "loss.png")
    phases.phases.settle()


def with_notes(place: Path) -> None:
    """State and words in a directory of their own."""
    phases.phases.settle()
    (place / "ckpt").mkdir()
    write(place / "ckpt" / "state")
    write(place / "ckpt" / "notes.txt")
    phases.phases.settle()


def open_during_a_step(place: Path) -> None:
    """A file that is closed after the next step."""
    phases.phases.settle()
    with (place / "state").open("w") as file:
        phases.phases.audit("open", (str(place / "state"), "w", os.O_WRONLY))
        phases.phases.watch_file(file, place / "state")
        phases.phases.settle()
        file.write("x")
    phases.phases.settle()


def a_log(place: Path) -> None:
    """A file that is appended to is no checkpoint."""
    phases.phases.settle()
    phases.phases.audit("open", (str(place / "log"), "a", os.O_WRONLY | os.O_APPEND))
    phases.phases.settle()


def several(place: Path) -> None:
    """Two files in a new directory, which gets its name at the end, and is synced."""
    (place / "tmp").mkdir()
    write(place / "tmp" / "weights")
    write(place / "tmp" / "step")
    rename(place / "tmp", place / "ckpt")
    read(place)


def elsewhere(place: Path) -> None:
    """A log beside the checkpoints."""
    write(place.parent / "log")
    read(place.parent / "log")
    rename(place.parent / "log", place.parent / "log.1")


def reading(place: Path) -> None:
    """Two files of one checkpoint, and again."""
    for _ in range(2):
        read(place / "weights")
        read(place / "step")


def saving_while_reading(place: Path) -> None:
    """A program restores, saves, and restores again."""
    read(place / "state")
    whole(place)
    read(place / "state")


@pytest.mark.parametrize(
    ("program", "reported"),
    [
        (whole, "saving o w s r saved"),
        (in_place, "saving o w saving o w"),
        (over, "saving o w saving o w"),
        (in_place_between_steps, "saving o w saved saving o w saved"),
        (open_during_a_step, "saving o w saved"),
        (a_log, "saving o"),
        (a_picture, "saving o w"),
        (with_notes, "saving o w o w saved"),
        (before_the_first_step, "saving o w"),
        (several, "saving o w o w r saved"),
        (elsewhere, ""),
        (reading, "read read"),
        (saving_while_reading, "read saving o w s r saved read"),
    ],
)
def test_what_a_program_does_by_hand(
    reports: Reports, tmp_path: Path, program: Callable[[Path], None], reported: str
) -> None:
    """Each call in the checkpoint directory, and where a save begins and ends."""
    program(tmp_path / "c")
    assert told(reports) == reported


def test_a_failure_of_ours_is_noted_once_and_changes_nothing(
    reports: Reports, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever fails in the report, the program's file is written."""

    def fails(kind: str, fields: str) -> None:
        raise KeyError(kind)

    phases.phases.write = fails
    whole(tmp_path / "c")
    assert (tmp_path / "c" / "state").read_text() == "x"
    err = capfd.readouterr().err
    assert err == "clusterkit: the phases of this task are not all reported: KeyError('moment')\n"


@pytest.mark.parametrize("words", ["saving", "saving:x:1", "::", "saving:1:1:1"])
def test_an_environment_that_is_wrong_changes_nothing(
    reports: Reports, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Phases are still reported, and nothing waits."""
    monkeypatch.setenv("CLUSTERKIT_PHASES", words)
    made = phases.Phases()
    made.write = Steps().write
    made.reach("saving")
    assert (made.wanted, told(reports)) == ({}, "saving")


def test_what_a_signal_handler_raises_at_a_phase_is_the_programs(
    reports: Reports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is interrupted, before the file is opened."""

    class Preempted(Exception):
        pass

    def interrupted(_: float) -> None:
        raise Preempted

    monkeypatch.setattr(phases, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=interrupted))
    phases.phases.wanted = {"saving-open": (1, 1)}
    with pytest.raises(Preempted):
        write(tmp_path / "c" / "state")
    assert told(reports) == "saving o"
    assert not (tmp_path / "c" / "state").exists()


def test_a_task_waits_so_long_and_only_so_often(
    reports: Reports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first two times that it reaches the phase; a second each."""
    clock, naps = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        naps.append(seconds)

    monkeypatch.setattr(phases, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    phases.phases.wanted = {"saving": (2, 2), "saved": (1, 0)}
    for _ in range(4):
        whole(tmp_path / "c")
    assert clock[0] == pytest.approx(2, abs=0.02)
    assert max(naps) <= 0.01
    assert told(reports) == "saving o w s r saved saving", "the others are reported once"


def test_forks_report_nothing(reports: Reports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of the task's own, such as a data loader, is no task."""
    monkeypatch.setattr(phases.phases, "pid", 1)
    whole(tmp_path / "c")
    read(tmp_path / "c" / "state")
    assert told(reports) == ""


def test_open_stays_what_it_is(reports: Reports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One function under two names, with the same results; the program's main code ends once."""
    for owner, name in [(builtins, "open"), (io, "open"), *[(os, name) for name in (*phases.BY_DESCRIPTOR, *RENAMES)]]:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr("sys.addaudithook", lambda hook: None)
    steps = SimpleNamespace(steps=Steps())
    phases.begin(None, lambda name: steps if name == "task/patches/steps" else load(name))
    assert builtins.open is io.open
    path = tmp_path / "c" / "state"
    with open(path, "wb") as file:  # noqa: PTH123
        assert (type(file), file.name) == (io.BufferedWriter, str(path)) or file.name == path
        file.write(b"abc")
    with open(path, mode="a", encoding="utf-8") as text, open(path) as again:  # noqa: PTH123
        assert (type(text), type(again), again.read()) == (io.TextIOWrapper, io.TextIOWrapper, "abc")
    with pytest.raises(FileNotFoundError):
        open(tmp_path / "none")  # noqa: PTH123, SIM115
    with pytest.raises(io.UnsupportedOperation):
        open(path, "rb").write(b"")  # noqa: PTH123, SIM115
    os.replace(path, tmp_path / "c" / "other")  # noqa: PTH105
    assert (tmp_path / "c" / "other").read_text() == "abc"


RENAMES = ("rename", "replace")


def test_the_end_of_the_main_code_is_reported_however_it_ends(reports: Reports) -> None:
    """Also by an exception, which goes on."""

    def run(how: str, target: str) -> None:
        raise SystemExit(7)

    entry = SimpleNamespace(run=run)
    phases.watch_end(entry)
    with pytest.raises(SystemExit):
        entry.run("script", "train.py")
    assert told(reports) == "ending"


def test_a_file_in_a_cycle_is_closed_with_it(reports: Reports, tmp_path: Path) -> None:
    """Python clears weak references to such a file before it closes the file."""
    kept = SimpleNamespace(file=(tmp_path / "c" / "state").open("wb"))
    phases.phases.watch_file(kept.file, tmp_path / "c" / "state")
    kept.itself, number = kept, kept.file.fileno()
    del kept
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_file_object_that_is_gone_can_still_be_flushed(reports: Reports, tmp_path: Path) -> None:
    """Its descriptor is left to whoever opened it, and not used any more once it is closed."""
    with (tmp_path / "c" / "state").open("wb", buffering=0) as owner:
        raw = io.FileIO(owner.fileno(), "w", closefd=False)
        watched = phases.WatchedFile(raw, None)
        del raw
        assert watched.write(b"late") == 4
        watched.close()
        with pytest.raises(ValueError, match="negative"):
            watched.write(b"too late")
        assert os.fstat(owner.fileno()).st_size == 4
