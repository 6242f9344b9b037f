"""Corrupted checkpoints: the newest one's biggest file, the same bytes for the same seed, and nothing else."""

from __future__ import annotations

import os
import random
from pathlib import Path, PurePosixPath

import pytest

from clusterkit.store.checkpoints import continue_from, corrupt, newest_checkpoint
from clusterkit.training.checkpoint_store import Checkpoint, CheckpointStore, Damaged

CONTENT = bytes(range(256)) * 16  # 4096 bytes


def write(root: Path, name: str, content: bytes = CONTENT, age: int = 0) -> Path:
    """A file that is `age` seconds older than a fixed moment."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def damage(root: Path, how: str = "flip", seed: str = "1/1") -> str | None:
    """Corrupt what is newest below a directory."""
    done = corrupt(PurePosixPath(root), how, seed)
    return done and " ".join(done)


def changed(path: Path) -> list[int]:
    """Which bytes of a file are not as they were written."""
    return [at for at, (new, old) in enumerate(zip(path.read_bytes(), CONTENT, strict=True)) if new != old]


@pytest.mark.parametrize(
    ("files", "victim"),
    [
        ({"ckpt-9/state.index": 1, "ckpt-9/state.data-00000-of-00001": 1}, "ckpt-9/state.data-00000-of-00001"),
        ({"ckpt-9.index": 1, "ckpt-9.data-00000-of-00001": 1, "ckpt-10.data-00000-of-00001": 1, "checkpoint": 0},
         "ckpt-9.data-00000-of-00001"),
        ({"model[1].index": 1, "model[1].data-00000-of-00001": 1}, "model[1].data-00000-of-00001"),
        ({"lone.index": 1}, "lone.index"),
        ({"epoch-1.keras": 5, "epoch-2.keras": 1}, "epoch-2.keras"),
        ({"a.weights.h5": 1, "b.h5": 2, ".c.h5": 0}, "a.weights.h5"),
        ({"deep/er/model.h5": 1}, "deep/er/model.h5"),
        ({"step-3.ckpt/part": 1, "step-2.ckpt/part": 1}, "step-3.ckpt/part"),
    ],
)  # fmt: skip
def test_the_newest_checkpoint_is_hit_and_nothing_else(tmp_path: Path, files: dict[str, int], victim: str) -> None:
    """Of whatever kind it is; ages in seconds."""
    paths = {name: write(tmp_path, name, age=age) for name, age in files.items()}
    for at, directory in enumerate(sorted({path.parent for path in paths.values()} - {tmp_path})):
        os.utime(directory, (1_000_000 + at, 1_000_000 + at))
    assert damage(tmp_path) == f"flipped 64 bytes in {victim}"
    assert {name for name, path in paths.items() if changed(path)} == {victim}


def test_of_several_shards_the_biggest_is_hit(tmp_path: Path) -> None:
    """Each parameter server has written one."""
    write(tmp_path, "ckpt-9/state.index", CONTENT * 4)
    write(tmp_path, "ckpt-9/state.data-00000-of-00002", CONTENT)
    write(tmp_path, "ckpt-9/state.data-00001-of-00002", CONTENT * 2)
    assert damage(tmp_path) == "flipped 64 bytes in ckpt-9/state.data-00001-of-00002"


def test_the_flipped_bytes_follow_from_the_seed(tmp_path: Path) -> None:
    """64 of the middle half; a replay flips the same ones, another fault others."""
    places = []
    for number, seed in enumerate(("7/1", "7/1", "7/2")):
        file = write(tmp_path / str(number), "model.keras")
        damage(tmp_path / str(number), seed=seed)
        places.append(changed(file))
    assert len(places[0]) == 64
    assert all(1024 <= at < 3072 for at in places[0])
    assert places[0] == places[1] != places[2]


def test_a_truncated_file_has_half_of_its_bytes(tmp_path: Path) -> None:
    """The first half."""
    file = write(tmp_path, "model.keras")
    assert damage(tmp_path, "truncate") == "cut to 2048 of its 4096 bytes: model.keras"
    assert file.read_bytes() == CONTENT[:2048]


@pytest.mark.parametrize("how", ["flip", "truncate"])
def test_the_newest_stays_the_newest(tmp_path: Path, how: str) -> None:
    """And an older one that was corrupted would stay older: the times are as they were."""
    write(tmp_path, "old.keras", age=10)
    file = write(tmp_path, "new.keras")
    before = file.stat().st_mtime_ns
    damage(tmp_path, how)
    assert file.stat().st_mtime_ns == before
    assert newest_checkpoint(PurePosixPath(tmp_path)) == str(file)


def test_a_small_file_is_flipped_as_far_as_it_goes(tmp_path: Path) -> None:
    """A single byte has a middle too."""
    file = write(tmp_path, "model.h5", b"\x0f")
    assert damage(tmp_path) == "flipped 1 byte in model.h5"
    assert file.read_bytes() == b"\xf0"


@pytest.mark.parametrize(("left", "said"), [(0, None), (1040, "flipped 1 byte in model.keras")])
def test_a_file_that_is_written_anew_meanwhile_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int, said: str | None
) -> None:
    """A program that writes its checkpoint in place empties the file first."""
    file = write(tmp_path, "model.keras")

    def places(self: random.Random, among: range, count: int) -> list[int]:
        os.truncate(file, left)
        return [among.start + 10, among.start + 100]

    monkeypatch.setattr(random.Random, "sample", places)
    assert damage(tmp_path) == said


@pytest.mark.parametrize("files", [{}, {"notes.txt": CONTENT}, {"empty.keras": b""}])
def test_without_a_checkpoint_nothing_is_done(tmp_path: Path, files: dict[str, bytes]) -> None:
    """Whatever else is in the directory; nor with one that has no bytes."""
    paths = {write(tmp_path, name, content): content for name, content in files.items()}
    assert damage(tmp_path) is None
    assert all(path.read_bytes() == content for path, content in paths.items())
    assert damage(tmp_path / "missing") is None


@pytest.mark.parametrize("how", ["flip", "truncate"])
def test_the_checkpoint_store_sees_the_damage_and_takes_the_one_before(tmp_path: Path, how: str) -> None:
    """So a restart resumes from the newest intact one."""
    store = CheckpointStore(str(tmp_path), "chief:0")
    for step in (1, 2):
        staged = store.stage()
        write(staged, "state.index", age=-step)
        write(staged, "state.data-00000-of-00001", age=-step)
        store.publish(staged, step)
    damage(tmp_path, how)
    skipped, intact = store.intact()
    assert isinstance(skipped[1], Damaged)
    assert isinstance(intact, Checkpoint)
    assert (Path(skipped[0].path).name, intact.step) == ("ckpt-2", 1)


@pytest.mark.parametrize(
    ("link", "target", "copied"),
    [
        ("latest", "ckpt-9", "ckpt-9"),
        ("deep/latest", "../ckpt-9", "../ckpt-9"),
        ("latest", "{old}/ckpt-9", "{new}/ckpt-9"),
        ("latest", "{old}", "{new}"),
        ("latest", "ckpt-gone", "ckpt-gone"),
        ("latest", "{old}/ckpt-gone", "{new}/ckpt-gone"),
        ("shared", "{root}/elsewhere", "{root}/elsewhere"),
        ("shared", "../elsewhere", "{root}/elsewhere"),
        ("deep/shared", "../../gone", "{root}/gone"),
        ("itself", "itself", "itself"),
    ],
)
def test_links_among_checkpoints_are_copied_as_links(tmp_path: Path, link: str, target: str, copied: str) -> None:
    """Also those that lead to nothing. No link leads back to the old checkpoints, which the new run may not change."""
    old, new = tmp_path / "old", tmp_path / "runs" / "new"
    new.mkdir(parents=True)
    write(old, "ckpt-9/model.keras")
    write(old, "deep/part")
    places = {"old": old, "new": new, "root": tmp_path}
    (old / link).symlink_to(target.format(**places))
    continue_from(old, new)
    assert str((new / link).readlink()) == copied.format(**places)
    assert str((old / link).readlink()) == target.format(**places)
    assert (new / "ckpt-9/model.keras").read_bytes() == CONTENT


def test_a_directory_that_is_itself_a_link_is_copied(tmp_path: Path) -> None:
    """Its links may name either of its paths."""
    write(tmp_path / "real", "ckpt-9/model.keras")
    (tmp_path / "old").symlink_to("real")
    for name, place in (("a", "old"), ("b", "real")):
        (tmp_path / "real" / name).symlink_to(tmp_path / place / "ckpt-9")
    new = tmp_path / "new"
    new.mkdir()
    continue_from(tmp_path / "old", new)
    assert [str((new / name).readlink()) for name in "ab"] == [str(new / "ckpt-9")] * 2
