"""A directory of checkpoints that a kill at any moment leaves complete: write aside, seal, rename.

A complete checkpoint is a directory ``ckpt-<step>`` with TensorFlow's files and ``manifest.json``, which gives every
file's size in bytes and SHA-256. Names that start with a dot are not complete, or are on their way out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

MANIFEST: Final = "manifest.json"
_COMPLETE = re.compile(r"ckpt-(0|[1-9][0-9]*)")
_REPLACED = re.compile(r"\.replaced-ckpt-(0|[1-9][0-9]*)")


class Checkpoint(NamedTuple):
    """A checkpoint's place: `step` is the number of steps done when it was saved."""

    step: int
    path: str


class Damaged(Exception):
    """A checkpoint cannot be used; the message is a clause that says which file and why."""


class CheckpointStore:
    """The checkpoints in one directory, as one task writes and reads them.

    Args:
        directory: absolute; made on the first save.
        owner: the task's name, part of the names of what it has in the making, so that it cleans up only its own.
    """

    def __init__(self, directory: str, owner: str) -> None:
        self.directory = Path(directory)
        self._prefix = f".saving-{owner.replace(':', '-')}-"

    def stage(self) -> Path:
        """Make a hidden directory to write a checkpoint into.

        It is next to the complete ones, so that the rename stays within one file system. Its name is new each time:
        a parameter server may still be writing what a killed chief had asked for.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        staged = self._unused()
        staged.mkdir()
        return staged

    def publish(self, staged: Path, step: int) -> str:
        """Seal what is in `staged` and make it ``ckpt-<step>``; a complete one of that step is there until then."""
        _seal(staged, step)
        final = self.directory / f"ckpt-{step}"
        replaced = self.directory / f".replaced-{final.name}"
        if final.exists():
            # Why not one exchange of the two names: network file systems do not have it. Between the two renames
            # the old one counts under its hidden name (see `found`).
            shutil.rmtree(replaced, ignore_errors=True)
            final.rename(replaced)
        staged.rename(final)
        _sync(self.directory)
        shutil.rmtree(replaced, ignore_errors=True)
        return str(final)

    def discard(self, path: Path) -> None:
        """Remove a directory; no error where it is gone, or partly gone."""
        shutil.rmtree(path, ignore_errors=True)

    def clean(self) -> None:
        """Remove what killed saves of this task left behind, and finish a replacement that a kill cut short."""
        for name in self._names():
            if name.startswith(self._prefix):
                self.discard(self.directory / name)
            elif match := _REPLACED.fullmatch(name):
                self._settle(self.directory / name, self.directory / f"ckpt-{match[1]}")

    def found(self) -> list[Checkpoint]:
        """All checkpoints under their final names, newest first; damaged ones among them."""
        steps: dict[int, str] = {}
        # Complete ones win. They are looked for on either side, since a checkpoint that is being replaced (see
        # `publish`) has the one name before, the other one meanwhile, and the first one again afterwards.
        for pattern in (_COMPLETE, _REPLACED, _COMPLETE):
            for name in self._names():
                if match := pattern.fullmatch(name):
                    steps[int(match[1])] = str(self.directory / name)
        return [Checkpoint(step, steps[step]) for step in sorted(steps, reverse=True)]

    def intact(self) -> Iterator[Checkpoint | tuple[Checkpoint, Damaged]]:
        """Each checkpoint, newest first, checked as it is asked for; a damaged one comes with what is wrong."""
        for found in self.found():
            try:
                verify(found)
            except Damaged as damage:
                yield found, damage
            else:
                yield found

    def prune(self, newest: int, keep: int, damaged: Iterable[str] = ()) -> None:
        """After `newest` is in place, keep it and the `keep` - 1 before it, and remove the damaged ones.

        Checkpoints of later steps stay: they are of another run's making, and not ours to judge.
        """
        doomed = {Path(path) for path in damaged if Path(path).name != f"ckpt-{newest}"}
        earlier = [Path(found.path) for found in self.found() if found.step <= newest]
        doomed |= set([path for path in earlier if path not in doomed][keep:])
        for path in doomed:
            # Renamed first, so that nobody reads a checkpoint that is half removed.
            with contextlib.suppress(FileNotFoundError):
                self.discard(path.rename(self._unused()))

    def _settle(self, replaced: Path, final: Path) -> None:
        if final.exists():
            self.discard(replaced)
        else:
            replaced.rename(final)

    def _unused(self) -> Path:
        # Random, not the pid: in a container a restarted task may well have the same pid.
        return self.directory / f"{self._prefix}{secrets.token_hex(6)}"

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self.directory.iterdir()]
        except FileNotFoundError:
            return []


def verify(found: Checkpoint) -> None:
    """Read a checkpoint's every byte against its manifest.

    Raises:
        Damaged: the manifest is missing or unreadable, or a file is missing, cut short or changed.
    """
    directory = Path(found.path)
    for name, (size, digest) in _manifest(directory, found.step).items():
        try:
            actual = (directory / name).stat().st_size
            if actual != size:
                raise Damaged(f"{name} has {actual} bytes where its manifest says {size}")
            if _sha256(directory / name) != digest:
                raise Damaged(f"{name} is not what was saved: its SHA-256 differs from the manifest's")
        except OSError as error:
            raise Damaged(f"{name} cannot be read ({error.strerror})") from None


def _manifest(directory: Path, step: int) -> dict[str, tuple[int, str]]:
    try:
        content = json.loads((directory / MANIFEST).read_bytes())
        if content["step"] != step:
            raise Damaged(f"its {MANIFEST} is of step {content['step']}")
        return {name: (entry["bytes"], entry["sha256"]) for name, entry in content["files"].items()}
    except OSError as error:
        raise Damaged(f"its {MANIFEST} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damaged(f"its {MANIFEST} is not a checkpoint's manifest, or was cut short") from None


def _seal(directory: Path, step: int) -> None:
    """Add the manifest and bring everything to the disk, so that the rename cannot get there first."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    files = {
        str(path.relative_to(directory)): {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in paths
    }
    manifest = directory / MANIFEST
    manifest.write_text(json.dumps({"format": 1, "step": step, "files": files}, indent=1) + "\n")
    for path in (*paths, manifest, *{path.parent for path in paths}, directory):
        _sync(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
