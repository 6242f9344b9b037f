"""The session: the Python process whose runs come from warm servers that are kept for it alone, while it lives."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from clusterkit.client.control_socket import make_private, temporary_for
from clusterkit.warm.shared import WarmServerError, warm_dir

FILE_NAME = 24  # bytes of the longest name in the directory, with its slash


@dataclass(frozen=True, slots=True)
class Session:
    """`directory` is where its servers listen, made with the first of them; `users` where those of the user do."""

    pid: int
    directory: Path
    users: Path

    @classmethod
    def new(cls) -> Session:
        """This process's. Nothing is made or opened yet."""
        name = f"clusterkit-warm-{token_hex(8)}"
        return cls(os.getpid(), Path(temporary_for(1 + len(name) + FILE_NAME), name), warm_dir())

    def make_directory(self) -> None:
        """Make it, or see that it is this user's alone: command lines tell its name. Raises WarmServerError."""
        try:
            is_ours = make_private(self.directory)
        except OSError as error:
            raise WarmServerError(f"{self.directory} can't be used: {error.strerror}.") from None
        if not is_ours:
            raise WarmServerError(f"{self.directory} is not this user's alone, so no warm server can listen there.")

    def remove_directory(self) -> None:
        """What is left of it when the process ends; the servers, which see that too, do the same."""
        with suppress(OSError):
            for path in self.directory.iterdir():
                path.unlink(missing_ok=True)
            self.directory.rmdir()

    @contextmanager
    def watched(self, rope: int) -> Iterator[int | None]:
        """A descriptor that can be read once the process has ended; None where that is so already.

        `rope`, a pipe to the process, tells that the pid is still its own.
        Why not the pipe itself, which each run has: a server that outlives the run needs one that the process holds
        open for good, and that every fork of the process has to close.
        """
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            yield None
            return
        try:
            cut = select.poll()
            cut.register(rope, select.POLLIN)
            yield None if cut.poll(0) else pidfd
        finally:
            os.close(pidfd)
