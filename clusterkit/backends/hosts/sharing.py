"""Whether hosts share the run's directories: the supervisor leaves a file in each, which every agent looks for."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

SEEN_WITHIN = 40.0  # seconds: NFS shows other hosts a new file up to half a minute late
_PREFIX = ".clusterkit-shared-"
WaitUntil = Callable[[Callable[[], bool], float], bool]


class NotShared(Exception):
    """A host does not see, or can't write, what it has to; the message is a sentence about it."""


class SharedDirectories:
    """Directories, and the file in each by which they are recognized. For the supervisor. Raises OSError."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self.token = secrets.token_hex(8)
        self._files = [_file(directory, self.token) for directory in directories]
        for file in self._files:
            file.touch(mode=0o600)

    def clear(self) -> None:
        for file in self._files:
            file.unlink(missing_ok=True)


def seconds_until_seen(directory: Path, token: str, wait: WaitUntil) -> float:
    """Wait for the supervisor's file, and try to write beside it; return how long it took. Raises NotShared."""
    begun = time.monotonic()
    if not wait(lambda: _is_seen(directory, token), SEEN_WITHIN):
        raise NotShared(
            f"It does not see in {directory} what the supervisor wrote there {SEEN_WITHIN:g} s ago. All hosts have to "
            "share this directory: choose another with --checkpoint-dir, or set CLUSTERKIT_HOME."
        )
    seen = time.monotonic() - begun
    own = directory / f"{_PREFIX}{token}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        own.touch(mode=0o600)
        own.unlink()
    except OSError as error:
        raise NotShared(f"It can't write to {directory}: {error.strerror}.") from None
    return seen


def _is_seen(directory: Path, token: str) -> bool:
    with suppress(OSError):
        list(directory.iterdir())  # listing it makes a network file system look again
    return _file(directory, token).exists()


def _file(directory: Path, token: str) -> Path:
    return directory / f"{_PREFIX}{token}"
