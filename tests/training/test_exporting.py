"""An exported model is whole or not there, and one task's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from clusterkit.training import exporting
from clusterkit.training.exporting import export


class Model:
    """Writes a file or a directory as a Keras model does, and records the paths."""

    def __init__(self, weights: str = "weights", fails: bool = False) -> None:
        self.weights, self.fails = weights, fails
        self.wrote: list[Path] = []

    def save(self, path: str) -> None:
        self.wrote.append(Path(path))
        Path(path).write_text(self.weights)
        if self.fails:
            raise OSError("no room")

    def export(self, path: str) -> None:
        Path(path).mkdir()
        self.wrote.append(Path(path))
        Path(path, "saved_model.pb").write_text(self.weights)
        if self.fails:
            raise OSError("no room")


@pytest.fixture(autouse=True)
def _in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERKIT_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("TF_CONFIG", raising=False)


def be(monkeypatch: pytest.MonkeyPatch, task: str, **sizes: int) -> None:
    task_type, _, index = task.partition(":")
    cluster = {name: [f"h:{n}" for n in range(size)] for name, size in sizes.items()}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": task_type, "index": int(index)}}))


def content(path: str | None, format: str) -> str:
    assert path is not None
    return (Path(path) / "saved_model.pb" if format == "saved_model" else Path(path)).read_text()


@pytest.mark.parametrize(("format", "name"), [("keras", "model.keras"), ("saved_model", "model")])
def test_the_default_place(tmp_path: Path, format: str, name: str) -> None:
    """The export is in the run's directory, and nothing else is left there."""
    path = export(Model(), format=format)
    assert path == str(tmp_path / "run" / "export" / name)
    assert content(path, format) == "weights"
    assert [found.name for found in Path(path).parent.iterdir()] == [name]


@pytest.mark.parametrize(("format", "name"), [("keras", "model.keras"), ("saved_model", "model")])
def test_a_failed_export_leaves_the_old_one(format: str, name: str) -> None:
    """The new export replaces the old one only when it is complete."""
    path = export(Model("old"), format=format)
    with pytest.raises(OSError, match="no room"):
        export(Model("new", fails=True), format=format)
    assert content(path, format) == "old"
    assert content(export(Model("new"), format=format), format) == "new"
    assert path is not None
    assert [found.name for found in Path(path).parent.iterdir()] == [name]


@pytest.mark.parametrize(
    ("format", "files"), [("keras", ["model.keras"]), ("saved_model", ["saved_model.pb", "model"])]
)
def test_everything_is_on_the_disk_before_it_gets_its_name(
    format: str, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power failure could leave an empty file under that name."""
    done = list[str]()
    monkeypatch.setattr(os, "fsync", lambda fd: done.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
    monkeypatch.setattr(exporting, "replace", lambda old, new: done.append("replace"))
    export(Model(), format=format)
    staged = [Path(name).name for name in done]
    assert staged.pop() == "replace"
    assert [name if name == "saved_model.pb" else f"model{Path(name).suffix}" for name in staged] == files


@pytest.mark.parametrize(
    ("task", "sizes", "writes", "keeps"),
    [
        ("worker:0", {"worker": 2}, True, True),
        ("worker:1", {"worker": 2}, True, False),  # reading some variables takes every worker
        ("chief:0", {"chief": 1, "worker": 1, "ps": 1}, True, True),
        ("evaluator:0", {"worker": 2, "evaluator": 1}, False, False),
    ],
)
def test_who_writes_and_who_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, sizes: dict[str, int], writes: bool, keeps: bool
) -> None:
    """All workers of a multi-worker job write; only the chief's export is kept."""
    be(monkeypatch, task, **sizes)
    model = Model()
    path = export(model, tmp_path / "out" / "best.keras")
    assert (bool(model.wrote), path is not None) == (writes, keeps)
    kept = sorted(found.name for found in (tmp_path / "out").glob("*"))
    assert kept == (["best.keras"] if keeps else [])


def test_a_killed_export_is_cleaned_up_by_the_next(tmp_path: Path) -> None:
    """Only leftovers of the same task are removed."""
    (tmp_path / ".exporting-worker-0-abc.keras").write_text("half")
    (tmp_path / ".exporting-worker-1-abc").mkdir()
    export(Model(), tmp_path / "model.keras")
    assert sorted(found.name for found in tmp_path.iterdir()) == [".exporting-worker-1-abc", "model.keras"]


@pytest.mark.parametrize(
    ("model", "path", "format", "why"),
    [
        (Model(), None, "h5", "Unknown export format 'h5': use keras or saved_model"),
        (Model(), "model.h5", "keras", "a path that ends in .keras"),
        (object(), None, "keras", "it needs a Keras model"),
    ],
)
def test_invalid_arguments(model: object, path: str | None, format: str, why: str) -> None:
    """Invalid arguments are rejected before anything is written."""
    with pytest.raises(ValueError, match=why):
        export(model, path, format)


CALLS = [(os, name) for name in ("rename", "replace", "rmdir", "unlink", "mkdir")]


class Killed(BaseException):
    """Stands in for SIGKILL: nothing handles it."""


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int, can_exchange: bool) -> list[str]:
    """Simulate a kill after `number` calls that change a directory; return the names of those calls."""
    made = list[str]()

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            if len(made) >= number:
                raise Killed
            made.append(name)
            return call(*args, **kwargs)

        return counting

    for place, name in CALLS:
        monkeypatch.setattr(place, name, counted(name, getattr(place, name)))
    exchange = exporting._exchange if can_exchange else lambda one, other: False
    monkeypatch.setattr(exporting, "_exchange", counted("exchange", exchange))
    return made


def whole_models(place: Path) -> list[str]:
    """The weights of the complete models at the path."""
    return [file.read_text() for file in place.glob("model/saved_model.pb")]


@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "two renames"])
@pytest.mark.parametrize("next_fails", [False, True])
def test_a_kill_at_any_step_of_a_replacement_leaves_a_whole_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool, next_fails: bool
) -> None:
    """The model is at the path, or the next export restores it there before writing, even if that export fails."""
    for number in range(100):
        place = tmp_path / str(number)
        export(Model("old"), place / "model", "saved_model")
        with monkeypatch.context() as patch:
            made = kill_at(patch, number, can_exchange)
            try:
                export(Model("new"), place / "model", "saved_model")
                done = True
            except Killed:
                done = False
        seen = whole_models(place)
        assert not can_exchange or len(seen) == 1, made
        model = Model("newest", fails=next_fails)
        with suppress(OSError):
            export(model, place / "model", "saved_model")
        (now,) = whole_models(place)
        assert now in (("old", "new") if next_fails else ("newest",)), made
        assert [found.name for found in place.iterdir()] == ["model"], made
        if done:
            assert seen == ["new"]
            assert number > 3, "nothing was cut short"
            return
    pytest.fail("the export never ended")


def test_where_the_new_model_cannot_take_its_place_the_old_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error between the two renames undoes the first one."""
    export(Model("old"), tmp_path / "model", "saved_model")
    monkeypatch.setattr(exporting, "_exchange", lambda one, other: False)
    rename = os.rename

    def refuse(source: Any, target: Any, **kwargs: Any) -> None:
        if ".exporting-" in str(source):
            raise OSError(28, "No space left on device")
        rename(source, target, **kwargs)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="No space"):
        export(Model("new"), tmp_path / "model", "saved_model")
    assert whole_models(tmp_path) == ["old"]
    assert [found.name for found in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "two renames"])
@pytest.mark.parametrize("old", ["file", "link", "directory", "nothing"])
@pytest.mark.parametrize("format", ["keras", "saved_model"])
def test_whatever_was_there_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, old: str, can_exchange: bool
) -> None:
    """A file is replaced by a directory and vice versa; a link is replaced itself, not its target."""
    if not can_exchange:
        monkeypatch.setattr(exporting, "_exchange", lambda one, other: False)
    elsewhere, place = tmp_path / "elsewhere", tmp_path / "here" / "model.keras"
    elsewhere.mkdir()
    place.parent.mkdir()
    if old == "file":
        place.write_text("old")
    elif old == "link":
        place.symlink_to(elsewhere)
    elif old == "directory":
        place.mkdir()
    assert content(export(Model(), place, format), format) == "weights"
    assert [found.name for found in place.parent.iterdir()] == ["model.keras"]
    assert not list(elsewhere.iterdir())
