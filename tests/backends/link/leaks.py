"""What another user of a host could find of a run: in the lists of processes, in environments, in files."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clusterkit.system import procfs

LISTENS = "0A"  # in /proc/net/tcp
EVERYONE = 0o007


def key_in(pem: Path) -> list[bytes]:
    """The lines of a private key: none of them may be anywhere else."""
    found = re.search(rb"-----BEGIN PRIVATE KEY-----\n(.*)\n-----END", pem.read_bytes(), re.DOTALL)
    assert found is not None
    return found[1].split(b"\n")


def holding(texts: Iterable[tuple[str, bytes]], secrets: Collection[bytes]) -> list[str]:
    """The names of the texts in which a secret is."""
    return [name for name, text in texts if any(secret in text for secret in secrets)]


def arguments(pids: Iterable[int]) -> Iterator[tuple[str, bytes]]:
    """The command lines of processes, which every user of a host can read."""
    return ((f"argv of {pid}", "\0".join(procfs.argv_of(pid)).encode()) for pid in pids)


def environments(pids: Iterable[int]) -> Iterator[tuple[str, bytes]]:
    """Their environments, of which a program may print a copy."""
    for pid in pids:
        yield f"environment of {pid}", repr(procfs.environ(pid)).encode()


def files(*places: Path, but: Collection[Path] = ()) -> Iterator[tuple[str, bytes]]:
    """All files below these directories."""
    for path in (path for place in places for path in place.rglob("*") if path not in but):
        with suppress(FileNotFoundError):  # of a live run: it has removed the file, as an old checkpoint
            if path.is_file() and not path.is_symlink():
                yield str(path), path.read_bytes()


def open_to_others(*places: Path) -> list[str]:
    """The files and sockets below these directories that another user can open: all directories on the way let him."""
    found = []
    for place in places:
        if _mode(place) & EVERYONE:
            found += [str(path) for path in _below(place)]
    return found


def _below(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        if path.is_symlink():
            continue
        if path.is_dir() and _mode(path) & stat.S_IXOTH:
            yield from _below(path)
        elif not path.is_dir() and _mode(path) & (stat.S_IROTH | stat.S_IWOTH):
            yield path


def _mode(path: Path) -> int:
    return path.lstat().st_mode


def ports(pids: Iterable[int]) -> set[int]:
    """The TCP ports on which these processes listen, each on its own network."""
    found = set()
    for pid in pids:
        own = procfs.links(pid)
        for fields in procfs.tcp_sockets(pid, LISTENS):
            if f"socket:[{fields[9]}]" in own:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def own_processes(pids: Iterable[int]) -> list[int]:
    """Those that are clusterkit's, and no tasks."""
    kinds = ("chief:", "worker:", "ps:", "evaluator:")
    return [pid for pid in pids if not procfs.environ(pid).get("CLUSTERKIT_TASK", "").startswith(kinds)]


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """What is started meanwhile has this mask."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
