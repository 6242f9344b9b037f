"""The verdicts of --verify: a file for each program, its arguments, versions and tasks, so that each is verified once.

The files are only a cache: what can't be read is ignored, whatever it contains.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from clusterkit.system.files import make_private, read_regular, write_whole
from clusterkit.words import wire
from clusterkit.words.verification import Equality, Verification

LARGEST = 1 << 16  # bytes; larger files are not read
MOST = 500  # the number of files that are kept; the oldest are removed
FORMAT = 1  # a part of each key: a change of what is compared makes older verdicts invalid
MET = "met"  # the directory of empty files, one for each program for which the hint about --verify was shown


def key_of(facts: Mapping[str, Any]) -> str:
    """Return the name of a verdict: a digest of everything that it depends on."""
    text = json.dumps({**facts, "format": FORMAT}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]


def parsed(content: bytes) -> Verification | None:
    """Read a stored verdict; None if the content is not one."""
    try:
        found: Verification = wire.decode(Verification, json.loads(content))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    is_valid = (
        isinstance(found.equality, Equality)
        and isinstance(found.steps, int)
        and not isinstance(found.steps, bool)
        and all(isinstance(text, str) for text in (found.text, found.remedy, found.place))
    )
    return replace(found, cached=True) if is_valid else None


class VerdictStore:
    """The verdicts in a state directory. Errors of the file system only mean that a verdict is not kept."""

    def __init__(self, home: Path) -> None:
        self.path = home / "verified"

    def find(self, key: str) -> Verification | None:
        with suppress(OSError):
            return parsed(read_regular(self.path / f"{key}.json", LARGEST))
        return None

    def keep(self, key: str, verdict: Verification) -> None:
        with suppress(OSError):
            make_private(self.path)
            write_whole(self.path / f"{key}.json", json.dumps(wire.encode(verdict)).encode(), 0o600)
            self._prune(self.path)

    def is_new(self, program: str) -> bool:
        """Note that a program was met; return whether it was the first time. False if this can't be stored."""
        directory = self.path / MET
        with suppress(OSError):
            make_private(directory)
            descriptor = os.open(directory / program, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.close(descriptor)
            self._prune(directory)
            return True
        return False

    def _prune(self, directory: Path) -> None:
        """Remove the oldest files of a directory if there are more than MOST."""
        files = [entry for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False)]
        for entry in sorted(files, key=lambda entry: entry.stat().st_mtime)[:-MOST]:
            Path(entry).unlink(missing_ok=True)
