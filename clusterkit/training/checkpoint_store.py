"""A directory of checkpoints that stays consistent if the task is killed at any moment.

A checkpoint is written to a hidden directory, sealed with a manifest, and then renamed. A complete checkpoint is a
directory ``ckpt-<step>`` with TensorFlow's files and ``manifest.json``, which holds the size in bytes and the SHA-256
of every file. Directories whose names start with a dot are incomplete or being removed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

MANIFEST: Final = "manifest.json"
RETRY_AFTER = (0.1, 0.2, 0.4, 0.8, 1.6)  # seconds to wait before each retry of a read
MISSING = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)  # errors that mean damage
CHECK_EVERY = 0.1  # seconds between checks of whether a checkpoint has become visible
T = TypeVar("T")
_COMPLETE = re.compile(r"ckpt-(0|[1-9][0-9]*)")
_REPLACED = re.compile(r"\.replaced-ckpt-(0|[1-9][0-9]*)")


class Checkpoint(NamedTuple):
    """A saved checkpoint: the number of steps done when it was saved, and its directory."""

    step: int
    path: str


class Damaged(Exception):
    """A checkpoint is unusable. The message is a clause that names the file and the reason."""


class CheckpointUnreadable(Exception):
    """A checkpoint can't be read at the moment. Since it may be intact, it is neither skipped nor removed."""


class CheckpointStore:
    """Writes, finds and prunes the checkpoints in one directory, on behalf of one task.

    Args:
        directory: absolute path; created on the first save.
        owner: the task's name. It is part of the names of unfinished checkpoints, so that `clean` removes only those
            of this task.
    """

    def __init__(self, directory: str, owner: str) -> None:
        self.directory = Path(directory)
        self._prefix = f".saving-{owner.replace(':', '-')}-"

    def path_of(self, step: int) -> Path:
        """Return the path of a step's complete checkpoint, whether or not it exists."""
        return self.directory / f"ckpt-{step}"

    def stage(self) -> Path:
        """Create a hidden directory into which a checkpoint can be written.

        The directory is next to the complete checkpoints, so that the rename stays within one file system. Each call
        uses a new name, since a parameter server may still be writing the checkpoint that a killed chief requested.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        staged = self._unused()
        staged.mkdir()
        return staged

    def publish(self, staged: Path, step: int) -> str:
        """Seal `staged` and rename it to ``ckpt-<step>``, replacing any checkpoint of the step; return the new path."""
        _seal(staged, step)
        final = self.path_of(step)
        replaced = self.directory / f".replaced-{final.name}"
        if os.path.lexists(final):
            # The names are not exchanged in one step, since network file systems can't do that. Between the two
            # renames, `found` returns the old checkpoint under its hidden name.
            remove(replaced)
            final.rename(replaced)
        staged.rename(final)
        _sync(self.directory)
        remove(replaced)
        return str(final)

    def clean(self, finish: bool = True) -> None:
        """Remove the leftovers of this task's interrupted saves and, if `finish`, complete interrupted replacements.

        Only the task that publishes checkpoints may set `finish`: other tasks could disturb a replacement in progress.
        """
        for name in self._names():
            path = self.directory / name
            if name.startswith(self._prefix):
                remove(path)
            elif finish and (match := _REPLACED.fullmatch(name)):
                if (target := self.directory / f"ckpt-{match[1]}").exists():
                    remove(path)
                else:
                    path.rename(target)

    def found(self) -> list[Checkpoint]:
        """Return all checkpoints, newest first, without checking whether they are damaged."""
        steps: dict[int, str] = {}
        # Final names are listed twice, before and after the hidden names. If `publish` replaces a checkpoint at the
        # same time, the checkpoint first has its final name, then a hidden name, and then the final name again.
        for pattern in (_COMPLETE, _REPLACED, _COMPLETE):
            for name in self._names():
                if match := pattern.fullmatch(name):
                    steps[int(match[1])] = str(self.directory / name)
        return [Checkpoint(step, steps[step]) for step in sorted(steps, reverse=True)]

    def has(self, path: str, within: float) -> bool:
        """Return whether another host's checkpoint `path`, or a later one, becomes visible within `within` seconds.

        A network file system may show new files late: NFS, for example, after half a minute.
        """
        if Path(path).parent != self.directory or (named := _COMPLETE.fullmatch(Path(path).name)) is None:
            return True  # `path` is not a checkpoint in this directory
        until = time.monotonic() + within
        while not any(found.step >= int(named[1]) for found in self.found()):
            if time.monotonic() >= until:
                return False
            time.sleep(CHECK_EVERY)
        return True

    def intact(self) -> Iterator[Checkpoint | tuple[Checkpoint, Damaged]]:
        """Verify checkpoints one by one, newest first. Yield each one; if it is damaged, with the reason, as a pair."""
        for found in self.found():
            try:
                verify(found)
            except Damaged as damage:
                yield found, damage
            else:
                yield found

    def prune(self, newest: int, keep: int, damaged: Iterable[str] = ()) -> None:
        """Keep the checkpoint of step `newest` and the `keep` - 1 before it; remove older and damaged checkpoints.

        Checkpoints of steps after `newest` are kept, since they belong to another run.
        """
        removable = {Path(path) for path in damaged if Path(path).name != f"ckpt-{newest}"}
        earlier = [Path(found.path) for found in self.found() if found.step <= newest]
        removable |= set([path for path in earlier if path not in removable][keep:])
        for path in removable:
            # Renamed first, so that no task reads a partly removed checkpoint.
            with contextlib.suppress(FileNotFoundError):
                remove(path.rename(self._unused()))

    def _unused(self) -> Path:
        # A random name, since a pid would not be unique: in a container, a restarted task may have the same pid.
        return self.directory / f"{self._prefix}{secrets.token_hex(6)}"

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self.directory.iterdir()]
        except FileNotFoundError:
            return []


def verify(found: Checkpoint) -> None:
    """Check every byte of a checkpoint against its manifest.

    Raises:
        Damaged: the manifest is missing or invalid, or a file is missing, cut short or changed.
        CheckpointUnreadable: several attempts to read a file have failed for another reason, such as an I/O error,
            missing permissions or too many open files.
    """
    directory = Path(found.path)
    for name, (size, digest) in _manifest(directory, found.step).items():
        try:
            actual = _retried(lambda path: path.stat().st_size, directory / name)
            if actual != size:
                raise Damaged(f"{name} has {actual} bytes where its manifest says {size}")
            if _retried(_sha256, directory / name) != digest:
                raise Damaged(f"{name} is not what was saved: its SHA-256 differs from the manifest's")
        except OSError as error:
            raise Damaged(f"{name} cannot be read ({error.strerror})") from None
        except ValueError:  # a NUL character in a name
            raise Damaged(f"its {MANIFEST} names {name!r}") from None


def is_intact(checkpoint: Checkpoint) -> bool:
    """Return whether no file of the checkpoint is damaged or missing. Raises CheckpointUnreadable."""
    try:
        verify(checkpoint)
    except Damaged:
        return False
    return True


def _manifest(directory: Path, step: int) -> dict[str, tuple[int, str]]:
    try:
        content = json.loads(_retried(Path.read_bytes, directory / MANIFEST))
        if content["step"] != step:
            raise Damaged(f"its {MANIFEST} is of step {content['step']}")
        return {name: (entry["bytes"], entry["sha256"]) for name, entry in content["files"].items()}
    except OSError as error:
        raise Damaged(f"its {MANIFEST} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damaged(f"its {MANIFEST} is not a checkpoint's manifest, or was cut short") from None


def _retried(read: Callable[[Path], T], path: Path) -> T:
    """Call `read`, with retries after errors. Raises OSError if the file is missing, otherwise CheckpointUnreadable."""
    waits = iter(RETRY_AFTER)
    while True:
        try:
            return read(path)
        except OSError as error:
            if error.errno in MISSING:
                raise
            if (seconds := next(waits, None)) is None:
                raise CheckpointUnreadable(
                    f"The checkpoint file {path} can't be read: {error.strerror}. It may be intact, so it is neither "
                    "skipped nor removed. Start the program again when it can be read, or move the checkpoint away."
                ) from error
        time.sleep(seconds)


def _seal(directory: Path, step: int) -> None:
    """Write the manifest, and sync all files to disk, so that a later rename can't reach the disk before them."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    files = {
        str(path.relative_to(directory)): {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in paths
    }
    manifest = directory / MANIFEST
    manifest.write_text(json.dumps({"format": 1, "step": step, "files": files}, indent=1) + "\n")
    sync(directory)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Sync a file, or a directory with all its contents, to the disk. Raises OSError."""
    for one in (*path.rglob("*"), path):
        if one.is_file() or one.is_dir():
            _sync(one)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove(path: Path) -> None:
    """Remove a file or directory as far as possible. Errors are ignored, for example if the path does not exist."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.unlink()


def follow_chief(key: str, choose: Callable[[], Checkpoint | None], is_chief: bool) -> Checkpoint | None:
    """Return the chief's choice in every worker.

    The chief publishes its choice through TensorFlow's coordination service, where the other workers wait for it;
    TensorFlow raises an error in them if the chief dies. Before a strategy is created, the service does not exist, and
    each worker chooses independently. The choices agree, since all workers read the same directory, and no worker
    writes to this directory before all workers have restored.

    A collective operation is not used, since it would need the strategy and a replica context.

    Args:
        key: the name of this choice in the coordination service; the same in all workers, and new for each choice.
        choose: selects a checkpoint, or returns None if none exists.
    """
    try:
        from tensorflow.python.eager import context  # the service has no public name
    except ImportError:
        return choose()
    service = context.context()
    if getattr(service, "coordination_service", None) is None:
        return choose()
    if not is_chief:
        answer = json.loads(service.get_config_key_value(key))
        return Checkpoint(*answer) if answer else None
    found = choose()
    service.set_config_key_value(key, json.dumps(found))
    return found
