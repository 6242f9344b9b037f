"""The verdicts of --verify are kept in files, which may contain anything."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from clusterkit.store import verdicts
from clusterkit.store.verdicts import VerdictStore, key_of, parsed
from clusterkit.words import wire
from clusterkit.words.verification import Equality, Verification

FOUND = Verification(Equality.DIFFERENT, 5, "It differs.", "Mend it.", "train.py, line 3")
FACTS = {"files": {"/train.py": "1"}, "counts": {"worker": 2}, "steps": 5}


def test_a_verdict_is_found_again(tmp_path: Path) -> None:
    """As one that an earlier run has found."""
    store, key = VerdictStore(tmp_path), key_of(FACTS)
    assert store.find(key) is None
    store.keep(key, FOUND)
    assert store.find(key) == Verification(Equality.DIFFERENT, 5, FOUND.text, FOUND.remedy, FOUND.place, cached=True)


@pytest.mark.parametrize(
    "change", [{"files": {"/train.py": "2"}}, {"counts": {"worker": 3}}, {"steps": 20}, {"more": "\udcff"}]
)
def test_a_change_of_anything_needs_another_verdict(change: dict[str, object]) -> None:
    """The program, the tasks and the steps are parts of the key."""
    assert key_of({**FACTS, **change}) != key_of(FACTS)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"null", b"[]", b"{}", b"5", b'{"equality": "equal"}', b'{"equality": "perfect", "steps": 5}',
        b'{"equality": "equal", "steps": true}', b'{"equality": "equal", "steps": "5"}', b"[" * 30_000,
        b'{"equality": "equal", "steps": 5, "text": 7}', b'{"equality": ["equal"], "steps": 5}', b"\xff\xfe",
    ],
)  # fmt: skip
def test_what_is_no_verdict_is_ignored(content: bytes) -> None:
    """An entry that is wrong means that the job is verified again."""
    assert parsed(content) is None


def test_random_bytes(tmp_path: Path) -> None:
    """No content raises an exception."""
    seed = random.randrange(2**32)
    print("seed", seed)
    drawn, good = random.Random(seed), json.dumps(wire.encode(FOUND)).encode()
    store = VerdictStore(tmp_path)
    store.keep("key", FOUND)
    for _ in range(500):
        content = bytearray(drawn.randbytes(drawn.randrange(80)) if drawn.random() < 0.3 else good)
        for _ in range(drawn.randrange(4)):
            if content:
                content[drawn.randrange(len(content))] = drawn.randrange(256)
        (store.path / "key.json").write_bytes(content)
        found = store.find("key")
        assert found is None or isinstance(found.equality, Equality)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """Nor is a directory in its place."""
    store = VerdictStore(tmp_path)
    store.keep("large", FOUND)
    (store.path / "large.json").write_bytes(json.dumps(wire.encode(FOUND)).encode() + b" " * verdicts.LARGEST)
    (store.path / "odd.json").mkdir()
    assert store.find("large") is None
    assert store.find("odd") is None


def test_the_oldest_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory does not grow without a bound."""
    monkeypatch.setattr(verdicts, "MOST", 3)
    store = VerdictStore(tmp_path)
    for number in range(5):
        store.keep(str(number), FOUND)
        os.utime(store.path / f"{number}.json", (number, number))
    assert [store.find(str(number)) is not None for number in range(5)] == [False, False, True, True, True]


def test_a_program_is_new_once(tmp_path: Path) -> None:
    """So that the hint is shown once; never where it can't be stored that it was."""
    store = VerdictStore(tmp_path)
    assert [store.is_new("a"), store.is_new("a"), store.is_new("b")] == [True, False, True]
    (tmp_path / "file").touch()
    assert not VerdictStore(tmp_path / "file").is_new("a")
