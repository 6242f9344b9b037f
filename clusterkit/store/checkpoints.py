"""Finds, damages, moves and copies checkpoints on disk, in any format."""

from __future__ import annotations

import glob
import itertools
import math
import os
import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePath

from clusterkit.words.errors import RunDirectoryError

FLIPPED = 64  # the number of bytes to invert, in the middle half of a file
MOST_ENTRIES = 100_000  # the maximum number of directory entries to examine
LONGEST_SCAN = 5.0  # seconds; the maximum duration of a scan
_ENDINGS = (".index", ".keras", ".weights.h5", ".h5", ".ckpt")
_TRIES = 3  # the maximum number of scans, since a program may remove a checkpoint between the scan and the open


def newest_checkpoint(
    directory: PurePath, before: float = math.inf, ended: Callable[[], bool] = lambda: False
) -> str | None:
    """Return the path of the newest checkpoint below a directory, or None. Checkpoints are recognized by name.

    Checkpoints modified after the wall time `before` are skipped. The directory may change during the scan. After
    MOST_ENTRIES entries or LONGEST_SCAN seconds, or if `ended` returns true, return the newest one found so far.
    """
    best: tuple[float, str] | None = None
    until = time.monotonic() + LONGEST_SCAN
    for entry in itertools.islice(_entries(os.fspath(directory)), MOST_ENTRIES):
        if ended() or time.monotonic() > until:
            break
        if not entry.name.endswith(_ENDINGS):
            continue
        with suppress(OSError):  # the entry has been removed
            written = entry.stat().st_mtime
            best = max(best or (-math.inf, ""), (written, entry.path)) if written <= before else best
    return best[1] if best else None


def _entries(directory: str) -> Iterator[os.DirEntry[str]]:
    """Yield the entries below a directory, except hidden ones. Entries that change during the scan may be missing."""
    todo = [directory]
    while todo:
        with suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)


def corrupt(directory: PurePath, how: str, seed: str) -> tuple[str, str] | None:
    """Damage the newest checkpoint's biggest file. Raises OSError.

    Return a description of the damage and the file's relative path, or None if there is nothing to damage.
    """
    for _ in range(_TRIES):
        newest = newest_checkpoint(directory)
        if newest is None:
            return None
        with suppress(FileNotFoundError):
            file = _biggest_file(Path(newest))
            times = file.stat()
            if times.st_size == 0:
                return None
            if how == "truncate":
                os.truncate(file, times.st_size // 2)
                done = f"cut to {times.st_size // 2} of its {times.st_size} bytes:"
            else:
                done = _flip(file, times.st_size, seed)
            # Restore the file's times, so that the order of the checkpoints' ages stays the same.
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
            return done, str(file.relative_to(directory))
    return None


def _biggest_file(checkpoint: Path) -> Path:
    """Return the biggest file with a checkpoint's values. TensorFlow stores data files next to the index file."""
    files: list[Path] = []
    if checkpoint.name.endswith(".index"):
        files = sorted(checkpoint.parent.glob(f"{glob.escape(checkpoint.stem)}.data-*-of-*"))
    elif checkpoint.is_dir():
        files = sorted(path for path in checkpoint.rglob("*") if path.is_file())
    return max(files or [checkpoint], key=lambda path: path.stat().st_size)


def _flip(file: Path, size: int, seed: str) -> str:
    """Flip bytes in the middle of a file. Raises FileNotFoundError if a task has just begun to write the file anew."""
    middle = range(size // 4, max(size // 4 + 1, size - size // 4))
    places = random.Random(seed).sample(middle, min(FLIPPED, len(middle)))
    flipped = 0
    with file.open("r+b", buffering=0) as opened:
        for place in places:
            value = os.pread(opened.fileno(), 1, place)
            if value:
                os.pwrite(opened.fileno(), bytes([value[0] ^ 0xFF]), place)
                flipped += 1
    if not flipped:
        raise FileNotFoundError
    return f"flipped {flipped} byte{'s' if flipped > 1 else ''} in"


def move_aside(directory: Path) -> Path | None:
    """Rename a directory by appending the first free number, and create an empty one in its place. Raises OSError.

    Return the new path of the old directory, or None if the directory was missing or empty.
    """
    if not directory.is_dir() or not any(directory.iterdir()):
        return None
    names = (directory.with_name(f"{directory.name}-{number}") for number in itertools.count(1))
    aside = next(name for name in names if not os.path.lexists(name))
    directory.rename(aside)
    directory.mkdir(mode=0o700)
    return aside


def has_files(directory: Path) -> bool:
    """Return whether there is any file below a directory, except hidden ones. Programs may save in any format."""
    return any(not entry.is_dir(follow_symlinks=False) for entry in _entries(os.fspath(directory)))


def continue_from(old: Path, new: Path) -> None:
    """Copy an old run's checkpoints to a new run's directory, unless both runs use the same directory.

    The old run stays unchanged, and can be resumed again or removed. Hard links would not ensure this: a program that
    writes a checkpoint in place, as Keras does, would change the old run's checkpoint. A symbolic link stays a link,
    which leads to the copy if it led to a part of the old directory.
    Raises RunDirectoryError if the copy fails or the new directory is not empty.
    """
    if old.resolve() == new.resolve():
        return
    try:
        if any(new.iterdir()):
            raise RunDirectoryError(
                f"--checkpoint-dir {new} is not empty, so the checkpoints of {old} are not copied there. "
                f"Choose an empty directory, or omit --resume to continue from the checkpoints in {new}."
            )
        shutil.copytree(old, new, symlinks=True, dirs_exist_ok=True)
        _redirect_links(old, new)
    except shutil.Error as error:  # the error's argument is a list of (source, target, reason)
        raise _not_taken_over(old, new, error.args[0][0][2]) from None
    except OSError as error:
        raise _not_taken_over(old, new, error.strerror) from None


def _redirect_links(old: Path, new: Path) -> None:
    """Let copied links lead to what the originals led to or, if that is below `old`, to its copy. Raises OSError.

    Only links with an absolute path, and those that leave the directory, have to be changed.
    """
    copy, spellings = os.path.abspath(new), (os.path.realpath(old), os.path.abspath(old))
    for entry in list(_entries(copy)):
        if not entry.is_symlink():
            continue
        target = os.readlink(entry.path)
        directory = os.path.dirname(os.path.relpath(entry.path, copy))
        # `normpath` instead of `realpath`: what the link leads to may itself be a link, or be missing.
        led_to = os.path.normpath(os.path.join(spellings[0], directory, target))
        leads_to = os.path.normpath(os.path.join(copy, directory, target))
        wanted = _moved(led_to, spellings, copy)
        if leads_to != wanted:
            os.unlink(entry.path)
            os.symlink(wanted, entry.path)


def _moved(path: str, spellings: Iterable[str], copy: str) -> str:
    """Return where a path is in the copy of a directory, or the path itself if it is elsewhere.

    `spellings` are the absolute paths of the original directory.
    """
    for original in spellings:
        if path == original:
            return copy
        if path.startswith(f"{original}/"):
            return os.path.join(copy, path[len(original) + 1 :])
    return path


def _not_taken_over(old: Path, new: Path, why: object) -> RunDirectoryError:
    return RunDirectoryError(f"Cannot copy the checkpoints of {old} to {new}: {why}.")
