"""Who else is logged in: from the records of logins and sessions, whatever is in them."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusterkit.backends.local import resources
from clusterkit.system import logins
from clusterkit.words.model import ProgramKind
from tests.histories import build_job

USERS = {"root": 0, "daemon": 1, "alice": 1001, "bob": 1002, "me": 1003}
RECORD = struct.Struct("hi32s4s32s256shhiii4i20s")


@pytest.fixture(autouse=True)
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    """This user is `me`."""
    numbers = {uid: name for name, uid in USERS.items()}
    known = SimpleNamespace(
        getpwnam=lambda name: SimpleNamespace(pw_uid=USERS[name]),
        getpwuid=lambda uid: SimpleNamespace(pw_name=numbers[uid]),
    )
    for module in ("logins", "ownership"):
        monkeypatch.setattr(f"clusterkit.system.{module}.pwd", known)
    monkeypatch.setattr(os, "geteuid", lambda: USERS["me"])


def record(name: bytes, kind: int = 7) -> bytes:
    """A record of a login."""
    return RECORD.pack(kind, 1, b"pts/0", b"ts/0", name, b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, b"")


@pytest.mark.parametrize(
    ("logged_in", "sessions", "found"),
    [
        ([], [], []),
        ([record(b"alice")], [], ["alice"]),
        ([record(b"alice"), record(b"alice"), record(b"bob")], ["1001"], ["alice", "bob"]),
        ([record(b"me"), record(b"root"), record(b"daemon")], ["0", "1003", "1"], []),
        ([record(b"alice", kind=8), record(b"", 7), record(b"nobody-knows")], [], []),
        ([], ["1002", "77777", "x", "\u0661"], ["bob", "uid 77777"]),
        ([b"half a record", record(b"bob")], [], ["bob"]),
    ],
)
def test_who_is_logged_in(tmp_path: Path, logged_in: list[bytes], sessions: list[str], found: list[str]) -> None:
    """People, but neither this one nor root and the system's services."""
    (tmp_path / "utmp").write_bytes(b"".join(logged_in))
    (tmp_path / "users").mkdir()
    for name in sessions:
        (tmp_path / "users" / name).touch()
    assert logins.others(tmp_path / "utmp", tmp_path / "users") == found


def test_a_machine_without_records(tmp_path: Path) -> None:
    """As a container; also one with something else in their place."""
    assert logins.others(tmp_path / "utmp", tmp_path / "users") == []
    os.mkfifo(tmp_path / "utmp")
    (tmp_path / "users").touch()
    assert logins.others(tmp_path / "utmp", tmp_path / "users") == []


def test_any_bytes(tmp_path: Path) -> None:
    """No error."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(200):
        (tmp_path / "utmp").write_bytes(record(chance.randbytes(32)) + chance.randbytes(chance.randrange(2000)))
        assert set(logins.others(tmp_path / "utmp", tmp_path / "users")) <= {"alice", "bob"}


@pytest.mark.parametrize(
    ("options", "names", "told"),
    [
        ({"workers": 2}, ["alice"], "alice is logged in here, too."),
        ({"workers": 2, "ps": 1}, ["alice", "bob"], "alice and bob are logged in here, too."),
        ({"workers": 2}, [], None),
        ({"workers": 1}, ["alice"], None),  # no server listens
        ({"workers": 2, "network": "virtual"}, ["alice"], None),
        ({"workers": 2, "convention": "jax"}, ["alice"], None),
    ],
)
def test_up_says_whom_servers_are_open_to(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, object], names: list[str], told: str | None
) -> None:
    """And how they are not."""
    monkeypatch.setattr(logins, "others", lambda: names)
    job = build_job({"program": "train.py", **options}, ProgramKind.SCRIPT)
    warnings = resources.preflight(job, starts=False).warnings
    found = [one for one in warnings if "logged in here" in one]
    assert len(found) == (told is not None)
    assert told is None or found[0].startswith(told)
    assert told is None or "With --network virtual, nobody else reaches them." in found[0]
