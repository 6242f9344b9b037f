"""Whose a directory is, who else can write to it, and whose process is at the other end of a socket."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusterkit.system import ownership
from clusterkit.system.ownership import ForeignPeer, check_peer, is_trusted, is_writable_by_others, peer_uid
from tests.strangers import STRANGER, needs_root


@pytest.mark.parametrize(
    ("mode", "sticky", "is_open"),
    [
        (0o700, False, False),
        (0o755, False, False),
        (0o702, False, True),
        (0o777, False, True),
        (0o1777, False, True),
        (0o1777, True, False),
        (0o777, True, True),
        (0o2770, False, True),
        (0o1770, True, False),
    ],
)
def test_who_can_write(tmp_path: Path, mode: int, sticky: bool, is_open: bool) -> None:
    """The bits of the group and of others count; a sticky directory is as safe as /tmp."""
    os.chown(tmp_path, -1, _group_with_others())
    tmp_path.chmod(mode)
    assert is_writable_by_others(tmp_path, sticky) is is_open


def _group_with_others() -> int:
    """A group that is not the user's own: of root's, any other."""
    return STRANGER if os.getuid() == 0 else os.getgroups()[-1]


@pytest.mark.parametrize(
    ("gid", "name", "members", "is_private"),
    [
        (100, "me", [], True),
        (100, "me", ["me"], True),
        (100, "me", ["me", "you"], False),
        (100, "users", [], False),  # everybody's main group, which lists nobody
        (200, "me", [], False),
    ],
)
def test_a_group_of_ones_own_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gid: int, name: str, members: list[str], is_private: bool
) -> None:
    """With the umask 002, which many systems give their users, every directory is writable by it."""
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_gid=100, pw_name="me"))
    found = SimpleNamespace(gr_name=name, gr_mem=members)
    monkeypatch.setattr(grp, "getgrgid", lambda number: found)
    seen = os.stat_result((0o40775, 1, 1, 1, os.getuid(), gid, 0, 0, 0, 0))
    monkeypatch.setattr(Path, "stat", lambda self: seen)
    assert is_writable_by_others(tmp_path) is not is_private


def test_a_user_without_a_name_has_no_group_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is started with a number."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    tmp_path.chmod(0o770)
    assert is_writable_by_others(tmp_path)
    assert ownership.user_name(7) == "uid 7"


def test_nobody_writes_to_what_is_not_there(tmp_path: Path) -> None:
    """It is made later, for its owner only."""
    assert not is_writable_by_others(tmp_path / "none")
    assert ownership.owner_of(tmp_path / "none") is None


def test_root_and_oneself_are_trusted() -> None:
    """And nobody else, by root either."""
    assert is_trusted(os.getuid())
    assert is_trusted(0)
    assert not is_trusted(STRANGER)
    assert ownership.user_name(os.getuid()) == pwd.getpwuid(os.getuid()).pw_name


def test_the_other_end_of_a_socket() -> None:
    """Of one's own there is nothing to say."""
    one, other = socket.socketpair()
    with one, other:
        assert peer_uid(one) == os.getuid()
        check_peer(one)


def test_a_stranger_at_the_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the user, and says so as an error of the system does."""
    answer = struct.pack("3i", 1, STRANGER, 1)
    stand_in = SimpleNamespace(getsockopt=lambda *_: answer)
    with pytest.raises(ForeignPeer) as raised:
        check_peer(stand_in)  # type: ignore[arg-type]
    assert raised.value.uid == STRANGER
    assert raised.value.strerror == f"it belongs to another user, uid {STRANGER}"


@needs_root
def test_an_access_list_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group's bits are those of everybody whom the list names."""
    monkeypatch.setattr(ownership, "_is_private", lambda group: True)
    tmp_path.chmod(0o770)
    assert not is_writable_by_others(tmp_path)
    monkeypatch.setattr(os, "listxattr", lambda path: ["system.posix_acl_access"])
    assert is_writable_by_others(tmp_path)
