"""Finds other people who are logged in to this machine, without starting a process."""

from __future__ import annotations

import os
import pwd
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from clusterkit.system.files import end_of
from clusterkit.system.ownership import user_name

UTMP, SESSIONS = Path("/run/utmp"), Path("/run/systemd/users")  # logins, and users with sessions: a file for each uid
USER_PROCESS = 7  # the type of a record about a login
LONGEST = 1 << 20  # bytes; earlier records of a longer file are not read
FIRST_PERSON = 1000  # smaller user ids, except root's, belong to the system's services
_RECORD = struct.Struct("hi32s4s32s256shhiii4i20s")  # struct utmp of glibc, in this machine's byte order


def others(utmp: Path = UTMP, sessions: Path = SESSIONS) -> list[str]:
    """Return the names of other people who are logged in, sorted. Root is trusted, and does not count."""
    found = set[str]()
    for uid in {*_in_sessions(sessions), *_in_utmp(utmp)} - {0, os.geteuid()}:
        if uid >= FIRST_PERSON:
            found.add(user_name(uid))
    return sorted(found)


def _in_sessions(directory: Path) -> Iterator[int]:
    with suppress(OSError):
        yield from (int(name) for name in os.listdir(directory) if name.isascii() and name.isdecimal())


def _in_utmp(path: Path) -> Iterator[int]:
    try:
        data = end_of(path, LONGEST)
    except OSError:
        return
    for at in range(len(data) % _RECORD.size, len(data), _RECORD.size):
        kind, *_ = fields = _RECORD.unpack_from(data, at)
        name = fields[4].partition(b"\0")[0].decode(errors="replace")
        if kind == USER_PROCESS and name:
            with suppress(KeyError):
                yield pwd.getpwnam(name).pw_uid
