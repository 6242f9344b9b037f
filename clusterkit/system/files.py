"""Creates files atomically, privately, or with reserved disk space; reads the end of files that a task may replace."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

BLOCK = 1 << 16  # bytes to read at a time in the search for the end of a line


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Create or replace a file atomically. Its mode is `mode` without the bits in the umask. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)
    part.replace(path)


@contextmanager
def open_fd(path: str | PurePath, flags: int) -> Iterator[int]:
    """Open a file, private if it is new, and yield the descriptor, which closes on exec. Raises OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def allocate(path: Path, size: int) -> None:
    """Create a file with `size` bytes allocated on disk. Raises OSError."""
    with open_fd(path, os.O_WRONLY | os.O_CREAT) as file:
        os.posix_fallocate(file, 0, size)


def truncate_to_lines(path: Path) -> None:
    """Create the file, or if it exists, remove an incomplete last line. Raises OSError."""
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
    """Create a directory and missing parents with access for the owner only, whatever the umask. Raises OSError."""
    if not path.parent.exists():
        make_private(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def why_not_reached(path: Path) -> str:
    """Return why a path can't be accessed, as a clause; empty if the path is accessible or does not exist."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return str(error.strerror).lower()
    return ""


@contextmanager
def regular_fd(path: Path, flags: int) -> Iterator[int]:
    """Open a regular file, private if it is new, and yield the descriptor. Raises OSError.

    A link, a named pipe or a device in the file's place is not followed or waited for: it counts as missing, since a
    run's directory may be another user's, and a task can replace files in its own.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, 0o600)
    except ValueError:  # no file can have this name
        raise FileNotFoundError from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        yield descriptor
    finally:
        os.close(descriptor)


def open_regular(path: Path) -> io.FileIO:
    """Open a regular file for reading. Raises the same exceptions as `regular_fd`."""
    with regular_fd(path, os.O_RDONLY) as descriptor:
        return io.FileIO(os.dup(descriptor))


def read_regular(path: Path, longest: int) -> bytes:
    """Return the content of a regular file. Raises OSError, also if the file has more than `longest` bytes."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > longest:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read(longest)


def end_of(path: Path, longest: int) -> bytes:
    """Return at most the last `longest` bytes of a file. Raises the same exceptions as `regular_fd`."""
    with open_regular(path) as file:
        return os.pread(file.fileno(), longest, max(0, os.fstat(file.fileno()).st_size - longest))


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield a short path for a Unix socket, since a path of more than 107 bytes is refused. Raises OSError."""
    with open_fd(path.parent, os.O_RDONLY | os.O_DIRECTORY) as directory:
        yield f"/proc/self/fd/{directory}/{path.name}"


def is_directory(path: str) -> bool:
    """Return whether a string from a user is a directory's path. Unlike Path.is_dir, this never raises OSError."""
    return os.path.isdir(path)


def is_file(path: str) -> bool:
    """Return whether a string from a user is a file's path. Unlike Path.is_file, this never raises OSError."""
    return os.path.isfile(path)
