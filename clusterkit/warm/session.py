"""The session: a Python process with warm servers for its own runs, which end when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from clusterkit.job.options import Gathered
from clusterkit.store.control import make_private, temporary_for
from clusterkit.warm.fork_client import first_readable
from clusterkit.warm.warm_client import WarmServerError, warm_dir

FILE_NAME = 24  # bytes of the longest file name in the directory, with its slash


@dataclass(frozen=True, slots=True)
class Session:
    """A Python process, with the directories of its own warm servers and of the user's."""

    pid: int
    directory: Path
    users: Path

    @classmethod
    def new(cls) -> Session:
        """Return this process's session. Creates and opens nothing."""
        name = f"clusterkit-warm-{token_hex(8)}"
        return cls(os.getpid(), Path(temporary_for(1 + len(name) + FILE_NAME), name), warm_dir())

    def make_directory(self) -> None:
        """Create the directory, or check that it is private to this user: another user may learn its name from `ps`.

        Raises WarmServerError.
        """
        try:
            is_ours = make_private(self.directory)
        except OSError as error:
            raise WarmServerError(f"{self.directory} can't be used: {error.strerror}.") from None
        if not is_ours:
            raise WarmServerError(f"{self.directory} is not private to this user, so no warm server can listen there.")

    def remove_directory(self) -> None:
        """Remove the directory when the process ends. Its servers, which notice that, do the same."""
        with suppress(OSError):
            for path in self.directory.iterdir():
                path.unlink(missing_ok=True)
            self.directory.rmdir()

    @contextmanager
    def watched(self, lifeline: int) -> Iterator[int | None]:
        """Open a pidfd of the process, readable once it has ended; None if it has ended already.

        `lifeline`, a pipe to the process, shows that the pid has not been reused.
        Why not use the pipe: each run has its own, and a server outlives the run. A pipe for the server would have to
        stay open for the whole life of the process, and be closed in each of its forks.
        """
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            yield None
            return
        try:
            yield pidfd if first_readable((lifeline,), 0) is None else None
        finally:
            os.close(pidfd)


class ApiRequest(NamedTuple):
    """A job that a Python process runs. `lifeline` is a pipe to the process, which the run must not outlive."""

    job: Gathered
    lifeline: int
    session: Session
