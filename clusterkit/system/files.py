"""Files and directories made with care: whole, private, or with room reserved; and whether a path can be reached."""

from __future__ import annotations

import os
from pathlib import Path

BLOCK = 1 << 16  # bytes in which the end of a line is looked for


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Create or replace a file at once, with these permissions less the umask's. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)
    part.replace(path)


def take_room(path: Path, size: int) -> None:
    """Create a file that takes so many bytes of the disk. Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, size)
    finally:
        os.close(file)


def cut_to_lines(path: Path) -> None:
    """Create a file, or cut off the line that was not written to its end. Raises OSError."""
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - BLOCK)
            file.seek(start)
            if (newline := file.read(end - start).rfind(b"\n")) >= 0:
                end = start + newline + 1
                break
            end = start
        file.truncate(end)
    path.chmod(0o600)


def make_private(path: Path) -> None:
    """Create a directory, and those above it that are missing, for their owner only. Raises OSError.

    `mkdir` with `parents` leaves their modes to the umask.
    """
    if not path.parent.exists():
        make_private(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def why_not_reached(path: Path) -> str:
    """Why nobody can see what is at a path, as a clause; empty if that can be seen, or if nothing is there."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return str(error.strerror).lower()
    return ""
