"""The rule of what clusterkit trusts: it belongs to this user or to root, and nobody else can write to it.

OpenSSH applies the same rule to its own files (StrictModes). Whoever can write to a state directory can put files there
that clusterkit unpickles, and sockets that it sends environment variables to.

The rule is the same for root: root does not trust what belongs to another user, since a command of root that reads it
could be made to act for that user.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imported only for type checks, since most commands do not need it and should start fast
    import socket

_ACL = "system.posix_acl_access"
_CREDENTIALS = struct.Struct("3i")  # pid, uid and gid, as SO_PEERCRED returns them


class ForeignPeer(PermissionError):
    """The process at the other end of a socket belongs to another user. Nothing was sent to it."""

    def __init__(self, uid: int) -> None:
        super().__init__(1, f"it belongs to another user, {user_name(uid)}")
        self.uid = uid


def is_trusted(uid: int) -> bool:
    """Return whether a user is this one or root."""
    return uid in (0, os.geteuid())


def peer_uid(connection: socket.socket) -> int:
    """Return the user of the process that listens at, or has connected to, a Unix socket. Raises OSError."""
    import socket  # imported here, where it is already loaded

    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1])


def check_peer(connection: socket.socket) -> None:
    """Raise ForeignPeer unless the other end of a Unix socket is trusted. Call this before sending anything."""
    uid = peer_uid(connection)
    if not is_trusted(uid):
        raise ForeignPeer(uid)


def owner_of(path: Path) -> int | None:
    """Return the owner of a file or directory; None if it does not exist or is not reachable. Links are followed."""
    try:
        return path.stat().st_uid
    except OSError:
        return None


def is_writable_by_others(path: Path, sticky: bool = False) -> bool:
    """Return whether users other than the owner can change a directory. False if the directory does not exist.

    With `sticky`, a directory such as /tmp does not count: in it, users can't rename or remove what is not theirs.
    """
    try:
        seen = path.stat()
    except OSError:
        return False
    if sticky and seen.st_mode & stat.S_ISVTX:
        return False
    if seen.st_mode & stat.S_IWOTH:
        return True
    return bool(seen.st_mode & stat.S_IWGRP) and not (_is_private(seen.st_gid) and not _has_acl(path))


def _is_private(group: int) -> bool:
    """Return whether a group has no member but this user.

    Many systems give each user such a group, of the same name, and a umask that lets it write.
    """
    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and found.gr_name == user.pw_name and {*found.gr_mem} <= {user.pw_name}


def _has_acl(path: Path) -> bool:
    """Return whether a directory has an access control list, whose named users the group's mode bits include."""
    try:
        return _ACL in os.listxattr(path)
    except OSError:  # the file system has no attributes
        return False


def user_name(uid: int) -> str:
    """Return a user's name, or `uid 1234` for a user without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
