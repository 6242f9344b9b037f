"""The checkpoint directory: complete or not there, whatever is killed when; and nothing damaged is taken for good."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.training.checkpoint_store import MANIFEST, Checkpoint, CheckpointStore, Damaged, verify


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # slow, and no test here cuts the power


class Killed(BaseException):
    """Stands in for SIGKILL: nothing handles it."""


def make(directory: Path) -> CheckpointStore:
    return CheckpointStore(str(directory), "chief:0")


def put(store: CheckpointStore, step: int, content: bytes = b"weights") -> str:
    staged = store.stage()
    (staged / "state.index").write_bytes(b"index")
    (staged / "state.data-00000-of-00001").write_bytes(content)
    return store.publish(staged, step)


def steps(store: CheckpointStore) -> list[int]:
    return [found.step for found in store.found()]


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def newest_intact(store: CheckpointStore) -> Checkpoint | None:
    return next((found for found in store.intact() if isinstance(found, Checkpoint)), None)


def test_publish(tmp_path: Path) -> None:
    """A published checkpoint is complete and named after its step, and nothing else is left."""
    store = make(tmp_path / "made" / "on demand")
    path = put(store, 100)
    assert Path(path).name == "ckpt-100"
    assert names(store.directory) == ["ckpt-100"]
    verify(Checkpoint(100, path))


def test_newest_first_by_number(tmp_path: Path) -> None:
    """Steps are compared as numbers, and other names in the directory are ignored."""
    store = make(tmp_path)
    for step in (90, 1000, 200):
        put(store, step)
    for name in ("ckpt-0005", "ckpt-x", "checkpoint", "ckpt-7.tmp"):
        (tmp_path / name).mkdir()
    assert steps(store) == [1000, 200, 90]


def test_empty_directory(tmp_path: Path) -> None:
    """Without a directory there are no checkpoints."""
    store = make(tmp_path / "missing")
    assert store.found() == []
    assert list(store.intact()) == []
    store.clean()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        ("state.index", cut, "state.index has 4 bytes where its manifest says 5"),
        ("state.data-00000-of-00001", flip, "state.data-00000-of-00001 is not what was saved"),
        ("state.data-00000-of-00001", Path.unlink, "state.data-00000-of-00001 cannot be read"),
        (MANIFEST, Path.unlink, "manifest.json cannot be read"),
        (MANIFEST, cut, None),
        (MANIFEST, lambda path: path.write_bytes(b""), "was cut short"),
        (MANIFEST, lambda path: path.write_bytes(b"\xff\xfe"), "not a checkpoint's manifest"),
        (MANIFEST, lambda path: path.write_text("[]"), "not a checkpoint's manifest"),
        (MANIFEST, lambda path: path.write_text('{"step": 200, "files": []}'), "not a checkpoint's manifest"),
        (MANIFEST, lambda path: path.write_text('{"step": 5, "files": {}}'), "is of step 5"),
    ],
)
def test_damage(tmp_path: Path, name: str, damage: Callable[[Path], Any], why: str | None) -> None:
    """A damaged newest checkpoint is skipped with the file and the reason, and the one before it is found."""
    store = make(tmp_path)
    put(store, 100)
    newest = put(store, 200)
    damage(Path(newest, name))
    if why is None:  # only the final newline went: still all there
        verify(Checkpoint(200, newest))
        return
    with pytest.raises(Damaged, match=why):
        verify(Checkpoint(200, newest))
    found = newest_intact(store)
    assert found is not None
    assert found.step == 100


def test_prune_keeps_the_newest(tmp_path: Path) -> None:
    """The newest `keep` checkpoints are kept."""
    store = make(tmp_path)
    for step in (100, 200, 300, 400):
        put(store, step)
        store.prune(step, keep=2)
    assert steps(store) == [400, 300]
    assert len(names(tmp_path)) == 2


def test_prune_spares_what_was_just_saved(tmp_path: Path) -> None:
    """Damaged checkpoints of later steps are removed and do not displace the new one."""
    store = make(tmp_path)
    for step in (50, 300, 400):
        put(store, step)
    put(store, 100)
    store.prune(100, keep=1, damaged=[str(tmp_path / "ckpt-400")])
    assert steps(store) == [300, 100]


def test_replaced_step(tmp_path: Path) -> None:
    """Saving a step again replaces its content, even if the old checkpoint was damaged."""
    store = make(tmp_path)
    flip(Path(put(store, 100), "state.index"))
    path = put(store, 100, b"new")
    store.prune(100, keep=3, damaged=[path])
    assert Path(path, "state.data-00000-of-00001").read_bytes() == b"new"
    assert names(tmp_path) == ["ckpt-100"]
    verify(Checkpoint(100, path))


@pytest.mark.parametrize(("first", "second"), [(first, second) for second in range(4) for first in range(second + 1)])
def test_a_step_that_is_replaced_meanwhile_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, second: int
) -> None:
    """It is found even if the renames happen between the listings of the directory."""
    store, looks = make(tmp_path), iter(range(100))
    put(store, 5)
    final, hidden = tmp_path / "ckpt-5", tmp_path / ".replaced-ckpt-5"
    listed = store._names

    def looking() -> list[str]:
        look = next(looks)
        if look == first:
            final.rename(hidden)
        if look == second:
            hidden.rename(final)
        return listed()

    monkeypatch.setattr(store, "_names", looking)
    assert steps(store) == [5]


def test_clean_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    """A task removes the leftovers of its own interrupted saves, but not what another task is writing."""
    mine, other = make(tmp_path), CheckpointStore(str(tmp_path), "worker:1")
    mine.stage()
    others = other.stage()
    mine.clean()
    assert names(tmp_path) == [others.name]


def kill_at(monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    """Simulate a kill after `moment` changes to the disk."""
    done = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            done += 1
            if done > moment:
                raise Killed
            return function(*args, **kwargs)

        return call

    for owner, name in [
        (Path, "mkdir"),
        (Path, "write_bytes"),
        (Path, "write_text"),
        (Path, "rename"),
        (shutil, "rmtree"),
        (os, "fsync"),
    ]:
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))


@pytest.mark.parametrize("step", [100, 200])
@pytest.mark.parametrize("keep", [1, 2])
def test_kill_at_any_moment(tmp_path: Path, step: int, keep: int) -> None:
    """Whenever the task is killed, an intact checkpoint is found: the old or the new one."""
    for moment in range(100):
        directory = tmp_path / str(moment)
        store = make(directory)
        put(store, 100, b"old")
        survived = save_killed_at(store, step, keep, moment)
        for look in (make(directory), cleaned(directory)):
            found = newest_intact(look)
            assert found is not None
            assert Path(found.path, "state.data-00000-of-00001").read_bytes() in (b"old", b"new")
        assert all(name.startswith("ckpt-") for name in names(directory))
        if survived:
            assert moment > 10
            return
    pytest.fail("The save was never allowed to end.")


def save_killed_at(store: CheckpointStore, step: int, keep: int, moment: int) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, moment)
        try:
            put(store, step, b"new")
            store.prune(step, keep)
        except Killed:
            return False
    return True


def cleaned(directory: Path) -> CheckpointStore:
    store = make(directory)
    store.clean()
    return store


def test_kill_during_the_manifest(tmp_path: Path) -> None:
    """A checkpoint is not found before its rename, although its files exist."""
    store = make(tmp_path)
    staged = store.stage()
    (staged / MANIFEST).write_text(json.dumps({"step": 1, "files": {}}))
    assert store.found() == []


@given(text=st.binary())
def test_no_manifest_text_is_an_unexpected_error(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    """Whatever bytes a manifest contains, the checkpoint is either intact or Damaged."""
    directory = tmp_path_factory.mktemp("ckpt")
    (directory / MANIFEST).write_bytes(text)
    with pytest.raises(Damaged):
        verify(Checkpoint(100, str(directory)))


def test_a_checkpoint_of_another_host_is_waited_for(tmp_path: Path) -> None:
    """It, or a later one, since it may be pruned by then; nothing else is."""
    store = make(tmp_path)
    named = str(tmp_path / "ckpt-40")
    assert not store.has(named, 0.2)
    late = threading.Timer(0.2, (tmp_path / "ckpt-40").mkdir)
    late.start()
    assert store.has(named, 20)
    late.join()
    (tmp_path / "ckpt-40").rename(tmp_path / "ckpt-50")
    assert store.has(named, 0.0)
    assert all(store.has(other, 0.0) for other in ("", "ckpt-40", "/elsewhere/ckpt-99", str(tmp_path / "model.keras")))


def test_another_task_leaves_a_replacement_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be going on. Only the task that publishes finishes one, when it starts again."""
    chief, other = make(tmp_path), CheckpointStore(str(tmp_path), "worker:1")
    put(chief, 5)
    rename = Path.rename

    def cleaned_meanwhile(path: Path, target: Path) -> Path:
        if path.name.startswith(".saving"):
            other.clean(finish=False)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", cleaned_meanwhile)
    assert Path(put(chief, 5, b"new"), "state.data-00000-of-00001").read_bytes() == b"new"
    assert names(tmp_path) == ["ckpt-5"]


def test_a_file_with_the_name_of_a_checkpoint_is_a_damaged_one(tmp_path: Path) -> None:
    """It is found as that, pruned, and replaced like any other."""
    store = make(tmp_path)
    (tmp_path / "ckpt-100").touch()
    (tmp_path / "ckpt-200").symlink_to("nowhere")
    assert [one[0].step for one in store.intact() if not isinstance(one, Checkpoint)] == [200, 100]
    put(store, 100)
    store.prune(100, 3, [str(tmp_path / "ckpt-200")])
    assert names(tmp_path) == ["ckpt-100"]
    verify(Checkpoint(100, str(tmp_path / "ckpt-100")))
